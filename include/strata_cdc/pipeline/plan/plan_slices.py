"""Planning a run: the slices that decode its rows, and the rows that it has to exclude.
Not here: what a run takes (`pending.py`), how slices are cut (`changes/plan.py`)."""

from __future__ import annotations

import hashlib
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from strata_cdc.changes.plan import cut_slices
from strata_cdc.errors import StatementFormatError
from strata_cdc.landing.continuity import Continuity
from strata_cdc.landing.place_prepared import UNNAMED, lost_rows, statement_changes
from strata_cdc.landing.prepared import PreparedPlacement
from strata_cdc.pipeline.plan.pasts import table_pasts
from strata_cdc.pipeline.plan.pending import IntervalWork, PlannedWork, RunRequest, bytes_in, choose_work
from strata_cdc.pipeline.plan.recount import recounted_rows
from strata_cdc.pipeline.plan.runs import records_in_runs
from strata_cdc.pipeline.plan.source_intervals import MEGABYTE
from strata_cdc.runs.run_folder import run_folder, write_plan
from strata_cdc.runs.run_name import RunKind, RunName
from strata_cdc.runs.run_past import RunPast, write_past
from strata_cdc.runs.run_plan import PlannedSlice, RunPlan, encode_plan
from strata_cdc.runs.specs import (
    Interval,
    PlannedTable,
    PlanReport,
    RefusedRows,
    RowsRemoved,
    RunRemainder,
    StatementLogged,
    TimeSpan,
)
from strata_cdc.schema.ddl.dml import without_values
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.failing import FailingTables
from strata_cdc.selection.sensitive import sensitive_of_each, unmatched_columns
from strata_cdc.selection.wanted import unmatched_patterns
from strata_cdc.ticdc.landed_slice import why_set_aside
from strata_cdc.unforeseen import may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import sqlalchemy as sa

    from strata_cdc.binlog.events.model import TableRows, TransactionRecord
    from strata_cdc.changes.plan import PlannedVersion, Slice
    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.history.versions import StatementChange

_SHOWN_STATEMENT = 200
"""Characters."""


def plan_run(source: Source, engine: sa.Engine, stream: LandedStream, request: RunRequest, *, now: int) -> PlanReport:
    """Takes what the request means, cuts it into slices, and stores the plan.

    A plan is named by what it does (`runs/run_name.py`): the same plan is found again, and a different one never takes
    its folder. A past without tables is not stored: its name already shows that there is nothing in it.

    Args:
        source: The source.
        engine: Its store.
        stream: What has landed.
        request: What to do.
        now: The time until which intervals may be closed, microseconds UTC.

    Raises:
        Usage: The request has no meaning, names tables that there are not, or needs what is not tracked yet.
        SettingsError: There are tables, and the settings want none of them.
        StreamHoleError: It asks for transactions that were deleted by age.
    """
    planned, failing = choose_work(source, engine, stream, request, now=now), FailingTables()
    plan = _draft(source, engine, stream, planned, failing)
    known = len(failing.why)
    pasts = tuple(table_pasts(source.name, engine, plan, failing))
    if len(failing.why) > known:
        plan = _draft(source, engine, stream, planned, failing)
    # After it: what has rows and is in no version is counted by now.
    missed = unmatched_patterns(source, engine, stream, request.tables)
    folder = run_folder(source.lake, source.name, plan.run)
    if plan.tables:
        write_past(folder, RunPast(pasts))
        write_plan(folder, plan)
    return PlanReport(
        source=source.name,
        run=plan.run,
        run_url=folder.url,
        intervals=len(plan.intervals),
        tables=len({table.name for table in plan.tables}),
        slices=len(plan.slices),
        rows=sum(table.rows for table in plan.tables),
        refused=sum(refused.rows for refused in plan.refused),
        reason=plan.refused[0].error.message[:_SHOWN_STATEMENT] if plan.refused else None,
        left=planned.left,
        unmatched=(*missed, *unmatched_columns(source, engine)),
    )


def draft_plan(
    source: Source, engine: sa.Engine, stream: LandedStream, request: RunRequest, *, now: int
) -> tuple[RunPlan, RunRemainder]:
    """`plan_run` without storing the plan; returns it, and what it leaves."""
    planned = choose_work(source, engine, stream, request, now=now)
    return _draft(source, engine, stream, planned, FailingTables()), planned.left


def draft_range(
    source: Source, engine: sa.Engine, stream: LandedStream, table: TableName, after: int, until: int
) -> RunPlan:
    """A plan, without a name, that reads one table's rows of transactions after < seq <= until: they are its only
    interval, and whether they are pending or published does not matter.

    Raises:
        StreamHoleError: Some of these transactions were deleted by age.
    """
    interval = Interval(0, 0, after, until, str(stream.executed_at(until)))
    planned = PlannedWork(TimeSpan(0, 0), (), RunRemainder(0, 0, 0, 0), 0)
    draft = _Draft(source, stream, SchemaStore(engine), {}, {})
    draft.add(IntervalWork(interval, frozenset({table})))
    return draft.plan(planned)


def _draft(
    source: Source, engine: sa.Engine, stream: LandedStream, planned: PlannedWork, failing: FailingTables
) -> RunPlan:
    """The plan of what is taken, without the tables that are known to fail; more of them may become known."""
    tables = {table for work in planned.work for table in work.tables}
    sensitive = sensitive_of_each(source, engine, tables, failing)
    draft = _Draft(source, stream, SchemaStore(engine), sensitive, failing.why)
    for work in planned.work:
        draft.add(work)
    return _named(draft.plan(planned), planned)


def _named(plan: RunPlan, planned: PlannedWork) -> RunPlan:
    """The plan with its name, which has a digest of all that it does."""
    span = planned.span
    if plan.intervals:
        span = TimeSpan(plan.intervals[0].start, plan.intervals[-1].end)
    digest = hashlib.blake2b(encode_plan(plan), digest_size=5).hexdigest()
    kind = RunKind.ROWS if plan.slices else RunKind.NOTES if plan.tables else RunKind.NOTHING
    return replace(plan, run=str(RunName(span.start, span.end, plan.source, kind, digest)))


def _even(size: int, most: int) -> int:
    """The size of the fewest equal parts that are no larger than `most`: a small rest would keep one task waiting for
    the others, or the others for it."""
    return -(-size // -(-size // most))


class _Draft:
    """A plan that grows interval by interval."""

    def __init__(
        self,
        source: Source,
        stream: LandedStream,
        store: SchemaStore,
        sensitive: dict[str, tuple[str, ...]],
        failing: Mapping[TableName, ErrorFacts],
    ) -> None:
        self._source, self._stream, self._store = source, stream, store
        self._sensitive, self._failing = sensitive, failing
        self._history = History(store, source.name)
        self._intervals: list[Interval] = []
        self._tables: list[PlannedTable] = []
        self._slices: list[PlannedSlice] = []
        self._versions: dict[tuple[int, str, str], PlannedVersion] = {}
        self._refused: list[RefusedRows] = []
        self._removed: list[RowsRemoved] = []
        self._statements: list[StatementLogged] = []
        self._breaks: dict[str, str] = {}
        self._clock = 0
        """The commit clock after the last transaction that was planned."""

    def add(self, work: IntervalWork) -> None:
        """Plans what is taken of one interval."""
        interval = work.interval
        placement = PreparedPlacement(self._stream, interval.after_seq, interval.last_seq)
        statements = self._logged(work, placement)
        held = {**self._held(statements), **{name: why for name, why in self._failing.items() if name in work.tables}}
        counted = _RowCounter(work.tables)
        refused = self._slice(interval, placement, work.tables - held.keys(), counted)
        self._refused += (
            RefusedRows(interval.start, str(table), 0, replace(error.facts(), table=str(table)))
            for table, error in lost_rows(placement)
            if table in work.tables
        )
        self._intervals.append(interval)
        self._statements += statements
        self._removed += self._removed_rows(work)
        for name in sorted(work.tables):
            rows, without = counted.rows.get(name, 0), refused.get(name, 0)
            if name in counted.exact:
                rows = counted.exact[name] + without
            left = 0 if name in held else rows - without
            self._tables.append(PlannedTable(interval.start, name.database, name.table, rows, left, held.get(name)))

    def plan(self, planned: PlannedWork) -> RunPlan:
        """All of it, without a name."""
        return RunPlan(
            source=self._source.name,
            run="",
            lake=self._source.lake,
            intervals=tuple(self._intervals),
            tables=tuple(self._tables),
            slices=tuple(self._slices),
            versions=tuple(self._versions.values()),
            refused=tuple(self._refused),
            removed=tuple(self._removed),
            statements=tuple(self._statements),
            executed_before={
                str(interval.start): str(self._stream.executed_at(interval.after_seq)) for interval in self._intervals
            },
            breaks=self._breaks,
            history=planned.history,
            sensitive=self._sensitive,
        )

    def _slice(
        self, interval: Interval, placement: PreparedPlacement, wanted: frozenset[TableName], counted: _RowCounter
    ) -> dict[TableName, int]:
        """Cuts an interval's transactions for some tables; returns the rows of each that cannot be decoded."""
        stream = self._stream
        refused: dict[TableName, int] = {}
        clock = stream.clock_at(interval.after_seq)
        line = Continuity(stream.record_at(interval.after_seq)[1] if interval.after_seq >= stream.first_seq else None)
        owned = records_in_runs(stream, interval.after_seq + 1, interval.last_seq, self._is_alike(wanted))
        slices: list[Slice] = []
        for segment, records in groupby(owned, key=itemgetter(0)):
            cut = cut_slices(
                self._followed(counted.follow(placement.place(segment, line.follow(record for _, record in records)))),
                lambda table, seq: self._history.at(table, AtSeq(seq)),
                source=self._source.name,
                segment=segment.url,
                clock=max(clock, self._clock),
                wanted=wanted.__contains__,
                target_bytes=_even(bytes_in(segment, interval), self._source.settings.slice_mb * MEGABYTE),
                lasts=self._history.lasts,
            )
            slices += cut.slices
            for planned_slice in cut.slices:
                self._slices.append(PlannedSlice(**asdict(planned_slice), interval_start=interval.start))
                for table in planned_slice.tables:
                    key = (table.version_id, table.database, table.table)
                    self._versions[key] = table
            for refusal in cut.refused:
                refused[refusal.table] = refused.get(refusal.table, 0) + refusal.rows
                # A sink's rows that are in no version of their table were set aside when they landed.
                why = why_set_aside(segment, refusal.table) or refusal.error.facts()
                self._refused.append(RefusedRows(interval.start, str(refusal.table), refusal.rows, why))
        read = {planned_slice.segment for planned_slice in slices}
        # Tables whose rows the index of a segment could not count.
        uncounted = {TableName(*name) for url in read for name in stream.segment_at(url).summary.uncounted}
        rows = recounted_rows(slices, uncounted)
        counted.exact = {name: rows[name] for name in uncounted & wanted}
        if line.broken_at:
            self._breaks[str(interval.start)] = line.broken_at
        return refused

    def _is_alike(self, wanted: frozenset[TableName]) -> Callable[[TableName, int, int], bool]:
        """Whether a table is known from one transaction to another, by one version; what is not wanted may change."""

        def is_alike(name: TableName, first: int, last: int) -> bool:
            if name not in wanted:
                return True
            try:
                self._history.at(name, AtSeq(first))
                return self._history.lasts(name, first) >= last
            except Exception as error:
                if may_pass(error):
                    raise
                # The reason is reported where its rows are cut into slices.
                return False

        return is_alike

    def _followed(self, records: Iterable[TransactionRecord]) -> Iterable[TransactionRecord]:
        for record in records:
            self._clock = record.committed_at
            yield record

    def _logged(self, work: IntervalWork, placement: PreparedPlacement) -> list[StatementLogged]:
        """Statements that changed rows of the work's tables, or of tables that are not known."""
        interval = work.interval
        changes = statement_changes(self._store, self._source.name, placement)
        return [
            StatementLogged(
                interval.start,
                table.database,
                table.table,
                change.gtid,
                change.binlog_file,
                change.binlog_pos,
                self._shown(change, table),
            )
            for change in changes
            for table in change.tables or (UNNAMED,)
            if table in work.tables
        ]

    def _shown(self, change: StatementChange, table: TableName) -> str:
        """The statement, but for its values where it may be about a sensitive column."""
        is_sensitive = str(table) in self._sensitive or (table == UNNAMED and bool(self._source.settings.sensitive))
        is_sensitive = is_sensitive or table in self._failing
        return without_values(change.statement) if is_sensitive else change.statement[:_SHOWN_STATEMENT]

    def _held(self, statements: Sequence[StatementLogged]) -> dict[TableName, ErrorFacts]:
        """Tables that the settings hold back because the binlog does not have all of their rows, and why."""
        if self._source.settings.on_statement != "hold":
            return {}
        return {
            TableName(statement.database, statement.table): statement_error(self._source.name, statement).facts()
            for statement in reversed(statements)
        }

    def _removed_rows(self, work: IntervalWork) -> list[RowsRemoved]:
        """What DDL removed of the work's tables without row events."""
        interval = work.interval
        return [
            RowsRemoved(interval.start, str(removal.name), removal.gtid, removal.statement[:_SHOWN_STATEMENT])
            for removal in self._store.row_removals(self._source.name, interval.after_seq, interval.last_seq)
            if removal.name in work.tables
        ]


class _RowCounter(Struct):
    """Counts the rows of some tables in the records that pass."""

    tables: frozenset[TableName]
    rows: dict[TableName, int] = field(default_factory=dict)
    exact: Mapping[TableName, int] = field(default_factory=dict)
    """Rows in slices, of tables of which the index has the number of row events (`recount.py`)."""
    _named: dict[TableRows, TableName | None] = field(default_factory=dict)

    def follow(self, records: Iterable[TransactionRecord]) -> Iterable[TransactionRecord]:
        """Passes the records on and adds up their rows by the events' own counts."""
        for record in records:
            for table in record.tables:
                name = self._named[table] if table in self._named else self._name(table)
                if name is not None:
                    self.rows[name] = self.rows.get(name, 0) + table.rows
            yield record

    def _name(self, rows: TableRows) -> TableName | None:
        name = TableName(rows.database, rows.table)
        self._named[rows] = name if name in self.tables else None
        return self._named[rows]


def statement_error(source: str, change: StatementLogged) -> StatementFormatError:
    """The warning for a change that was logged as a statement."""
    return StatementFormatError(
        f"rows were changed by a statement, so the binlog does not hold them: {change.statement}",
        source=source,
        table=change.table_name,
        gtid=change.gtid,
        file=change.binlog_file,
        offset=change.binlog_pos,
        remedy="Set binlog_format = ROW on the server, and load these rows once more.",
    )
