"""The plan of a run, `plan.json`: what it decodes, checks and publishes.
Not here: making it (`pipeline/plan/`), reading it from the run folder (`run_folder.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from strata_cdc.changes.plan import PlannedVersion, Slice
from strata_cdc.errors import ErrorFacts  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.files.stored import decode_stored
from strata_cdc.runs.specs import (
    Interval,
    PlannedTable,
    RefusedRows,
    RowsRemoved,
    StatementLogged,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_Value = TypeVar("_Value")


class PlannedSlice(Slice, frozen=True, kw_only=True):
    """A slice, and the interval that owns it."""

    interval_start: int
    """Microseconds UTC."""


PLAN_FORMAT = 4
"""Number of the stored form of a plan. Every older form can still be opened; 1 had no number. A version that wrote
format 2 may not know `sensitive`, and would show those values. From 3 on, each table of a plan is in `past.json`
(`run_past.py`). From 4 on, each definition and each table of slices is stored once, whatever the number of slices."""


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
    refused: tuple[RefusedRows, ...] = ()
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


class _StoredSlice(PlannedSlice, frozen=True, kw_only=True):
    tables: tuple[int, ...] = ()  # type: ignore[assignment]  # numbers of `_StoredPlan.slice_tables`


class _StoredVersion(Struct, frozen=True, array_like=True):
    """A `PlannedVersion`."""

    version_id: int
    database: str
    table: str
    definition: int
    """Number of a definition in `_StoredPlan.definitions`."""


class _StoredPlan(RunPlan, frozen=True, kw_only=True):
    slices: tuple[_StoredSlice, ...] = ()
    versions: tuple[_StoredVersion, ...] = ()  # type: ignore[assignment]  # as it is stored
    slice_tables: tuple[_StoredVersion, ...] = ()
    definitions: tuple[str, ...] = ()


class _Once(Generic[_Value]):
    """Values that are stored once, and their numbers."""

    def __init__(self) -> None:
        self.numbers: dict[_Value, int] = {}

    def number(self, value: _Value) -> int:
        return self.numbers.setdefault(value, len(self.numbers))


def encode_plan(plan: RunPlan) -> bytes:
    """The stored form of a plan."""
    definitions, tables = _Once[str](), _Once[PlannedVersion]()

    def stored(value: PlannedVersion) -> _StoredVersion:
        return _StoredVersion(value.version_id, value.database, value.table, definitions.number(value.definition))

    slices = [
        _StoredSlice(**asdict(planned_slice) | {"tables": tuple(map(tables.number, planned_slice.tables))})
        for planned_slice in plan.slices
    ]
    changed = {
        "slices": tuple(slices),
        "versions": tuple(map(stored, plan.versions)),
        "slice_tables": tuple(map(stored, tables.numbers)),
        "format": PLAN_FORMAT,
    }
    return msgspec.json.encode(_StoredPlan(**asdict(plan) | changed, definitions=tuple(definitions.numbers)))


def _versions(stored: Sequence[_StoredVersion], definitions: Sequence[str]) -> list[PlannedVersion]:
    return [
        PlannedVersion(entry.database, entry.table, entry.version_id, definitions[entry.definition]) for entry in stored
    ]


def _from_stored(content: bytes) -> RunPlan:
    stored = msgspec.json.decode(content, type=_StoredPlan)
    # Each table is one value, whatever the number of slices that have it.
    tables = _versions(stored.slice_tables, stored.definitions)
    slices = [
        PlannedSlice(**asdict(planned_slice) | {"tables": tuple(tables[at] for at in planned_slice.tables)})
        for planned_slice in stored.slices
    ]
    versions = _versions(stored.versions, stored.definitions)
    given = {name: getattr(stored, name) for name in RunPlan.__struct_fields__}
    return RunPlan(**given | {"slices": tuple(slices), "versions": tuple(versions)})


def _from_format_3(content: bytes) -> RunPlan:
    return msgspec.json.decode(content, type=RunPlan)


def decode_plan(content: bytes, file: str) -> RunPlan:
    """Reads the stored form of a plan, in any format so far.

    Raises:
        DamagedFileError: It is no plan, or incomplete.
        StoreFormatError: A newer version wrote it.
    """
    remedy = "Run `strata plan` again: what it planned is still pending."
    former = {1: _from_format_1, 2: _from_format_3, 3: _from_format_3, PLAN_FORMAT: _from_stored}
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
            PlannedVersion(former.database, former.table, int(version), former.definition)
            for version, former in old.definitions.items()
        ),
        refused=tuple(RefusedRows(first, former.table, former.rows, former.error) for former in old.refused),
        removed=old.removed,
        executed_before={str(first): old.executed_before} if old.executed_before else {},
        breaks=old.breaks,
        format=1,
    )
