"""`strata reconcile`: do the tables of the lake have the rows that the server has?
Not here: comparing them (`quality/reconcile/`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from strata_cdc.cli.options import SourceName, Tables
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import say
from strata_cdc.config.settings import load_settings

if TYPE_CHECKING:
    from strata_cdc.quality.reconcile.report import TableReport


def reconcile(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    keys: Annotated[
        int | None, typer.Option(min=1, help="Compare about so many rows of each table, spread over it; all without.")
    ] = None,
) -> int:
    """Compares the tables' rows with those that SELECT gives, at a GTID set that both have, and names what differs.

    The server is read without a lock. What it has written meanwhile is landed and tracked. Exit code 0 if all tables
    match, 1 if one differs or cannot be compared.
    """
    from strata_cdc.pipeline import comparisons
    from strata_cdc.quality.reconcile.report import ComparisonOutcome

    settings = load_settings(os.environ)
    name = settings.source_name(source)
    watch = print_line if context.obj["json"] else show
    report = comparisons.reconcile(name, settings=settings, tables=tuple(table or ()), keys=keys, watch=watch)
    if not context.obj["json"]:
        outcomes = [compared.outcome for compared in report.tables]
        say(", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in ComparisonOutcome))
    return 0 if report.outcome is ComparisonOutcome.MATCH else 1


def show(report: TableReport) -> None:
    """Prints what was found of a table, for people."""
    for line in report.lines():
        say(line)
