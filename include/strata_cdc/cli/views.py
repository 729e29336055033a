"""`strata views`: CREATE VIEW over a source's change tables, for engines that read them.
Not here: the views (`views/`, `dialects/views.py`)."""

from __future__ import annotations

import os
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.cli.options import SourceName, Tables
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import say_exactly
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.views.make_views import MadeView


class ViewEngine(StrEnum):
    """Engines that read Delta tables or Parquet files where they lie."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class ViewReading(StrEnum):
    """By what they do."""

    DELTA = "delta"
    FILES = "files"


def views(
    context: typer.Context,
    source: SourceName = None,
    group: Annotated[
        str | None, typer.Option(help="A group of the settings: one view over the tables of all of its sources.")
    ] = None,
    dialect: Annotated[ViewEngine, typer.Option(help="For which engine.")] = ViewEngine.DUCKDB,
    through: Annotated[
        ViewReading, typer.Option(help="Its reader of Delta tables, or the Parquet files that there are now.")
    ] = ViewReading.DELTA,
    table: Tables = None,
    history: Annotated[  # noqa: FBT002  a switch of the command line
        bool,
        typer.Option("--history", help="Of mirrors: each version of each row, with its span (NAME__history)."),
    ] = False,
) -> None:
    """Prints CREATE VIEW statements: per table one with all changes (NAME__changes) and one with the rows of now."""
    from strata_cdc.dialects.engines import Dialect
    from strata_cdc.dialects.relations import Through
    from strata_cdc.store.database import OnMissing, open_store
    from strata_cdc.views.make_histories import make_histories
    from strata_cdc.views.make_views import make_views

    settings = load_settings(os.environ)
    patterns = table or ["*"]

    def wanted(name: TableName) -> bool:
        return any(fnmatchcase(str(name), pattern) for pattern in patterns)

    engine_name, reading = Dialect(dialect.value), Through(through.value)
    if group is not None:
        from strata_cdc.views.group_views import make_group_views

        if history:
            raise Usage("a view of histories is of one source: give --source instead of --group")
        made = make_group_views(settings.group(group), engine_name, reading, wanted)
    else:
        configured = settings.source(source)
        store = open_store(configured.store_url, OnMissing.EMPTY)
        make = make_histories if history else make_views
        made = make(configured.lake, configured.name, store, engine_name, reading, wanted)
    if table and not made:
        raise _nothing_of(table, history=history)
    for view in made:
        if context.obj["json"]:
            print_line(_line(view))
        else:
            _print(view)


def _nothing_of(patterns: list[str], *, history: bool) -> Usage:
    names = " or ".join(patterns)
    if history:
        return Usage(f"there is no mirror of {names}", remedy="`strata mirror list` lists the tables.")
    return Usage(f"nothing is published of {names}", remedy="`strata intervals` lists the tables.")


def _line(view: MadeView) -> dict[str, object]:
    return {
        "database": view.table.database,
        "table": view.table.table,
        "view": view.kind.value,
        "statements": view.statements,
        "notes": view.notes,
    }


def _print(view: MadeView) -> None:
    head = f"-- {view.table}, {view.kind.value}" + ("" if view.statements else ": no view")
    for line in (head, *(f"--   {note}" for note in view.notes)):
        say_exactly(" ".join(line.splitlines()))
    for statement in view.statements:
        say_exactly(f"{statement};\n")
