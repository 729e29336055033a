"""What a run processes: it closes intervals, and selects the tables of each whose rows are pending or requested.
Not here: marks (`intervals.py`), the states (`store/table_intervals.py`), slices (`plan_slices.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.clock import from_micros
from strata_cdc.errors import StreamHoleError, Usage
from strata_cdc.landing.count_rows import count_rows
from strata_cdc.landing.place_prepared import UNNAMED, lost_rows, statement_changes
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.pipeline.plan.excluded import LeftOut
from strata_cdc.pipeline.plan.intervals import close, cover
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.port import Executed  # noqa: TC001  msgspec asks for it where a request is drawn
from strata_cdc.runs.specs import Interval, RunRemainder, TimeSpan
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.ledgers import ClosedInterval, IntervalLedger, PublishedLedger
from strata_cdc.store.own import own_database
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedSegment, LandedStream

MEGABYTE = 1 << 20
_AT_ONCE = 100
"""Intervals that are read at once: a run takes so much at most."""
_OPEN = (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED)


class WorkChoice(Enum):
    """What a request selects from its time span."""

    PENDING = "owed"
    """What is pending before its end, whichever run left it, oldest first and up to a size; of its own span also what
    failed or is blocked (held)."""
    SPAN = "span"
    """Everything in its span, whatever its state: published rows are replaced by the same ones."""


class RunRequest(Struct, frozen=True):
    """What a run is to process. Nothing given: all that is pending."""

    start: int | None = None
    """Commit time (microseconds UTC); None with an end: the stream's beginning."""
    end: int | None = None
    """Exclusive; None: now."""
    gtid_set: Executed | None = None
    """Instead of a span: from the first to the last of these transactions."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`, on top of the settings'; empty for all of those."""
    choice: WorkChoice | None = None
    """None: SPAN if there is a span or a GTID set, else PENDING."""
    failed: bool = False
    """With PENDING: also everything before the end that failed or is blocked (held)."""

    @property
    def chosen_work(self) -> WorkChoice:
        """What it takes."""
        spanless = self.start is None and self.end is None and self.gtid_set is None
        return self.choice or (WorkChoice.PENDING if spanless else WorkChoice.SPAN)


class Work(Struct, frozen=True):
    """The tables of one interval that a run processes."""

    interval: Interval
    tables: frozenset[TableName]


class PlannedWork(Struct, frozen=True):
    """What a run does, and what it leaves."""

    span: TimeSpan
    work: tuple[Work, ...]
    left: RunRemainder
    history: int
    """The newest schema version that the source had when it began."""


def choose_work(
    source: Source, engine: sa.Engine, stream: LandedStream, request: RunRequest, *, now: int
) -> PlannedWork:
    """Closes the intervals that a request means, and picks what it takes of them.

    A process that dies here loses nothing: a closed interval keeps its marks, and what is pending in it stays so until
    it is published.

    Args:
        source: The source.
        engine: Its store.
        stream: What has landed.
        request: What to do.
        now: The time until which intervals may be closed, microseconds UTC.

    Raises:
        Usage: The request is empty, lies in the future, names transactions that have not landed, or nothing has been
            tracked of what it needs.
        StreamHoleError: All of its span is older than what has landed, and the server had executed something by then.
    """
    return _Taker(source, engine, stream, request, now).plan_work()


class _Taker:
    """Finds the work of one request."""

    def __init__(self, source: Source, engine: sa.Engine, stream: LandedStream, request: RunRequest, now: int) -> None:
        position = SchemaStore(engine).position(source.name)
        self._source, self._stream, self._request, self._now = source, stream, request, now
        self._schema = SchemaStore(engine)
        self._marks = IntervalLedger(engine)
        self._tables = TableIntervalLedger(engine)
        self._published = PublishedLedger(engine)
        self._wanted = wanted_tables(source, engine, stream, request.tables)
        self._by_settings = wanted_tables(source, engine, stream)
        self._left_out = LeftOut(source, self._schema, stream)
        self._own = own_database(engine, stream.servers())
        self._tracked = min(position.seq if position else 0, stream.last_seq)
        if self._tracked and stream.is_only_of(self._own, self._tracked + 1, stream.last_seq):
            # The tracker takes no note of it (`track_landed`).
            self._tracked = stream.last_seq
        self._history = self._schema.newest_version(source.name)
        self._newest: dict[TableName, int] = {}
        self._known: list[Interval] | None = None
        """The time that intervals own, those that follow each other as one."""

    def plan_work(self) -> PlannedWork:
        span = self._span()
        self._refuse_untracked(span)
        self._count_former()
        self._tables.follow_settings(
            self._source.name,
            self._is_wanted,
            since=self._source.settings.owed_since_micros,
            left_out=self._left_out.ranges(self._owning_after),
        )
        work = self._all_of(span) if self._request.chosen_work is WorkChoice.SPAN else self._pending(span)
        return PlannedWork(span, tuple(work), self._left(span, work), self._history)

    def _is_wanted(self, database: str, table: str) -> bool:
        return self._by_settings(TableName(database, table))

    # The request -----------------------------------------------------------------------------------

    def _span(self) -> TimeSpan:
        request, stream, name = self._request, self._stream, self._source.name
        if request.gtid_set is not None:
            return _span_of(request.gtid_set, stream)
        first = stream.record_at(stream.first_seq)[1].committed_at if stream.last_seq else self._now
        end = self._now if request.end is None else request.end
        start = min(first, end - 1) if request.start is None else request.start
        span = TimeSpan(start, end)
        if request.start is not None and request.start >= self._now:
            raise Usage(f"the span begins in the future, at {from_micros(request.start)}", source=name)
        if span.start >= span.end:
            raise Usage(f"{span} is empty", source=name)
        if span.end > self._now:
            raise Usage(f"{span} ends in the future", source=name)
        if span.end <= first and request.chosen_work is WorkChoice.SPAN:
            self._refuse_before(span, first)
        return span

    def _refuse_before(self, span: TimeSpan, first: int) -> None:
        """A server that is older than what has landed of it: nobody may take the empty span for one without rows. What
        had landed and was deleted is refused by the code that looks for it."""
        before = self._stream.executed_before()
        if before and self._stream.first_seq == 1:
            raise StreamHoleError(
                f"nothing of {span} has landed: the landed stream begins at {from_micros(first)}",
                source=self._source.name,
                gtid=str(before),
                remedy="Ask for a time from there on. Files of the binlog from before can be landed as a source of "
                "their own: `strata land --files FOLDER`.",
            )

    def _refuse_untracked(self, span: TimeSpan) -> None:
        """Nothing is closed before there are versions to plan with; what is landed and not tracked waits otherwise."""
        if not self._stream.last_seq and self._request.chosen_work is WorkChoice.SPAN:
            raise Usage(
                "nothing has landed",
                source=self._source.name,
                remedy=f"`strata land --source {self._source.name}` lands what the server has.",
            )
        needed = self._stream.seq_before(span.end)
        if needed > self._tracked and (self._tracked == 0 or self._request.chosen_work is WorkChoice.SPAN):
            raise Usage(
                f"versions are tracked up to transaction {self._tracked} and the run needs {needed}",
                source=self._source.name,
                remedy=f"Run `strata track --source {self._source.name}` first.",
            )

    # What it takes ---------------------------------------------------------------------------------

    def _all_of(self, span: TimeSpan) -> list[Work]:
        """Every interval that shares time with the span, whole, with all wanted tables that have rows in it."""
        while True:
            work = [Work(interval, self._rows_in(interval)) for interval in self._intervals(span)]
            stored = self._marks.overlapping(self._source.name, span.start, span.end)
            if {(part.interval.start, part.interval.end) for part in work} <= {
                (part.start, part.end) for part in stored
            }:
                return work
            # Upkeep has merged some of them meanwhile, so that their rows were not found.
            self._known = None

    def _pending(self, span: TimeSpan) -> list[Work]:
        """What is pending before the span's end, oldest first, up to the size that one run processes."""
        if not self._tracked:
            return []
        bound = self._source.settings.run_mb * MEGABYTE
        own = span.start if self._request.start is not None else None
        entries: dict[int, list[TableInterval]] = {}
        for entry in self._open_before(span.end):
            entries.setdefault(entry.start, []).append(entry)
        end = span.end
        if self._is_idle(span):
            # Nothing new is closed: what is taken lies in intervals that exist.
            end = min(end, max((interval.end for interval in self._owned()), default=span.start))
        whole = TimeSpan(min([span.start, self._beginning(span), *entries]), end)
        work: list[Work] = []
        planned = 0
        for interval in self._intervals(whole, cut=own, opened=frozenset(entries)):
            intervals = entries.get(interval.start) or self._tables.of_interval(self._source.name, interval.start)
            tables = self._due(intervals, again=own is not None and own <= interval.start)
            if tables and not self._hold_deleted(interval, intervals):
                work.append(Work(interval, tables))
                planned += _bytes_of(self._stream, interval)
            if planned >= bound:
                break
        return work

    def _open_before(self, end: int) -> list[TableInterval]:
        """What is pending or was left of the intervals that begin before a time."""
        # Databases would look at all intervals before it, of which hardly any is open.
        return [entry for entry in self._tables.select(self._source.name, _OPEN) if entry.start < end]

    def _due(self, entries: Iterable[TableInterval], *, again: bool) -> frozenset[TableName]:
        """The tables of an interval that are pending, and those that were left and may succeed now."""
        states = _OPEN if again or self._request.failed else (IntervalState.PENDING,)
        return frozenset(
            name
            for entry in entries
            if self._wanted(name := TableName(entry.database, entry.table))
            and (
                entry.state in states
                or (entry.state is IntervalState.BLOCKED and self._learned_of(name) > entry.history)
            )
        )

    def _learned_of(self, name: TableName) -> int:
        """The newest schema version that contains a table: it may close the gap that blocked rows."""
        if name not in self._newest:
            self._newest[name] = self._schema.newest_version(self._source.name, name)
        return self._newest[name]

    def _hold_deleted(self, interval: Interval, entries: Iterable[TableInterval]) -> bool:
        """Whether an interval's transactions were deleted by age; what is pending of it is then blocked for ever."""
        if interval.after_seq == interval.last_seq or interval.after_seq + 1 >= self._stream.first_seq:
            return False
        try:
            self._stream.segments_of(interval.after_seq + 1, interval.last_seq)
        except StreamHoleError as error:
            reason = error.facts()
            self._tables.put(
                replace(entry, state=IntervalState.BLOCKED, reason=reason, history=self._history, changed_at=self._now)
                for entry in entries
                if entry.state in {IntervalState.PENDING, IntervalState.BLOCKED}
            )
        return True

    def _beginning(self, span: TimeSpan) -> int:
        """Commit time of the first transaction that is still here."""
        if not self._stream.last_seq:
            return span.start
        return self._stream.record_at(self._stream.first_seq)[1].committed_at

    def _rows_in(self, interval: Interval) -> frozenset[TableName]:
        intervals = self._tables.of_interval(self._source.name, interval.start)
        names = (TableName(entry.database, entry.table) for entry in intervals)
        return frozenset(name for name in names if self._wanted(name) and not self._left_out.has(name, interval))

    def _left(self, span: TimeSpan, work: Iterable[Work]) -> RunRemainder:
        planned = {(part.interval.start, name.database, name.table) for part in work for name in part.tables}
        left = [
            entry
            for entry in self._open_before(span.end)
            if (entry.start, entry.database, entry.table) not in planned
            and self._by_settings(TableName(entry.database, entry.table))
        ]
        landed = self._stream.seq_before(span.end)
        owned = sum(min(interval.last_seq, landed) - min(interval.after_seq, landed) for interval in self._owned())
        if self._is_idle(span):
            owned = landed
        counts = {state: sum(entry.state is state for entry in left) for state in _OPEN}
        return RunRemainder(
            counts[IntervalState.PENDING], counts[IntervalState.FAILED], counts[IntervalState.BLOCKED], landed - owned
        )

    # Intervals -------------------------------------------------------------------------------------

    def _intervals(
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

    def _is_idle(self, span: TimeSpan) -> bool:
        """Whether nothing but the store's own transactions lies after the newest interval and before a span's end.

        Closing an interval for them would be one more write of the store, and an idle source would never come to rest.
        """
        first = max([self._stream.first_seq - 1, *(interval.last_seq for interval in self._owned())])
        return self._stream.is_only_of(self._own, first + 1, self._seq_before(span.end))

    def _owned(self) -> list[Interval]:
        """The time that intervals own. A year has a hundred thousand of them: those that follow each other are one."""
        if self._known is None:
            runs = self._marks.runs(self._source.name)
            self._known = [Interval(run.start, run.end, run.after_seq, run.last_seq, "") for run in runs]
        return self._known

    def _existing(self, span: TimeSpan, opened: frozenset[int] | None) -> Iterator[Interval]:
        """The intervals that share time with a span in which all time is owned; of these only those that are open."""
        name = self._source.name
        if opened is None:
            overlapping = self._marks.overlapping(name, span.start, span.end)
            yield from (
                _interval(closed) for closed in overlapping if closed.end > span.start and closed.start < span.end
            )
            return
        starts = sorted(start for start in opened if span.start <= start < span.end)
        for at in range(0, len(starts), _AT_ONCE):
            yield from map(_interval, self._marks.starting(name, starts[at : at + _AT_ONCE]))

    def _owning_after(self, seq: int) -> list[Interval]:
        return [_interval(stored) for stored in self._marks.after(self._source.name, seq)]

    def _cut(self, span: TimeSpan, cut: int | None, *, whole: bool) -> TimeSpan:
        """The front of a span that becomes one interval: no larger than a run, and not across `cut`."""
        if cut is not None and span.start < cut < span.end:
            span = TimeSpan(span.start, cut)
        if whole:
            return span
        bound, size = self._source.settings.run_mb * MEGABYTE, 0
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
        owned = self._owned()
        marks = close(span, owned, self._seq_before, lambda seq: str(self._stream.executed_at(seq)))
        name = self._source.name
        stored = self._marks.close(
            ClosedInterval(
                name, marks.start, marks.end, marks.after_seq, marks.last_seq, marks.gtid_executed, self._now
            ),
            self._count(marks),
        )
        if (stored.start, stored.end) != (marks.start, marks.end):
            self._known = None
            return None
        self._known = [*owned, _interval(stored)]
        return self._known[-1]

    def _seq_before(self, time: int) -> int:
        # What is not tracked yet cannot be planned: it goes to a later interval.
        return min(self._stream.seq_before(time), self._tracked)

    def _count(self, interval: Interval) -> list[TableInterval]:
        """Every table that an interval has something of: rows, or a statement that changed or removed rows."""
        name, first, last = self._source.name, interval.after_seq, interval.last_seq
        rows: dict[TableName, int] = count_rows(self._stream, first, last)
        for removal in self._schema.row_removals(name, first, last):
            rows.setdefault(removal.name, 0)
        placement = PreparedPlacement(self._stream, first, last)
        rows |= {table: rows.get(table, 0) for table, _ in lost_rows(placement)}
        for change in statement_changes(self._schema, name, placement):
            rows |= {table: rows.get(table, 0) for table in change.tables or (UNNAMED,)}
        since = self._source.settings.owed_since_micros
        late = since is None or interval.start >= since
        return [
            TableInterval(
                source=name,
                start=interval.start,
                database=table.database,
                table=table.table,
                rows=count,
                state=IntervalState.PENDING if late and self._is_pending(table, interval) else IntervalState.UNWANTED,
                changed_at=self._now,
            )
            for table, count in sorted(rows.items())
        ]

    def _is_pending(self, table: TableName, interval: Interval) -> bool:
        return self._by_settings(table) and not self._left_out.has(table, interval)

    def _count_former(self) -> None:
        """Counts intervals that a version without the ledger closed; what it published in full is taken as that."""
        former = self._tables.uncounted(self._source.name)
        if not former:
            return
        published = {
            (entry.interval_start, entry.table): entry.rows for entry in self._published.list(self._source.name)
        }
        marks = {interval.start: _interval(interval) for interval in self._marks.all(self._source.name)}
        for start in former:
            interval = marks[start]
            # Of transactions that were deleted nothing is pending: that was allowed once all was published.
            first = max(interval.after_seq, self._stream.first_seq - 1)
            here = Interval(start, interval.end, first, max(interval.last_seq, first), interval.gtid_executed)
            entries = [_as_published(entry, published.get((start, entry.full_name), 0)) for entry in self._count(here)]
            self._tables.count(self._source.name, start, entries, now=self._now)


def _as_published(entry: TableInterval, rows: int) -> TableInterval:
    if rows < entry.rows:
        return entry
    return TableInterval(
        entry.source, entry.start, entry.database, entry.table, entry.rows, IntervalState.PUBLISHED, published_rows=rows
    )


def _interval(stored: ClosedInterval) -> Interval:
    return Interval(stored.start, stored.end, stored.after_seq, stored.last_seq, stored.gtid_executed)


def _bytes_of(stream: LandedStream, interval: Interval) -> int:
    """Landed bytes of an interval's transactions."""
    segments = stream.segments_of(interval.after_seq + 1, interval.last_seq)
    return sum(bytes_in(segment, interval) for segment in segments)


def bytes_in(segment: LandedSegment, interval: Interval) -> int:
    """Bytes of an interval's transactions in one segment."""
    first = segment.index.record(max(interval.after_seq + 1, segment.summary.first_seq))
    last = segment.index.record(min(interval.last_seq, segment.summary.last_seq))
    return last.end - first.begin


def _span_of(wanted: Executed, stream: LandedStream) -> TimeSpan:
    """The time from the first to the last of some transactions; other transactions may be between them."""
    if not wanted:
        raise Usage("the GTID set is empty: it names no transaction", source=stream.source)
    times: list[int] = []
    for segment in stream.segments:
        summary = segment.summary
        if wanted & (parse_executed(summary.executed) - parse_executed(summary.executed_before)):
            times += [
                record.committed_at
                for record in segment.index.records()
                if record.gtid is not None and wanted.contains(record.gtid)
            ]
    if not times:
        raise Usage(
            f"none of {wanted} has landed",
            source=stream.source,
            remedy=f"`strata land --source {stream.source}` lands what the server has.",
        )
    return TimeSpan(min(times), max(times) + 1)
