"""`strata init`: writes the first settings file, and says what the server and the shell need besides.
Not here: the text of the file (`config/new_settings.py`)."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from strata_cdc.cli.doctor import doctor
from strata_cdc.cli.report import print_report
from strata_cdc.config.new_settings import NewSettings
from strata_cdc.config.settings import SETTINGS_VARIABLE, connection_variable, parse_settings
from strata_cdc.errors import Usage

_SOURCE, _TABLE, _LAKE = "shop", "*.*", "lake"


def init(
    context: typer.Context,
    source: Annotated[
        str | None, typer.Option(help=f"What to call the server; by default {_SOURCE}.", show_default=False)
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Patterns of database.table, as in 'shop.*'; may be repeated. By default {_TABLE}.",
            show_default=False,
        ),
    ] = None,
    lake: Annotated[
        str | None,
        typer.Option(help=f"A folder, or a URL as in s3://bucket/folder; by default {_LAKE}.", show_default=False),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Where the schema versions are, as in sqlite:///strata.db; by default in a database on the server.",
            show_default=False,
        ),
    ] = None,
    mirrors: Annotated[  # noqa: FBT002  a switch of the command line
        bool, typer.Option(help="Whether the tables also get mirrors: tables as they are now.")
    ] = True,
    file: Annotated[Path, typer.Option(help="The file to write; it must not be there.")] = Path("strata.toml"),
) -> int:
    """Writes a settings file; asks for what is not given, in a terminal.

    It prints the statements that make the account, and the variables to set.

    If the connection is set already, the doctor looks at the server at the end.
    """
    as_json = context.obj["json"]
    asks = sys.stdin.isatty() and not as_json
    if file.exists():
        raise Usage(f"{file} is there already", remedy="Edit it, or give another --file.")
    new = NewSettings(
        source or _ask("What to call the server", _SOURCE, asks=asks),
        tuple(table or _ask("Its tables, as patterns", _TABLE, asks=asks).split()),
        lake or _ask("Where the tables go: a folder, or s3://bucket/folder", _LAKE, asks=asks),
        store,
        mirrors,
    )
    text = new.to_toml()
    parse_settings(text, str(file), lambda _: None)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as written:
        written.write(text)
    variable = connection_variable(new.connection)
    if as_json:
        print_report({"file": str(file), "variable": variable, "account": new.account()}, as_json=True)
    else:
        _say_next(file, new, variable)
    if variable not in os.environ:
        return 0
    os.environ[SETTINGS_VARIABLE] = str(file)
    return doctor(context)


def _ask(question: str, default: str, *, asks: bool) -> str:
    return str(typer.prompt(question, default)) if asks else default


def _say_next(file: Path, new: NewSettings, variable: str) -> None:
    exported = [f"export {SETTINGS_VARIABLE}={shlex.quote(str(file.resolve()))}"]
    if variable not in os.environ:
        exported.append(f"export {variable}='mysql://strata:PASSWORD@HOST:3306/'")
    typer.echo(f"{file} is written; docs/settings.md has all settings.")
    typer.echo("\nOn the server, as an administrator, unless the account is there:\n")
    typer.echo("\n".join(f"  {statement}" for statement in new.account()))
    typer.echo("\nIn the shell:\n")
    typer.echo("\n".join(f"  {line}" for line in exported))
    typer.echo("  strata doctor     # what is missing, and the statement for it")
    typer.echo("  strata run        # snapshot, land, decode, check, publish")
