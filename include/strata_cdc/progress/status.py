"""How far each step of a source has come, from what lies in the lake and the store; the server is not queried.
Not here: what is wrong with a server's settings (`ops/doctor/check_source.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.lake.lost_tables import lost_tables
from strata_cdc.landing.land_state import Doing, LandState, read_state
from strata_cdc.landing.landed import LandedStream
from strata_cdc.progress.compared import ServerComparison, TablesAtEnd, server_comparison
from strata_cdc.progress.sink import RowsAcross, SinkStatus, sink_status
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.own import own_database
from strata_cdc.store.read_again import ReadAgainLedger, TableToRead
from strata_cdc.store.store_threads import StoreThreads
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.store.withheld import withheld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts, Location
    from strata_cdc.schema.history.cascades import Cascade
    from strata_cdc.store.table_intervals import StateTotal
    from strata_cdc.store.withheld import WithheldInterval


class ReasonStatus(Struct, frozen=True):
    """One reason for which rows of a table are withheld."""

    reason: str
    """A check that failed, or the name of an error."""
    intervals: int
    rows: int
    """Withheld rows in these intervals; some of them also for other reasons."""


class TableStatus(Struct, frozen=True):
    """What readers have of one table."""

    table: str
    rows: int
    """Published rows."""
    intervals: int
    """Intervals in which the table has rows, published or not."""
    published_until: int
    """Start of the newest interval with published rows, microseconds UTC; 0 if there is none."""
    owed_rows: int
    """Rows that a run is still to publish."""
    failed_rows: int
    """Rows whose checks or decoding failed."""
    held_rows: int
    """Rows that a gap, quarantine or a statement blocks."""
    reason: str | None
    """Why the oldest of them failed or are blocked."""
    gap: str | None
    """Why its schema is not known at the end of the stream."""
    reasons: tuple[ReasonStatus, ...] = ()
    """Why rows failed or are blocked; the reason of the most rows first."""
    discarded_rows: int = 0
    """Rows that somebody has decided to discard."""


class PreparedStatus(Struct, frozen=True):
    """An XA transaction that is prepared, and that nobody has committed or rolled back."""

    xid: str
    """As `XA COMMIT` takes it."""
    seq: int
    gtid: str | None
    since: int
    """Commit time of its XA PREPARE, microseconds UTC; 0 if its segment no longer exists."""
    position: str
    """FILE:OFFSET in the server's files; empty if its segment no longer exists."""
    rows: dict[str, int]
    """By table; blocked until it is committed or rolled back."""


class SourceStatus(Struct, frozen=True):
    """One source: each step's position in the same stream."""

    source: str
    landed_seq: int
    landed_until: int
    """Commit time of the last landed transaction, microseconds UTC; 0 if there is none."""
    landed_gtid_set: str
    landed_position: str | None
    """FILE:OFFSET in the server's files, after the last landed segment; None if nothing has landed."""
    segments: int
    landing: LandState | None
    """The last state that the newest landing stored; a landing that was killed stores no other."""
    tracked_seq: int
    owned_seq: int
    """Last transaction that a closed interval owns."""
    owned_until: int
    """End of the newest interval, microseconds UTC; 0 if there is none."""
    behind_seconds: float
    """From the end of the newest interval to now; for an idle source, from the time of its last landing."""
    unowned: int
    """Landed transactions that no interval owns yet: the next run closes them, unless they are the store's own."""
    gone: int
    """Transactions that closed intervals own and that the lake does not have: the lake was deleted, or it is another
    lake."""
    uncounted: int
    """Intervals that an older version of Strata closed and whose rows are not counted yet: the next run counts them."""
    owed_since: int
    """Start of the oldest interval with pending rows, microseconds UTC; 0 if nothing is pending."""
    statements: int
    """Changes that were logged as statements: the binlog does not hold their rows."""
    prepared: tuple[PreparedStatus, ...]
    tables: tuple[TableStatus, ...]
    progress_at: int = 0
    """When a landing last read from the server or a run last stored its result, microseconds UTC; 0: never."""
    read_again: tuple[TableToRead, ...] = ()
    """Tables whose mirrors are blocked until a dump has read their rows."""
    landed_bytes: int = 0
    """Of the landed segments that exist; those that were deleted by age do not count."""
    landed_rows: int = 0
    """Row changes that closed intervals own, of all tables, wanted or not."""
    decoded_rows: int = 0
    """Row changes that are published, or that were decoded and judged and are withheld."""
    unlogged: tuple[str, ...] = ()
    """Tables whose rows foreign keys change without row events."""
    lost: tuple[ErrorFacts, ...] = ()
    """What is wrong with each change table that lacks a commit which it once had."""
    compared: ServerComparison | None = None
    """How the tables compare with their server; None: nothing is published, or there is no server."""
    sink: SinkStatus | None = None
    """Of the folder of a TiCDC sink; None for a server."""
    crossed: tuple[RowsAcross, ...] = ()
    """Of a server: rows in quarantine that contradict the version of their table, and fit the one before or after."""

    @property
    def crossed_rows(self) -> int:
        """Rows of another schema than the one valid where they are; one across several DDL counts for each."""
        return sum(rows.rows for rows in (self.crossed if self.sink is None else self.sink.crossed))


def source_status(source: Source, engine: sa.Engine, *, now: int) -> SourceStatus:
    """Reads the status of a source."""
    with StoreThreads(engine) as threads:
        lost = threads.begin(lost_tables, source, engine)
        unlogged = threads.begin(unlogged_cascades, engine, source.name)
        return _source_status(source, engine, lost, unlogged, now=now)


def _source_status(
    source: Source,
    engine: sa.Engine,
    lost: Callable[[], tuple[ErrorFacts, ...]],
    unlogged: Callable[[], list[Cascade]],
    *,
    now: int,
) -> SourceStatus:
    stream = LandedStream.open(source.lake, source.name)
    position = SchemaStore(engine).position(source.name)
    closed = IntervalLedger(engine).runs(source.name)
    newest = closed[-1] if closed else None
    wanted = wanted_tables(source, engine, stream)
    known = TablesAtEnd.from_store(engine, source.name)
    all_totals = known.totals
    totals = [total for total in all_totals if wanted(TableName(total.database, total.table))]
    withheld_intervals = withheld(engine, source.name)
    landing = read_state(source.lake, source.name)
    owned = max([stream.first_seq - 1, *(interval.last_seq for interval in closed)])
    is_idle = stream.is_only_of(own_database(engine, stream.servers()), owned + 1, stream.last_seq)
    # What an idle source has published is complete up to the time of its last landing.
    until = _complete_until(landing) if is_idle and landing and newest and landing.doing is Doing.ENDED else 0
    return SourceStatus(
        source=source.name,
        landed_seq=stream.last_seq,
        landed_until=stream.clock,
        landed_gtid_set=str(stream.executed()),
        landed_position=_position(stream),
        segments=len(stream.segments),
        landing=landing,
        tracked_seq=position.seq if position else 0,
        owned_seq=newest.last_seq if newest else 0,
        owned_until=newest.end if newest else 0,
        behind_seconds=max(0.0, (now - max(newest.end, until)) / 1e6) if newest else 0.0,
        unowned=0
        if is_idle
        else max(0, stream.last_seq - sum(interval.last_seq - interval.after_seq for interval in closed)),
        gone=max(0, owned - stream.last_seq),
        uncounted=len(TableIntervalLedger(engine).uncounted(source.name)),
        owed_since=min((total.first_start for total in totals if total.state is IntervalState.PENDING), default=0),
        statements=len(SchemaStore(engine).statement_changes(source.name, 0, stream.last_seq)),
        prepared=tuple(_prepared(stream)),
        tables=_tables(known, totals, withheld_intervals),
        progress_at=max(landing.at if landing else 0, TableIntervalLedger(engine).changed_at(source.name)),
        read_again=tuple(ReadAgainLedger(engine).all(source.name)),
        landed_bytes=stream.bytes(),
        landed_rows=sum(total.rows for total in all_totals),
        decoded_rows=sum(total.published_rows for total in all_totals) + sum(map(_judged_rows, withheld_intervals)),
        unlogged=tuple(str(cascade.name) for cascade in unlogged() if wanted(cascade.name)),
        lost=lost(),
        compared=None if source.is_sink else server_comparison(engine, source.name, known=known),
        sink=sink_status(stream) if source.is_sink else None,
        crossed=() if source.is_sink else _crossed(withheld_intervals),
    )


def _crossed(withheld_intervals: Sequence[WithheldInterval]) -> tuple[RowsAcross, ...]:
    """The rows in quarantine that lie across a DDL, with the position of the newest, in order of table."""
    rows = Counter[tuple[str, str, str]]()
    newest: dict[tuple[str, str, str], tuple[Location, Location]] = {}
    for interval in withheld_intervals:
        for error, count in interval.aside():
            if error.crossing is not None:
                key = (interval.table_interval.name, error.crossing.ddl, error.crossing.quadrant)
                rows[key] += count
                newest[key] = (error.location, error.crossing.made_at)
    return tuple(RowsAcross(*key, rows[key], *newest[key]) for key in sorted(rows))


def _complete_until(landing: LandState) -> int:
    """The time up to which an ended landing has everything: a sink may be late."""
    return landing.at - int((landing.lag_seconds or 0.0) * 1e6)


def _judged_rows(withheld_interval: WithheldInterval) -> int:
    """Rows that were decoded and checked, without those that are published."""
    return (
        max(0, withheld_interval.verdict.details.rows - withheld_interval.table_interval.published_rows)
        if withheld_interval.verdict
        else 0
    )


def _position(stream: LandedStream) -> str | None:
    if not stream.segments:
        return None
    summary = stream.segments[-1].summary
    return f"{summary.binlog_file}:{summary.server_end}"


def _prepared(stream: LandedStream) -> Iterator[PreparedStatus]:
    for prepared in stream.undecided_at(stream.last_seq).prepared():
        if prepared.is_empty:
            continue
        if prepared.seq < stream.first_seq:
            yield PreparedStatus(prepared.xid, prepared.seq, None, 0, "", {})
            continue
        _, record = stream.record_at(prepared.seq)
        rows: Counter[str] = Counter()
        for table in record.tables:
            rows[f"{table.database}.{table.table}"] += table.rows
        yield PreparedStatus(
            xid=prepared.xid,
            seq=prepared.seq,
            gtid=str(record.gtid) if record.gtid else None,
            since=record.committed_at,
            position=f"{record.binlog_file}:{record.binlog_pos}",
            rows=dict(rows),
        )


def _tables(
    known: TablesAtEnd, totals: Sequence[StateTotal], withheld_intervals: Sequence[WithheldInterval]
) -> tuple[TableStatus, ...]:
    gaps = {
        str(table): gap.reason
        for table, gap in known.tables.items()
        if gap is not None and table.database not in SYSTEM_DATABASES
    }
    reasons: dict[str, str] = {}
    for interval in withheld_intervals:
        if interval.table_interval.reason:
            reasons.setdefault(interval.table_interval.name, interval.table_interval.reason.message)
    counts = _reasons(withheld_intervals)
    by_table: dict[str, list[StateTotal]] = {}
    for total in totals:
        by_table.setdefault(total.name, []).append(total)
    statuses = []
    for table in sorted({*by_table, *gaps}):
        totals_of_table = by_table.get(table, [])
        unpublished = {total.state: total.rows - total.published_rows for total in totals_of_table}
        published = [total for total in totals_of_table if total.published_rows]
        statuses.append(
            TableStatus(
                table=table,
                rows=sum(total.published_rows for total in totals_of_table),
                intervals=sum(total.intervals for total in totals_of_table),
                published_until=max((total.last_start for total in published), default=0),
                owed_rows=unpublished.get(IntervalState.PENDING, 0),
                failed_rows=unpublished.get(IntervalState.FAILED, 0),
                held_rows=unpublished.get(IntervalState.BLOCKED, 0),
                reason=reasons.get(table),
                gap=gaps.get(table),
                reasons=counts.get(table, ()),
                discarded_rows=unpublished.get(IntervalState.DISCARDED, 0),
            )
        )
    return tuple(statuses)


def _reasons(withheld_intervals: Sequence[WithheldInterval]) -> dict[str, tuple[ReasonStatus, ...]]:
    intervals, rows = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for withheld_interval in withheld_intervals:
        for reason in withheld_interval.reasons:
            intervals[withheld_interval.table_interval.name, reason] += 1
            rows[withheld_interval.table_interval.name, reason] += withheld_interval.rows
    statuses: dict[str, list[ReasonStatus]] = {}
    for (table, reason), count in sorted(rows.items(), key=lambda item: (-item[1], item[0])):
        statuses.setdefault(table, []).append(ReasonStatus(reason, intervals[table, reason], count))
    return {table: tuple(each) for table, each in statuses.items()}
