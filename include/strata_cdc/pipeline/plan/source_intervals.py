"""The intervals of a source for a plan: which exist, and new ones, closed with what each table has in them.
Not here: marks (`intervals.py`), which of them a run takes (`pending.py`), their tables (`store/ledgers.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from strata_cdc.landing.count_rows import count_rows
from strata_cdc.landing.place_prepared import UNNAMED, lost_rows, statement_changes
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.pipeline.plan.excluded import ExcludedCopies
from strata_cdc.pipeline.plan.intervals import close, cover
from strata_cdc.runs.specs import Interval, TimeSpan
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.ledgers import ClosedInterval, IntervalLedger, PublishedLedger
from strata_cdc.store.own import own_database
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.model.definition import TableName

    T = TypeVar("T")

MEGABYTE = 1 << 20
_AT_ONCE = 100
"""Intervals that are read at once: a run takes so much at most."""


class PlannedSource(Struct, frozen=True):
    """A source at the time of a plan: what has landed and is tracked of it, and its ledgers."""

    source: Source
    stream: LandedStream
    schema: SchemaStore
    intervals: IntervalLedger
    tables: TableIntervalLedger
    published: PublishedLedger
    is_wanted: Callable[[TableName], bool]
    """Whether the settings select a table."""
    excluded: ExcludedCopies
    own: frozenset[str]
    """The store's databases in the stream."""
    tracked: int
    """The last transaction up to which there are versions."""
    now: int
    """The time until which intervals may be closed, microseconds UTC."""

    @classmethod
    def from_store(cls, source: Source, engine: sa.Engine, stream: LandedStream, now: int) -> PlannedSource:
        """The source as its store has it now."""
        schema = SchemaStore(engine)
        position = schema.position(source.name)
        is_wanted = wanted_tables(source, engine, stream)
        excluded = ExcludedCopies(source, schema, stream)
        own = own_database(engine, stream.servers())
        tracked = min(position.seq if position else 0, stream.last_seq)
        if tracked and stream.is_only_of(own, tracked + 1, stream.last_seq):
            # The tracker takes no note of it (`track_landed`).
            tracked = stream.last_seq
        marks, tables, published = IntervalLedger(engine), TableIntervalLedger(engine), PublishedLedger(engine)
        return cls(source, stream, schema, marks, tables, published, is_wanted, excluded, own, tracked, now)

    @property
    def run_bytes(self) -> int:
        """How much one run processes."""
        return self.source.settings.run_mb * MEGABYTE

    def seq_before(self, time: int) -> int:
        """The last transaction before a time that can be planned: what is not tracked yet goes to a later interval."""
        return min(self.stream.seq_before(time), self.tracked)


class SourceIntervals:
    """The intervals of a source. Other processes may close and merge them meanwhile."""

    def __init__(self, planned: PlannedSource) -> None:
        self._planned = planned
        self._name, self._stream, self._ledger = planned.source.name, planned.stream, planned.intervals
        self._known: list[Interval] | None = None
        """The time that intervals own, those that follow each other as one."""

    def newest_end(self, *, default: int) -> int:
        """The time at which the newest interval ends."""
        return max((interval.end for interval in self._owned()), default=default)

    def after(self, seq: int) -> list[Interval]:
        """The intervals that own something after a transaction, in order of time."""
        return [_interval(stored) for stored in self._ledger.after(self._name, seq)]

    def read_each(self, span: TimeSpan, read: Callable[[Interval], T]) -> list[tuple[Interval, T]]:
        """Every interval that shares time with a span, whole, with what is read of it."""
        while True:
            parts = [(interval, read(interval)) for interval in self.cover_span(span)]
            stored = {(part.start, part.end) for part in self._ledger.overlapping(self._name, span.start, span.end)}
            if {(interval.start, interval.end) for interval, _ in parts} <= stored:
                return parts
            # Upkeep has merged some of them meanwhile, so that their rows were not found.
            self._known = None

    def cover_span(
        self, span: TimeSpan, *, cut: int | None = None, opened: frozenset[int] | None = None
    ) -> Iterator[Interval]:
        """The intervals of a span in order of time; those that nobody owns are closed as they come.

        Args:
            span: Whole intervals that share time with it.
            cut: A time at which what nobody owns is cut, microseconds UTC.
            opened: Of the intervals that exist, only those that start here; None for all.
        """
        at = span.start
        while at < span.end:
            for part in cover(TimeSpan(at, span.end), self._owned()):
                if isinstance(part, Interval):
                    shared = TimeSpan(max(at, part.start), min(part.end, span.end))
                    at = part.end
                    yield from self._existing(shared, opened)
                    continue
                interval = self._close(self._cut(part, cut, whole=opened is None))
                if interval is None:
                    break  # Another run closed an overlapping one in between: look again.
                at = interval.end
                yield interval
                if interval.end != part.end:
                    break  # The rest of the range is next.

    def is_idle(self, span: TimeSpan) -> bool:
        """Whether nothing but the store's own transactions lies after the newest interval and before a span's end.

        Closing an interval for them would be one more write of the store, and an idle source would never come to rest.
        """
        first = max([self._stream.first_seq - 1, *(interval.last_seq for interval in self._owned())])
        return self._stream.is_only_of(self._planned.own, first + 1, self._planned.seq_before(span.end))

    def count_unowned(self, span: TimeSpan) -> int:
        """Landed transactions before a span's end that are in no interval, and are to be."""
        if self.is_idle(span):
            return 0
        landed = self._stream.seq_before(span.end)
        return landed - sum(
            min(interval.last_seq, landed) - min(interval.after_seq, landed) for interval in self._owned()
        )

    def _owned(self) -> list[Interval]:
        """The time that intervals own. A year has a hundred thousand of them: those that follow each other are one."""
        if self._known is None:
            runs = self._ledger.runs(self._name)
            self._known = [Interval(run.start, run.end, run.after_seq, run.last_seq, "") for run in runs]
        return self._known

    def _existing(self, span: TimeSpan, opened: frozenset[int] | None) -> Iterator[Interval]:
        """The intervals that share time with a span in which all time is owned; of these only those that are open."""
        if opened is None:
            overlapping = self._ledger.overlapping(self._name, span.start, span.end)
            yield from (
                _interval(closed) for closed in overlapping if closed.end > span.start and closed.start < span.end
            )
            return
        starts = sorted(start for start in opened if span.start <= start < span.end)
        for at in range(0, len(starts), _AT_ONCE):
            yield from map(_interval, self._ledger.starting(self._name, starts[at : at + _AT_ONCE]))

    def _cut(self, span: TimeSpan, cut: int | None, *, whole: bool) -> TimeSpan:
        """The front of a span that becomes one interval: no larger than a run, and not across `cut`."""
        if cut is not None and span.start < cut < span.end:
            span = TimeSpan(span.start, cut)
        if whole:
            return span
        bound, size = self._planned.run_bytes, 0
        first, last = self._stream.seq_before(span.start) + 1, self._stream.seq_before(span.end)
        for segment in self._stream.segments_of(max(first, self._stream.first_seq), last):
            size += segment.summary.bytes
            # After the segment's last transaction: the end of an interval is exclusive.
            end = segment.summary.clock_after + 1
            if size >= bound and span.start < end < span.end:
                return TimeSpan(span.start, end)
        return span

    def _close(self, span: TimeSpan) -> Interval | None:
        """Closes a span for ever, with all that is pending in it; None if another run has just closed some of it."""
        owned, planned = self._owned(), self._planned
        marks = close(span, owned, planned.seq_before, lambda seq: str(self._stream.executed_at(seq)))
        stored = self._ledger.close(
            ClosedInterval(
                self._name, marks.start, marks.end, marks.after_seq, marks.last_seq, marks.gtid_executed, planned.now
            ),
            _count_tables(planned, marks),
        )
        if (stored.start, stored.end) != (marks.start, marks.end):
            self._known = None
            return None
        self._known = [*owned, _interval(stored)]
        return self._known[-1]


def count_former(planned: PlannedSource) -> None:
    """Counts intervals that a version without the ledger closed; what it published in full is taken as that."""
    name = planned.source.name
    former = planned.tables.uncounted(name)
    if not former:
        return
    published = {(entry.interval_start, entry.table): entry.rows for entry in planned.published.list(name)}
    marks = {interval.start: _interval(interval) for interval in planned.intervals.all(name)}
    for start in former:
        interval = marks[start]
        # Of transactions that were deleted nothing is pending: that was allowed once all was published.
        first = max(interval.after_seq, planned.stream.first_seq - 1)
        here = Interval(start, interval.end, first, max(interval.last_seq, first), interval.gtid_executed)
        entries = [
            _as_published(entry, published.get((start, entry.full_name), 0)) for entry in _count_tables(planned, here)
        ]
        planned.tables.count(name, start, entries, now=planned.now)


def _count_tables(planned: PlannedSource, interval: Interval) -> list[TableInterval]:
    """Every table that an interval has something of: rows, or a statement that changed or removed rows."""
    name, first, last = planned.source.name, interval.after_seq, interval.last_seq
    rows: dict[TableName, int] = count_rows(planned.stream, first, last)
    for removal in planned.schema.row_removals(name, first, last):
        rows.setdefault(removal.name, 0)
    placement = PreparedPlacement(planned.stream, first, last)
    rows |= {table: rows.get(table, 0) for table, _ in lost_rows(placement)}
    for change in statement_changes(planned.schema, name, placement):
        rows |= {table: rows.get(table, 0) for table in change.tables or (UNNAMED,)}
    return [
        TableInterval(
            source=name,
            start=interval.start,
            database=table.database,
            table=table.table,
            rows=count,
            state=IntervalState.PENDING if _is_pending(planned, table, interval) else IntervalState.UNWANTED,
            changed_at=planned.now,
        )
        for table, count in sorted(rows.items())
    ]


def _is_pending(planned: PlannedSource, table: TableName, interval: Interval) -> bool:
    since = planned.source.settings.owed_since_micros
    is_late = since is None or interval.start >= since
    return is_late and planned.is_wanted(table) and not planned.excluded.has(table, interval)


def _as_published(entry: TableInterval, rows: int) -> TableInterval:
    if rows < entry.rows:
        return entry
    return TableInterval(
        entry.source, entry.start, entry.database, entry.table, entry.rows, IntervalState.PUBLISHED, published_rows=rows
    )


def _interval(stored: ClosedInterval) -> Interval:
    return Interval(stored.start, stored.end, stored.after_seq, stored.last_seq, stored.gtid_executed)
