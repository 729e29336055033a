"""`strata status`: how far landing, tracking and publishing have come.
Not here: where that is read from (`progress/status.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal
from strata_cdc.clock import now_micros, second_text
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.values import to_plain

_SPOKEN = {".": "all tables", ".*": "tables that a statement does not tell"}
"""Entries of the history and the ledger that are no table."""

_SOON_SECONDS = 86400.0
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.groups.status import MemberStatus
    from strata_cdc.landing.land_state import LandState
    from strata_cdc.ops.metrics import SourceMetrics
    from strata_cdc.progress.status import PreparedStatus, SourceStatus
    from strata_cdc.store.read_again import TableToRead


def status(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="A source of the settings; all of them without it.")] = None,
    group: Annotated[str | None, typer.Option(help="A group of the settings: how far all of its sources are.")] = None,
) -> None:
    """Shows how far each step has come, and which tables wait for something."""
    if group is not None:
        _of_group(context, group)
        return
    from strata_cdc.ops.metrics import metrics_of
    from strata_cdc.progress.status import source_status
    from strata_cdc.store.database import OnMissing, find_store, open_store

    settings = load_settings(os.environ)
    names = [source] if source else sorted(settings.sources)
    sources = [settings.source(name) for name in names]
    now = now_micros()
    stores = [open_store(state.store_url, OnMissing.EMPTY) for state in sources]
    states = [source_status(state, store, now=now) for state, store in zip(sources, stores, strict=True)]
    metrics = [metrics_of(of, state, now=now) for state, of in zip(states, sources, strict=True)]
    if context.obj["json"]:
        for state, numbers in zip(states, metrics, strict=True):
            print_line({**to_plain(state), **to_plain(numbers)})
        return
    console = Terminal(markup=True)
    for state, numbers, of in zip(states, metrics, sources, strict=True):
        _print(console, state, numbers)
        for table in state.lost:
            line = f"[red]lost:[/red] {escape(f'{table.table}: {table.message}. {table.remedy}')}"
            console.print(line, highlight=False, soft_wrap=True)
        if find_store(of.store_url) is None:
            console.print(f"there is no store yet: `strata run --source {state.source}` makes it", highlight=False)


def _of_group(context: typer.Context, name: str) -> None:
    from strata_cdc.groups.status import group_status

    state = group_status(load_settings(os.environ).group(name), now=now_micros())
    if context.obj["json"]:
        print_line(state)
        return
    console = Terminal(markup=True)
    console.print(escape(state.line()), highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for title in ("source", "known until (UTC)", "landed until", "owed", "clock"):
        table.add_column(title)
    for member in state.members:
        table.add_row(
            member.source, _time(member.until), _time(member.landed_until), f"{member.owed_rows:,}", _clock(member)
        )
    console.print(table)
    for member in state.members:
        # Below the table: a server's words are longer than a column. The line above has those of the holder.
        if member.error and member.source != state.held_by:
            console.print(
                f"[red]{escape(member.source)}:[/red] {escape(member.error)}", highlight=False, soft_wrap=True
            )


def _clock(member: MemberStatus) -> str:
    if member.clock_correction_seconds is None:
        return "[red]not known[/red]"
    amount = f"corrected by {-member.clock_correction_seconds:+.3f} s" if member.clock_correction_seconds else "right"
    return f"{amount}, to {member.clock_bound_seconds:.3f} s"


def _print(console: Terminal, state: SourceStatus, numbers: SourceMetrics) -> None:
    console.print(f"[bold]{state.source}[/bold]")
    steps = Table(box=None, pad_edge=False)
    for title in ("step", "transactions", "until (UTC)"):
        steps.add_column(title)
    steps.add_row("landed", f"{state.landed_seq:,} in {counted(state.segments, 'segment')}", _time(state.landed_until))
    own = max(0, state.landed_seq - state.owned_seq) if not state.unowned else 0
    internal = f"; {counted(own, 'transaction')} more, of the store itself" if own else ""
    steps.add_row("tracked", f"{state.tracked_seq:,}{internal if state.tracked_seq < state.landed_seq else ''}", "")
    steps.add_row("in intervals", f"{state.owned_seq:,}", _time(state.owned_until))
    console.print(steps)
    if state.landing:
        console.print(_landing(state.landing), highlight=False, soft_wrap=True)
    for line in (*_ages(numbers), *_of_sink(state), *_crossed(state), *_left(state)):
        console.print(line, highlight=False, soft_wrap=True)
    for held in state.prepared:
        console.print(f"[yellow]{escape(_prepared(held))}[/yellow]", highlight=False, soft_wrap=True)
    console.print(_tables(state) if state.tables else "nothing is published yet")
    if state.compared is not None:
        console.print(escape(state.compared.line(state.source)), highlight=False, soft_wrap=True)


def _crossed(state: SourceStatus) -> Iterator[str]:
    """Rows of another schema than the one valid where they are."""
    for rows in state.sink.crossed if state.sink is not None else state.crossed:
        yield escape(rows.line())


def _of_sink(state: SourceStatus) -> Iterator[str]:
    """How far a TiCDC folder has landed, and what it has twice or too much."""
    sink = state.sink
    if sink is None:
        return
    again = f"; {counted(sink.repeats, 'row')} came again and were skipped" if sink.repeats else ""
    yield f"checkpoint {sink.commit_ts}: {_time(sink.until)} UTC{again}"
    for dropped in sink.dropped:
        values = counted(dropped.values, "value")
        yield escape(f"{dropped.table}: {values} of column {dropped.column} dropped, which the valid schema lacks")


def _tables(state: SourceStatus) -> Table:
    tables = Table(box=None, pad_edge=False)
    tables.add_column("table")
    for title in ("published", "owed", "failed", "held"):
        tables.add_column(title, justify="right")
    for title in ("newest interval", "schema"):
        tables.add_column(title)
    for table in state.tables:
        numbers = (table.rows, table.owed_rows, table.failed_rows, table.held_rows)
        tables.add_row(
            escape(_SPOKEN.get(table.table, table.table)),
            *(f"{number:,}" for number in numbers),
            _time(table.published_until),
            f"[red]unknown: {escape(table.gap)}[/red]" if table.gap else "known",
        )
    return tables


def _ages(numbers: SourceMetrics) -> list[str]:
    """How old what readers have is, and how long the server keeps what has not landed yet."""
    lines = []
    if numbers.lag_seconds is not None:
        mirrors = "" if numbers.mirror_lag_seconds is None else f", mirrors {_length(numbers.mirror_lag_seconds)}"
        lines.append(f"readers lag by {_length(numbers.lag_seconds)}{mirrors}")
    left = numbers.purge_distance_seconds
    if left is not None and left < _SOON_SECONDS:
        purging = f"may be purged in {_length(left)}" if left > 0 else "may have been purged"
        lines.append(
            f"[red]purge:[/red] transactions that the server has and that have not landed {purging}: run `strata land`"
        )
    return lines


def _length(seconds: float) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= unit), _UNITS[-1])
    return counted(round(seconds / unit), name)


def _left(state: SourceStatus) -> list[str]:
    """What is not published, and what to run."""
    lines = []
    if state.owed_since:
        rows = counted(sum(table.owed_rows for table in state.tables), "row")
        lines.append(f"[yellow]pending:[/yellow] {rows} since {_time(state.owed_since)}: the next run takes them")
    if state.unowned:
        lines.append(f"landed transactions that are in no interval yet: {state.unowned:,}; the next run takes them")
    if state.gone:
        lines.append(
            f"[red]missing:[/red] {counted(state.gone, 'transaction')} that intervals own and the lake does not have; "
            "is `lake` in the settings the folder that it was?"
        )
    if state.uncounted:
        lines.append(f"intervals of an older version without counts: {state.uncounted:,}; the next run makes them")
    lines += _withheld(state)
    lines += [_read_again(table_) for table_ in state.read_again]
    if state.statements:
        lines.append(
            f"[yellow]warning:[/yellow] {counted(state.statements, 'change')} logged by statement: the rows are in no "
            "binlog (`strata intervals`)"
        )
    if state.unlogged:
        lines.append(
            f"[yellow]warning:[/yellow] foreign keys change rows of {escape(', '.join(state.unlogged))} without row "
            "events: those changes are in no binlog"
        )
    return lines


def _withheld(status: SourceStatus) -> list[str]:
    lines = []
    withheld = [table for table in status.tables if table.failed_rows or table.held_rows or table.reason]
    for table in withheld:
        state = "failed" if table.failed_rows else "held"
        lines.append(f"[red]{state}:[/red] {escape(table.table)}: {escape(table.reason or '')}")
        for reason in table.reasons:
            numbers = f"{counted(reason.rows, 'row')} in {counted(reason.intervals, 'interval')}"
            lines.append(f"  {numbers}: {escape(reason.reason)}")
    if any(table.reason for table in withheld):
        lines.append(
            f"`strata intervals --source {status.source} --failed --held` lists them, and `strata quarantine show "
            f"--source {status.source}` tells what can be done"
        )
    lines += [
        f"discarded: {counted(table.discarded_rows, 'row')} of {escape(table.table)}"
        for table in status.tables
        if table.discarded_rows
    ]
    return lines


def _read_again(table: TableToRead) -> str:
    where = "it has no mirror yet" if table.seq is None else f"its mirror is at transaction {table.seq:,}"
    tried = f"; a dump began at {_time(table.tried_at)}" if table.tried_at else ""
    error = f" and failed: {escape(table.error)}" if table.error else ""
    return (
        f"[yellow]to be read again:[/yellow] {escape(table.name)}: {escape(table.reason)} "
        f"({where} since {_time(table.noticed_at)}{tried}{error})"
    )


def _prepared(held: PreparedStatus) -> str:
    rows = ", ".join(f"{count:,} of {table}" for table, count in sorted(held.rows.items())) or "none"
    if not held.position:
        return f"XA PREPARE {held.xid} is undecided; its segment is not here any more"
    where = ", ".join(part for part in (held.gtid, held.position) if part)
    return f"XA PREPARE {held.xid} is undecided since {_time(held.since)} ({where}); rows waiting: {rows}"


def _landing(state: LandState) -> str:
    lag = "" if state.lag_seconds is None else f", lag {state.lag_seconds:,.1f} s"
    what = (
        f"{state.doing} {state.origin}: {counted(state.transactions, 'transaction')}, {state.bytes / 1e6:,.1f} MB{lag}"
    )
    error = f"\n[red]{escape(state.error)}[/red]" if state.error else ""
    return f"{escape(what)} (at {_time(state.at)}){error}"


def _time(micros: int) -> str:
    return second_text(micros) if micros else "-"
