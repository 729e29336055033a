"""`strata views`: CREATE VIEW over a source's change tables, for engines that read them.
Not here: the views (`jobs/views/`, `dialects/views.py`)."""

from __future__ import annotations

import json
import os
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated

import typer

from strata.cli.options import SourceName, Tables
from strata.cli.terminal import say_exactly
from strata.config.settings import load_settings

if TYPE_CHECKING:
    from strata.jobs.views.make_views import MadeView


class Engine(StrEnum):
    """Engines that read Delta tables or Parquet files in place."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class Reading(StrEnum):
    """By what they do."""

    DELTA = "delta"
    FILES = "files"


def views(
    context: typer.Context,
    source: SourceName = None,
    dialect: Annotated[Engine, typer.Option(help="For which engine.")] = Engine.DUCKDB,
    through: Annotated[
        Reading, typer.Option(help="Its reader of Delta tables, or the Parquet files that there are now.")
    ] = Reading.DELTA,
    table: Tables = None,
) -> None:
    """Prints CREATE VIEW statements: per table one with all changes (NAME__changes) and one with the rows of now."""
    # Imported here: the command's help must not load Arrow and sqlglot.
    from strata.dialects.engines import Dialect  # noqa: PLC0415  see above
    from strata.dialects.relations import Through  # noqa: PLC0415  see above
    from strata.jobs.views.make_views import make_views  # noqa: PLC0415  see above
    from strata.store.database import OnMissing, open_store  # noqa: PLC0415  see above

    found = load_settings(os.environ).source(source)
    patterns = table or ["*"]
    made = make_views(
        found.lake,
        found.name,
        open_store(found.store_url, OnMissing.EMPTY),
        Dialect(dialect.value),
        Through(through.value),
        lambda name: any(fnmatchcase(str(name), pattern) for pattern in patterns),
    )
    for one in made:
        if context.obj["json"]:
            typer.echo(json.dumps(_line(one), ensure_ascii=False))
        else:
            _print(one)


def _line(one: MadeView) -> dict[str, object]:
    return {
        "database": one.table.database,
        "table": one.table.table,
        "view": one.kind.value,
        "statements": one.statements,
        "notes": one.notes,
    }


def _print(one: MadeView) -> None:
    head = f"-- {one.table}, {one.kind.value}" + ("" if one.statements else ": no view")
    for line in (head, *(f"--   {note}" for note in one.notes)):
        say_exactly(" ".join(line.splitlines()))
    for statement in one.statements:
        say_exactly(f"{statement};\n")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(views)
