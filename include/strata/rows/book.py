"""Which schema version decodes the rows of which TABLE_MAP, and how.
Not here: reading TABLE_MAPs (`events/table_map.py`), comparing them with a version (`witness.py`)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata.errors import SchemaMismatchError, StrataError
from strata.events.shape import RowShape
from strata.rows.columns import ColumnPlan, plan_columns
from strata.rows.physical import physical_definition
from strata.rows.witness import differing_values, disagreements
from strata.schema.history.versions import SYSTEM_DATABASES
from strata.schema.model.definition import TableDefinition, TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata.events.model import TableMap
    from strata.rows.slots import Slots


class OnMismatch(Enum):
    """What to do with rows whose TABLE_MAP contradicts their schema version."""

    QUARANTINE = "quarantine"
    """They are set aside, decoded by the map alone, with the reason; other tables go on."""
    FAIL = "fail"
    """Decoding stops before them."""
    LENIENT = "lenient"
    """Columns are matched from the first on: those that the version lacks are dropped, those that the map lacks get
    their default, and a `Hole` says so. Rows whose columns differ in more than number are quarantined all the same."""


class SlotPlan(Struct, frozen=True):
    """How the rows of one slot become batches."""

    table: TableName
    version_id: int | None
    """None for rows that are decoded by their TABLE_MAP alone."""
    definition: TableDefinition
    columns: tuple[ColumnPlan, ...]
    mismatch: SchemaMismatchError | None = None
    """Why the rows are quarantined; `definition` is then that of the TABLE_MAP alone."""
    bent: SchemaMismatchError | None = None
    """What the rows were made to fit in spite of."""


class Version(Struct, frozen=True):
    """A version that may decode rows of a table."""

    version_id: int
    definition: TableDefinition


Lookup = Callable[[TableName, int], Version | None]
"""The version of a table for the rows of a transaction, by its ordinal; None if the rows are not wanted. Raises
SchemaGapError where the version is not known."""


class TableBook:
    """Plans by table and TABLE_MAP, made when a TABLE_MAP is first met.

    Args:
        slots: Where rows go.
        lookup: Gives versions; None to decode by the TABLE_MAPs alone.
        wanted: Which tables to decode; system databases never are.
        on_mismatch: What to do where a TABLE_MAP contradicts the version.
        columns: Names in lower case of the columns that are wanted, for tables of which not all are.
    """

    def __init__(
        self,
        slots: Slots,
        lookup: Lookup | None,
        *,
        wanted: Callable[[TableName], bool],
        on_mismatch: OnMismatch = OnMismatch.QUARANTINE,
        columns: Mapping[TableName, frozenset[str]] | None = None,
    ) -> None:
        self.plans: dict[int, SlotPlan] = {}
        """By slot; the rows of one that has none are only counted."""
        self._slots = slots
        self._lookup = lookup
        self._wanted = wanted
        self._on_mismatch = on_mismatch
        self._columns = columns or {}
        self._known: dict[tuple[str, str, bytes, int | None], int] = {}
        self._refused: set[tuple[TableName, str]] = set()

    def is_decoded(self, table: TableName) -> bool:
        """Whether rows of a table are wanted."""
        return table.database not in SYSTEM_DATABASES and self._wanted(table)

    def take(self, table_map: TableMap, seq: int) -> StrataError | None:
        """Finds or makes the slot of a TABLE_MAP and puts the map in force.

        Returns:
            Why the table's rows cannot be decoded, or not as they are; None if they can, or if that has been returned
            before.

        Raises:
            CorruptEventError: A column has a type that no server writes.
            SchemaMismatchError: Map and version disagree, and the policy is to fail.
            UnsupportedEventError: A charset that is not read.
        """
        name = TableName(table_map.database, table_map.table)
        version, refused = None, None
        if self._lookup is not None and self.is_decoded(name):
            try:
                version = self._lookup(name, seq)
            except StrataError as error:
                refused = error
        key = (name.database, name.table, table_map.body, version.version_id if version else None)
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = self._make(name, table_map, version)
        self._slots.register(table_map.table_id, table_map.body, slot)
        if refused is None and slot in self.plans:
            refused = self.plans[slot].bent
        if refused is None or (name, refused.message) in self._refused:
            return None
        self._refused.add((name, refused.message))
        return refused.located(table=str(name))

    def _make(self, name: TableName, table_map: TableMap, version: Version | None) -> int:
        shape = RowShape.of(table_map)
        plan = None
        if version is not None:
            plan = self._plan(name, table_map, shape, version)
        elif self._lookup is None and self.is_decoded(name):
            plan = _by_map(name, table_map, shape)
        targets = np.full(len(shape.widths), -1, np.int64)
        for target, column in enumerate(plan.columns if plan else ()):
            if column.index >= 0:
                targets[column.index] = target
        slot = self._slots.add(shape, targets)
        if plan is not None:
            self._slots.want(slot)
            self.plans[slot] = plan
        return slot

    def _plan(self, name: TableName, table_map: TableMap, shape: RowShape, version: Version) -> SlotPlan:
        definition = version.definition
        found = disagreements(definition, table_map)
        if not found:
            columns = plan_columns(definition.columns, table_map, shape, self._columns.get(name))
            return SlotPlan(name, version.version_id, definition, columns)
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        error = SchemaMismatchError(
            "; ".join(str(each) for each in found[:3]) + more,
            table=str(name),
            remedy="The schema history does not have what the server had here: look at `strata schema history "
            f"--table {name}`, and track the stream again with the right baseline.",
        )
        if self._on_mismatch is OnMismatch.FAIL:
            raise error
        if self._on_mismatch is OnMismatch.LENIENT and not differing_values(definition, table_map):
            columns = plan_columns(definition.columns, table_map, shape, self._columns.get(name))
            return SlotPlan(name, version.version_id, definition, columns, bent=error)
        return _by_map(name, table_map, shape, version.version_id, error)


def _by_map(
    name: TableName,
    table_map: TableMap,
    shape: RowShape,
    version_id: int | None = None,
    error: SchemaMismatchError | None = None,
) -> SlotPlan:
    definition = physical_definition(table_map)
    return SlotPlan(name, version_id, definition, plan_columns(definition.columns, table_map, shape), error)
