"""Planning a run: which intervals a request means, what they own, and the slices that decode it.
Not here: how slices are cut (`rows/plan.py`), how spans become intervals (`intervals.py`)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from strata.errors import StatementFormatError, Usage
from strata.events.continuity import Continuity
from strata.gtid.sets import GtidSet
from strata.jobs.intervals import close, tile, unowned
from strata.jobs.run_folder import run_folder, write_plan
from strata.jobs.specs import Interval, PlanReport, Refused, RowsRemoved, RunPlan, Span
from strata.rows.plan import plan_slices
from strata.schema.history import AtSeq, History
from strata.schema.model import TableName
from strata.schema.store import SchemaStore
from strata.schema.versions import SYSTEM_DATABASES
from strata.store.ledgers import ClosedInterval, IntervalLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import sqlalchemy as sa

    from strata.config.settings import Source
    from strata.events.landed import LandedSegment, LandedStream
    from strata.events.model import TransactionRecord
    from strata.rows.plan import Refusal

MEGABYTE = 1 << 20
_SHOWN_STATEMENT = 200
"""Characters."""


class Request(Struct, frozen=True):
    """What a run is asked for. Nothing given: all that no interval owns yet."""

    start: int | None = None
    """Commit time (microseconds UTC); None with an end: the stream's beginning."""
    end: int | None = None
    """Exclusive; None with a start: now."""
    gtid_set: GtidSet | None = None
    """Instead of a span: from the first to the last of these transactions."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`, on top of the settings'; empty for all of those."""

    @property
    def is_open(self) -> bool:
        """Whether it is for all that no interval owns yet; else intervals inside it are done again."""
        return self.start is None and self.end is None and self.gtid_set is None


def plan_run(source: Source, engine: sa.Engine, stream: LandedStream, request: Request, *, now: int) -> PlanReport:
    """Closes the intervals that the request means, cuts what they own into slices, and stores the plan.

    The same request gives the same plan: closed intervals keep their marks. A plan is named by its span (and tables),
    so a run that died is found again.

    Args:
        source: The source.
        engine: Its store.
        stream: What has landed.
        request: What to do.
        now: The time until which intervals may be closed, microseconds UTC.

    Raises:
        Usage: The request is empty, lies in the future, or names transactions that have not landed.
    """
    ledger = IntervalLedger(engine)
    span = _requested_span(request, stream, now, source.name)
    owned = ledger.all(source.name)
    cut = unowned if request.is_open else tile
    intervals = _settle(ledger, stream, source.name, span, cut, now)
    done_elsewhere = sum(
        interval.start < span.end and interval.end > span.start and _interval(interval) not in intervals
        for interval in owned
    )
    wanted = wanted_tables(source, request.tables)
    tracked = SchemaStore(engine).position(source.name)
    last = max((interval.last_seq for interval in intervals), default=0)
    if last > (tracked.seq if tracked else 0):
        raise Usage(
            f"versions are tracked up to transaction {tracked.seq if tracked else 0} and the run needs {last}",
            source=source.name,
            remedy=f"Run `strata track --source {source.name}` first.",
        )
    store = SchemaStore(engine)
    history = History(store, source.name)
    draft = _Draft(history, store, wanted)
    for interval in intervals:
        draft.add(interval, stream, source)
    run = span.key if not request.tables else f"{span.key}-{_pattern_key(request.tables)}"
    plan = RunPlan(
        source=source.name,
        run=run,
        lake=source.lake,
        intervals=tuple(intervals),
        slices=tuple(draft.slices),
        expected_rows=draft.expected_rows,
        refused=tuple(draft.refused),
        removed=tuple(draft.removed),
        definitions=draft.definitions,
        executed_before=str(stream.executed_at(intervals[0].first_seq)) if intervals else "",
        breaks=draft.breaks,
    )
    folder = run_folder(source.lake, source.name, run)
    write_plan(folder, plan)
    return PlanReport(
        source=source.name,
        run=run,
        run_url=folder.url,
        intervals=len(intervals),
        slices=len(plan.slices),
        rows=sum(sum(rows.values()) for rows in plan.expected_rows.values()),
        refused=sum(refused.rows for refused in plan.refused),
        left_alone=0 if request.is_open else done_elsewhere,
    )


def wanted_tables(source: Source, patterns: Sequence[str] = ()) -> Callable[[TableName], bool]:
    """Whether a table is to be decoded: by the settings, and by the request's own patterns."""
    settings = source.settings

    def wanted(table: TableName) -> bool:
        name = str(table)
        return (
            table.database not in SYSTEM_DATABASES
            and any(fnmatchcase(name, pattern) for pattern in settings.tables)
            and not any(fnmatchcase(name, pattern) for pattern in settings.exclude)
            and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        )

    return wanted


def _pattern_key(patterns: Sequence[str]) -> str:
    return "".join(ch if ch.isalnum() else "_" for ch in "+".join(sorted(patterns)))[:80]


def _requested_span(request: Request, stream: LandedStream, now: int, source: str) -> Span:
    if request.gtid_set is not None:
        return _span_of(request.gtid_set, stream)
    first = stream.record_at(stream.first_seq)[1].committed_at if stream.last_seq else now
    end = now if request.end is None else request.end
    span = Span(min(first, end - 1) if request.start is None else request.start, end)
    if span.start >= span.end:
        raise Usage(f"{span} is empty", source=source)
    if span.end > now:
        raise Usage(f"{span} ends in the future", source=source)
    return span


def _span_of(wanted: GtidSet, stream: LandedStream) -> Span:
    """The time from the first to the last of some transactions; other transactions may be between them."""
    times: list[int] = []
    for segment in stream.segments:
        summary = segment.summary
        if wanted & (GtidSet.parse(summary.executed) - GtidSet.parse(summary.executed_before)):
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
    return Span(min(times), max(times) + 1)


def _settle(
    ledger: IntervalLedger,
    stream: LandedStream,
    source: str,
    span: Span,
    cut: Callable[[Span, Sequence[Interval]], Sequence[Span | Interval]],
    now: int,
) -> list[Interval]:
    """The intervals of a span, each closed for ever; those that exist only if `cut` has them done again."""
    while True:
        owned = [_interval(stored) for stored in ledger.all(source)]
        pieces = cut(span, owned)
        settled: list[Interval] = []
        for piece in pieces:
            if isinstance(piece, Interval):
                settled.append(piece)
                continue
            marks = close(piece, owned, stream.seq_before, lambda seq: str(stream.executed_at(seq)))
            stored = _interval(
                ledger.close(
                    ClosedInterval(
                        source, marks.start, marks.end, marks.first_seq, marks.last_seq, marks.gtid_executed, now
                    )
                )
            )
            if (stored.start, stored.end) != (marks.start, marks.end):
                # Another run closed an overlapping interval in between: cut the request anew.
                break
            owned.append(stored)
            settled.append(stored)
        else:
            return settled


def _interval(stored: ClosedInterval) -> Interval:
    return Interval(stored.start, stored.end, stored.first_seq, stored.last_seq, stored.gtid_executed)


def _bytes_of(interval: Interval, segment: LandedSegment) -> int:
    """Of an interval's transactions in one segment."""
    first = segment.index.record(max(interval.first_seq + 1, segment.summary.first_seq))
    last = segment.index.record(min(interval.last_seq, segment.summary.last_seq))
    return last.end - first.begin


def _even(size: int, most: int) -> int:
    """The size of the fewest equal parts that are no larger than `most`: a small rest would keep one task waiting for
    the others, or the others for it."""
    return -(-size // -(-size // most))


class _Draft(Struct):
    """A plan that grows interval by interval."""

    history: History
    store: SchemaStore
    wanted: Callable[[TableName], bool]
    slices: list[dict[str, Any]] = field(default_factory=list)
    expected_rows: dict[str, dict[str, int]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    removed: list[RowsRemoved] = field(default_factory=list)
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    breaks: dict[str, str] = field(default_factory=dict)
    clock: int = 0
    """The commit clock behind the last transaction that was planned."""

    def add(self, interval: Interval, stream: LandedStream, source: Source) -> None:
        counts: dict[str, int] = {}
        clock = stream.clock_at(interval.first_seq)
        line = Continuity(stream.record_at(interval.first_seq)[1] if interval.first_seq >= stream.first_seq else None)
        owned = stream.records(interval.first_seq + 1, interval.last_seq)
        for segment, records in groupby(owned, key=itemgetter(0)):
            cut = plan_slices(
                self._counted(line.follow(record for _, record in records), counts),
                lambda table, seq: self.history.at(table, AtSeq(seq)),
                source=source.name,
                segment=segment.url,
                clock=max(clock, self.clock),
                wanted=self.wanted,
                target_bytes=_even(_bytes_of(interval, segment), source.settings.slice_mb * MEGABYTE),
            )
            for piece in cut.slices:
                self.slices.append({**piece.to_json(), "interval_start": interval.start})
                for table in piece.tables:
                    self.definitions[str(table.version_id)] = {
                        "database": table.database,
                        "table": table.table,
                        "definition": table.definition,
                    }
            for refusal in cut.refused:
                self._refuse(refusal, counts)
        if line.broken_at:
            self.breaks[str(interval.start)] = line.broken_at
        self.refused += self._holes(interval, source.name)
        self.removed += self._removed(interval, source.name)
        self.expected_rows[str(interval.start)] = {table: rows for table, rows in counts.items() if rows}

    def _holes(self, interval: Interval, source: str) -> list[Refused]:
        """Statements that changed rows of wanted tables: the binlog does not hold those rows."""
        changes = self.store.statement_changes(source, interval.first_seq, interval.last_seq)
        found = []
        for change in changes:
            tables = [str(table) for table in change.tables if self.wanted(table)]
            if not tables and change.tables:
                continue
            error = StatementFormatError(
                "rows were changed by a statement, so the binlog does not hold them: "
                f"{change.statement[:_SHOWN_STATEMENT]}",
                source=source,
                table=tables[0] if tables else None,
                gtid=change.gtid,
                file=change.binlog_file,
                offset=change.binlog_pos,
                remedy="Set binlog_format = ROW on the server, and load these rows once more.",
            )
            found += [Refused(table, 0, error.to_json()) for table in tables or ["a table that could not be told"]]
        return found

    def _removed(self, interval: Interval, source: str) -> list[RowsRemoved]:
        """What DDL removed of wanted tables without row events."""
        return [
            RowsRemoved(interval.start, str(table), removal.gtid, removal.statement[:_SHOWN_STATEMENT])
            for removal in self.store.row_removals(source, interval.first_seq, interval.last_seq)
            for table in removal.tables
            if self.wanted(table)
        ]

    def _counted(self, records: Iterable[TransactionRecord], counts: dict[str, int]) -> Iterable[TransactionRecord]:
        """Passes the records on and adds up the rows of wanted tables by the events' own counts."""
        for record in records:
            for rows in record.tables:
                name = TableName(rows.database, rows.table)
                if self.wanted(name):
                    counts[str(name)] = counts.get(str(name), 0) + rows.rows
            self.clock = record.committed_at
            yield record

    def _refuse(self, refusal: Refusal, counts: dict[str, int]) -> None:
        self.refused.append(Refused(str(refusal.table), refusal.rows, refusal.error.to_json()))
        counts[str(refusal.table)] -= refusal.rows
