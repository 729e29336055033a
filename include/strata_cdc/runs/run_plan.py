"""The plan of a run, `plan.json`: what it decodes, checks and publishes.
Not here: making it (`pipeline/plan/`), reading it from the run folder (`run_folder.py`)."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from strata_cdc.changes.plan import Slice
from strata_cdc.errors import ErrorFacts  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.files.stored import decode_stored
from strata_cdc.runs.specs import (
    Interval,
    PlannedTable,
    PlannedVersion,
    Refused,
    RowsRemoved,
    StatementLogged,
)


class PlannedSlice(Slice, frozen=True, kw_only=True):
    """A slice, and the interval that owns it."""

    interval_start: int
    """Microseconds UTC."""


PLAN_FORMAT = 3
"""Number of the stored form of a plan. Every older form can still be opened; 1 had no number. A version that wrote
format 2 may not know `sensitive`, and would show those values. From 3 on, each table of a plan is in `past.json`
(`run_past.py`)."""


class RunPlan(Struct, frozen=True):
    """What one run decodes, checks and publishes: `plan.json` in its run folder."""

    source: str
    run: str
    lake: str
    intervals: tuple[Interval, ...]
    tables: tuple[PlannedTable, ...] = ()
    """In order of interval and name; no other table is part of the run."""
    slices: tuple[PlannedSlice, ...] = ()
    versions: tuple[PlannedVersion, ...] = ()
    """Every definition that the slices need."""
    refused: tuple[Refused, ...] = ()
    removed: tuple[RowsRemoved, ...] = ()
    statements: tuple[StatementLogged, ...] = ()
    executed_before: dict[str, str] = field(default_factory=dict)
    """GTID set that the stream had executed before an interval, by the interval's start."""
    breaks: dict[str, str] = field(default_factory=dict)
    """Where a transaction without a GTID does not begin at the end of the transaction before it: start of the
    interval -> FILE:OFFSET."""
    history: int = 0
    """The newest schema version that the plan knows."""
    sensitive: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns whose values must not be shown, by `database.table`."""
    format: int = PLAN_FORMAT

    def interval(self, start: int) -> Interval:
        """The one of its intervals that starts then (microseconds UTC)."""
        return next(interval for interval in self.intervals if interval.start == start)

    def of_interval(self, interval: Interval) -> tuple[PlannedTable, ...]:
        """The tables of one of its intervals."""
        return tuple(table for table in self.tables if table.interval == interval.start)


def decode_plan(content: bytes, file: str) -> RunPlan:
    """Reads the stored form of a plan, in any format so far.

    Raises:
        DamagedFileError: It is no plan, or incomplete.
        StoreFormatError: A newer version wrote it.
    """
    remedy = "Run `strata plan` again: what it planned is still pending."
    former = {1: _from_format_1}
    return decode_stored(content, RunPlan, newest=PLAN_FORMAT, file=file, remedy=remedy, former=former)


class _RefusedFormat1(Struct):
    table: str
    rows: int
    error: ErrorFacts


class _DefinitionFormat1(Struct):
    database: str
    table: str
    definition: str


class _PlanFormat1(Struct):
    source: str
    run: str
    lake: str
    intervals: tuple[Interval, ...]
    slices: tuple[PlannedSlice, ...]
    expected_rows: dict[str, dict[str, int]]
    refused: tuple[_RefusedFormat1, ...] = ()
    definitions: dict[str, _DefinitionFormat1] = {}
    removed: tuple[RowsRemoved, ...] = ()
    executed_before: str = ""
    breaks: dict[str, str] = {}


def _from_format_1(content: bytes) -> RunPlan:
    old = msgspec.json.decode(content, type=_PlanFormat1)
    tables = [
        PlannedTable(int(start), name.partition(".")[0], name.partition(".")[2], counted=rows, rows=rows)
        for start, counts in old.expected_rows.items()
        for name, rows in counts.items()
    ]
    first = old.intervals[0].start if old.intervals else 0
    return RunPlan(
        source=old.source,
        run=old.run,
        lake=old.lake,
        intervals=old.intervals,
        tables=tuple(sorted(tables, key=lambda table: (table.interval, table.name))),
        slices=old.slices,
        versions=tuple(
            PlannedVersion(int(version), former.database, former.table, former.definition)
            for version, former in old.definitions.items()
        ),
        refused=tuple(Refused(first, former.table, former.rows, former.error) for former in old.refused),
        removed=old.removed,
        executed_before={str(first): old.executed_before} if old.executed_before else {},
        breaks=old.breaks,
        format=1,
    )
