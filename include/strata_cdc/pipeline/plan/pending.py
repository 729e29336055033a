"""What a run processes: selects the tables of each interval whose rows are pending or requested.
Not here: closing intervals (`source_intervals.py`), the states (`store/table_intervals.py`), slices
(`plan_slices.py`)."""

from __future__ import annotations

from enum import Enum
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.clock import from_micros
from strata_cdc.errors import StreamHoleError, Usage
from strata_cdc.pipeline.plan.source_intervals import PlannedSource, SourceIntervals, count_former
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.port import Executed  # noqa: TC001  msgspec asks for it where a request is drawn
from strata_cdc.runs.specs import Interval, RunRemainder, TimeSpan
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.table_intervals import IntervalState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedSegment, LandedStream
    from strata_cdc.store.table_intervals import TableInterval

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


class IntervalWork(Struct, frozen=True):
    """The tables of one interval that a run processes."""

    interval: Interval
    tables: frozenset[TableName]


class PlannedWork(Struct, frozen=True):
    """What a run does, and what it leaves."""

    span: TimeSpan
    work: tuple[IntervalWork, ...]
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
    # What a request refuses of its tables comes before what it refuses of its time.
    is_requested = wanted_tables(source, engine, stream, request.tables)
    planned = PlannedSource.from_store(source, engine, stream, now)
    history = planned.schema.newest_version(source.name)
    span = _requested_span(request, planned)
    _refuse_untracked(request, planned, span)
    count_former(planned)
    intervals = SourceIntervals(planned)
    planned.tables.follow_settings(
        source.name,
        lambda database, table: planned.is_wanted(TableName(database, table)),
        since=source.settings.owed_since_micros,
        excluded=planned.excluded.ranges(intervals.after),
    )
    newest_version = cache(partial(planned.schema.newest_version, source.name))
    chooser = _WorkChooser(planned, intervals, request, is_requested, history, newest_version)
    work = chooser.all_of(span) if request.chosen_work is WorkChoice.SPAN else chooser.pending(span)
    return PlannedWork(span, tuple(work), _count_left(planned, intervals, span, work), history)


# The request ---------------------------------------------------------------------------------------


def _requested_span(request: RunRequest, planned: PlannedSource) -> TimeSpan:
    stream, now, name = planned.stream, planned.now, planned.source.name
    if request.gtid_set is not None:
        return _span_of(request.gtid_set, stream)
    first = _first_commit(stream, default=now)
    end = now if request.end is None else request.end
    start = min(first, end - 1) if request.start is None else request.start
    span = TimeSpan(start, end)
    if request.start is not None and request.start >= now:
        raise Usage(f"the span begins in the future, at {from_micros(request.start)}", source=name)
    if span.start >= span.end:
        raise Usage(f"{span} is empty", source=name)
    if span.end > now:
        raise Usage(f"{span} ends in the future", source=name)
    if span.end <= first and request.chosen_work is WorkChoice.SPAN:
        _refuse_before(span, first, stream)
    return span


def _refuse_before(span: TimeSpan, first: int, stream: LandedStream) -> None:
    """A server that is older than what has landed of it: nobody may take the empty span for one without rows. What
    had landed and was deleted is refused by the code that looks for it."""
    before = stream.executed_before()
    if before and stream.first_seq == 1:
        raise StreamHoleError(
            f"nothing of {span} has landed: the landed stream begins at {from_micros(first)}",
            source=stream.source,
            gtid=str(before),
            remedy="Ask for a time from there on. Files of the binlog from before can be landed as a source of "
            "their own: `strata land --files FOLDER`.",
        )


def _refuse_untracked(request: RunRequest, planned: PlannedSource, span: TimeSpan) -> None:
    """Nothing is closed before there are versions to plan with; what is landed and not tracked waits otherwise."""
    name, tracked, is_span = planned.source.name, planned.tracked, request.chosen_work is WorkChoice.SPAN
    if not planned.stream.last_seq and is_span:
        raise Usage(
            "nothing has landed", source=name, remedy=f"`strata land --source {name}` lands what the server has."
        )
    needed = planned.stream.seq_before(span.end)
    if needed > tracked and (tracked == 0 or is_span):
        raise Usage(
            f"versions are tracked up to transaction {tracked} and the run needs {needed}",
            source=name,
            remedy=f"Run `strata track --source {name}` first.",
        )


def _first_commit(stream: LandedStream, *, default: int) -> int:
    """Commit time of the first transaction that is still here."""
    return stream.record_at(stream.first_seq)[1].committed_at if stream.last_seq else default


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


# What it takes -------------------------------------------------------------------------------------


class _WorkChooser(Struct, frozen=True):
    """Chooses which tables of which intervals a run processes."""

    planned: PlannedSource
    intervals: SourceIntervals
    request: RunRequest
    is_requested: Callable[[TableName], bool]
    history: int
    """The source's newest schema version."""
    newest_version: Callable[[TableName], int]
    """The newest that contains a table: it may close the gap that blocked rows."""

    def all_of(self, span: TimeSpan) -> list[IntervalWork]:
        """Every interval that shares time with the span, whole, with all wanted tables that have rows in it."""
        return [IntervalWork(interval, tables) for interval, tables in self.intervals.read_each(span, self._rows_in)]

    def pending(self, span: TimeSpan) -> list[IntervalWork]:
        """What is pending before the span's end, oldest first, up to the size that one run processes."""
        planned = self.planned
        if not planned.tracked:
            return []
        own = span.start if self.request.start is not None else None
        entries: dict[int, list[TableInterval]] = {}
        for entry in _open_before(planned, span.end):
            entries.setdefault(entry.start, []).append(entry)
        end = span.end
        if self.intervals.is_idle(span):
            # Nothing new is closed: what is taken lies in intervals that exist.
            end = min(end, self.intervals.newest_end(default=span.start))
        whole = TimeSpan(min([span.start, _first_commit(planned.stream, default=span.start), *entries]), end)
        work: list[IntervalWork] = []
        size = 0
        for interval in self.intervals.cover_span(whole, cut=own, opened=frozenset(entries)):
            tables = entries.get(interval.start) or planned.tables.of_interval(planned.source.name, interval.start)
            due = self._due(tables, again=own is not None and own <= interval.start)
            if due and not self._hold_deleted(interval, tables):
                work.append(IntervalWork(interval, due))
                size += _bytes_of(planned.stream, interval)
            if size >= planned.run_bytes:
                break
        return work

    def _due(self, entries: Iterable[TableInterval], *, again: bool) -> frozenset[TableName]:
        """The tables of an interval that are pending, and those that were left and may succeed now."""
        states = _OPEN if again or self.request.failed else (IntervalState.PENDING,)
        return frozenset(
            name
            for entry in entries
            if self.is_requested(name := TableName(entry.database, entry.table))
            and (
                entry.state in states
                or (entry.state is IntervalState.BLOCKED and self.newest_version(name) > entry.history)
            )
        )

    def _hold_deleted(self, interval: Interval, entries: Iterable[TableInterval]) -> bool:
        """Whether an interval's transactions were deleted by age; what is pending of it is then blocked for ever."""
        stream = self.planned.stream
        if interval.after_seq == interval.last_seq or interval.after_seq + 1 >= stream.first_seq:
            return False
        try:
            stream.segments_of(interval.after_seq + 1, interval.last_seq)
        except StreamHoleError as error:
            reason = error.facts()
            self.planned.tables.put(
                replace(
                    entry,
                    state=IntervalState.BLOCKED,
                    reason=reason,
                    history=self.history,
                    changed_at=self.planned.now,
                )
                for entry in entries
                if entry.state in {IntervalState.PENDING, IntervalState.BLOCKED}
            )
        return True

    def _rows_in(self, interval: Interval) -> frozenset[TableName]:
        planned = self.planned
        entries = planned.tables.of_interval(planned.source.name, interval.start)
        names = (TableName(entry.database, entry.table) for entry in entries)
        return frozenset(name for name in names if self.is_requested(name) and not planned.excluded.has(name, interval))


def _count_left(
    planned: PlannedSource, intervals: SourceIntervals, span: TimeSpan, work: Iterable[IntervalWork]
) -> RunRemainder:
    chosen = {(part.interval.start, name.database, name.table) for part in work for name in part.tables}
    left = [
        entry.state
        for entry in _open_before(planned, span.end)
        if (entry.start, entry.database, entry.table) not in chosen
        and planned.is_wanted(TableName(entry.database, entry.table))
    ]
    pending, failed, blocked = map(left.count, _OPEN)
    return RunRemainder(pending, failed, blocked, intervals.count_unowned(span))


def _open_before(planned: PlannedSource, end: int) -> list[TableInterval]:
    """What is pending or was left of the intervals that begin before a time."""
    # Databases would look at all intervals before it, of which hardly any is open.
    return [entry for entry in planned.tables.select(planned.source.name, _OPEN) if entry.start < end]


def _bytes_of(stream: LandedStream, interval: Interval) -> int:
    """Landed bytes of an interval's transactions."""
    segments = stream.segments_of(interval.after_seq + 1, interval.last_seq)
    return sum(bytes_in(segment, interval) for segment in segments)


def bytes_in(segment: LandedSegment, interval: Interval) -> int:
    """Bytes of an interval's transactions in one segment."""
    first = segment.index.record(max(interval.after_seq + 1, segment.summary.first_seq))
    last = segment.index.record(min(interval.last_seq, segment.summary.last_seq))
    return last.end - first.begin
