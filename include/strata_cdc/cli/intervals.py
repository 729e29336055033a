"""`strata intervals`: the state of each table in each interval: published, owed (pending), failed or held, and why.
Not here: the ledger (`store/table_intervals.py`), processing what is pending (`cli/plan.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct
from rich.table import Table

from strata_cdc.cli.options import SourceName, Tables, optional_time, source_of
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal
from strata_cdc.clock import exact_text, second_text
from strata_cdc.errors import ErrorFacts

if TYPE_CHECKING:
    from strata_cdc.config.settings import Source
    from strata_cdc.store.table_intervals import TableInterval


def intervals(
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    start: Annotated[str | None, typer.Option(help="Only intervals that start then or later (ISO 8601, UTC).")] = None,
    end: Annotated[str | None, typer.Option(help="Only intervals that start before.")] = None,
    owed: Annotated[bool, typer.Option("--owed", help="Only intervals that a run is still to publish.")] = False,  # noqa: FBT002  switches of the command line
    failed: Annotated[bool, typer.Option("--failed", help="Only intervals that failed.")] = False,  # noqa: FBT002
    held: Annotated[bool, typer.Option("--held", help="Only intervals that are blocked.")] = False,  # noqa: FBT002
) -> None:
    """Lists tables by interval: how many rows each has there, what became of them, and why.

    An interval in which a table has no rows is not listed for it.
    """
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.selection.wanted import unmatched_patterns, wanted_tables
    from strata_cdc.store.database import OnMissing, open_store
    from strata_cdc.store.ledgers import IntervalLedger
    from strata_cdc.store.owned import owners
    from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger

    configured = source_of(source)
    engine = open_store(configured.store_url, OnMissing.EMPTY)
    chosen = {IntervalState.PENDING: owed, IntervalState.FAILED: failed, IntervalState.BLOCKED: held}
    states = [state for state, wanted in chosen.items() if wanted] or [
        *chosen,
        IntervalState.PUBLISHED,
        IntervalState.DISCARDED,
    ]
    span = (optional_time(start), optional_time(end))
    stream = LandedStream.open(configured.lake, configured.name)
    unmatched_patterns(configured, engine, stream, tuple(table or ()))
    wanted = wanted_tables(configured, engine, stream, tuple(table or ()))
    entries = [
        entry
        for entry in TableIntervalLedger(engine).select(configured.name, states, starts=span)
        if wanted(TableName(entry.database, entry.table))
    ]
    marks = IntervalLedger(engine).all(configured.name)
    # Some of the entries may have become part of a longer interval since they were read.
    owner, ends = owners(marks), {interval.start: interval.end for interval in marks}
    if context.obj["json"]:
        for entry in entries:
            print_line(_line(entry, ends[owner(entry.start)]))
        return
    _show(configured, entries)


class _IntervalRecord(Struct, frozen=True):
    """A line of `--json`."""

    database: str
    table: str
    start: str
    end: str
    state: str
    rows: int
    published_rows: int
    run: str | None
    reason: ErrorFacts | None


def _line(entry: TableInterval, end: int) -> _IntervalRecord:
    return _IntervalRecord(
        database=entry.database,
        table=entry.table,
        start=exact_text(entry.start),
        end=exact_text(end),
        state=str(entry.state),
        rows=entry.rows,
        published_rows=entry.published_rows,
        run=entry.run,
        reason=entry.reason,
    )


def _show(source: Source, entries: list[TableInterval]) -> None:
    from strata_cdc.store.table_intervals import IntervalState

    shown = Table(box=None, pad_edge=False)
    shown.add_column("from (UTC)", no_wrap=True)
    for title in ("table", "state"):
        shown.add_column(title)
    for title in ("rows", "published"):
        shown.add_column(title, justify="right")
    shown.add_column("why")
    for entry in entries:
        why = entry.reason.message if entry.reason else ""
        numbers = (f"{entry.rows:,}", f"{entry.published_rows:,}")
        when = second_text(entry.start)
        shown.add_row(when, entry.name, str(entry.state), *numbers, why)
    console = Terminal()
    console.print(shown if entries else "nothing: no wanted table has such rows")
    if any(entry.state in {IntervalState.FAILED, IntervalState.BLOCKED} for entry in entries):
        console.print(
            f"Once the reason is gone: `strata plan --source {source.name} --failed`; "
            "rows that a schema gap held are published automatically when the history knows more.",
            soft_wrap=True,
        )
