"""Which schema version decodes the rows of which TABLE_MAP, and how.
Not here: reading TABLE_MAPs (`binlog/events/table_map.py`), comparing them with a version (`table_map_check.py`)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.arrow_columns import repeated_number
from strata_cdc.binlog.events.cell_widths import CellWidths
from strata_cdc.binlog.events.hidden_fractions import cell_widths, has_hidden_fractions
from strata_cdc.changes.arrow import BEFORE, ROW_FIELDS
from strata_cdc.changes.column_plans import ColumnPlan, plan_columns
from strata_cdc.changes.crossing import find_crossing
from strata_cdc.changes.old_times import sized, with_fractions
from strata_cdc.changes.physical import physical_definition
from strata_cdc.changes.row_buffers import BATCH_ROWS
from strata_cdc.changes.table_map_check import differing_values, disagreements
from strata_cdc.errors import SchemaMismatchError, StrataError, UnsupportedEventError
from strata_cdc.schema.history.shell_words import table_word
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.definition import TableDefinition, TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import Lookup, TableVersion
    from strata_cdc.changes.table_map_check import Disagreement


class OnMismatch(Enum):
    """What to do with rows whose TABLE_MAP contradicts their schema version."""

    QUARANTINE = "quarantine"
    """The rows are quarantined with the reason, decoded by the map alone; other tables continue."""
    FAIL = "fail"
    """Decoding stops before them."""
    LENIENT = "lenient"
    """Columns are matched from the first on: columns that the version lacks are dropped, columns that the map lacks get
    their default, and a `Hole` reports it. Rows whose columns differ in more than their number are quarantined."""


class DecodePlan(Struct, frozen=True, eq=False):
    """How the rows of a table become batches: decided once per version and TABLE_MAP."""

    table: TableName
    version_id: int | None
    """None for rows that are decoded by their TABLE_MAP alone."""
    definition: TableDefinition
    columns: tuple[ColumnPlan, ...]
    image: pa.StructType
    """The Arrow struct of an image's columns."""
    schema: pa.Schema
    """Schema of the batches: as `arrow.change_schema`, with the wanted columns."""
    no_image: pa.StructArray
    """NULL images, as many as the longest batch has rows."""
    versions: pa.Array
    """`version_id`, repeated as often."""
    mismatch: SchemaMismatchError | None = None
    """Why the rows are quarantined; `definition` is then that of the TABLE_MAP alone."""
    tolerated: SchemaMismatchError | None = None
    """The mismatch that is tolerated: the rows are decoded all the same."""


class MapPlan(Struct, frozen=True, eq=False):
    """What is done with the rows that follow a TABLE_MAP."""

    cells: CellWidths
    targets: Ints
    """For each column of the TABLE_MAP the number of the wanted column, -1 if it is not wanted."""
    decode: DecodePlan | None
    """None if the rows are only counted."""
    refused: StrataError | None = None
    """Why rows that are wanted are only counted."""


class DecodePlans:
    """Plans by table, TABLE_MAP and version, made when a TABLE_MAP is seen for the first time.

    Args:
        lookup: Returns versions; None to decode by the TABLE_MAPs alone.
        wanted: Which tables to decode; system databases never are.
        on_mismatch: What to do if a TABLE_MAP contradicts the version.
        columns: Names (lower case) of the wanted columns; None for all.
    """

    def __init__(
        self,
        lookup: Lookup | None,
        *,
        wanted: Callable[[TableName], bool],
        on_mismatch: OnMismatch = OnMismatch.QUARANTINE,
        columns: frozenset[str] | None = None,
    ) -> None:
        self._lookup = lookup
        self._wanted = wanted
        self._on_mismatch = on_mismatch
        self._columns = columns
        self._made: dict[tuple[TableName, bytes, int | None], MapPlan] = {}
        self._refused: set[tuple[TableName, str]] = set()

    def is_decoded(self, table: TableName) -> bool:
        """Whether rows of a table are wanted."""
        return table.database not in SYSTEM_DATABASES and self._wanted(table)

    def find(self, table_map: TableMap, seq: int) -> tuple[MapPlan, StrataError | None]:
        """The plan for a transaction's rows that follow a TABLE_MAP: the same object for the same bytes and version.

        Returns:
            The plan, and why the table's rows cannot be decoded as they are; None if they can, or if this reason has
            been returned before.

        Raises:
            CorruptEventError: A column has a type that no server writes.
            SchemaMismatchError: Map and version disagree, and the policy is to fail.
            UnsupportedEventError: A charset is not supported.
        """
        name = TableName(table_map.database, table_map.table)
        version, refused = None, None
        if self._lookup is not None and self.is_decoded(name):
            try:
                version = self._lookup(name, seq)
            except StrataError as error:
                refused = error
        key = (name, table_map.body, version.version_id if version else None)
        plan = self._made.get(key)
        if plan is None:
            plan = self._made[key] = self._make(name, table_map, version)
        if refused is None:
            refused = plan.refused or (plan.decode.tolerated if plan.decode else None)
        if refused is None or (name, refused.message) in self._refused:
            return plan, None
        self._refused.add((name, refused.message))
        return plan, refused.located(table=str(name))

    def _make(self, name: TableName, table_map: TableMap, version: TableVersion | None) -> MapPlan:
        if version is not None:
            return self._plan(name, table_map, version)
        is_decoded = self._lookup is None and self.is_decoded(name)
        if is_decoded and not has_hidden_fractions(table_map):
            cells = CellWidths.from_table_map(table_map)
            return _map_plan(cells, _by_map(name, table_map, cells))
        return _counted(table_map, _unknown_lengths(name) if is_decoded else None)

    def _plan(self, name: TableName, table_map: TableMap, version: TableVersion) -> MapPlan:
        definition, wanted = version.definition, self._columns
        differences = disagreements(definition, table_map)
        complete = with_fractions(table_map, definition)
        if not differences:
            cells = sized(table_map, complete)
            columns = plan_columns(definition.columns, complete, cells, wanted)
            return _map_plan(cells, _decode_plan(name, version.version_id, definition, columns))
        error = _mismatch(name, differences, version, table_map)
        if self._on_mismatch is OnMismatch.FAIL:
            raise error
        if self._on_mismatch is OnMismatch.LENIENT and not differing_values(definition, table_map):
            cells = sized(table_map, complete)
            columns = plan_columns(definition.columns, complete, cells, wanted)
            return _map_plan(cells, _decode_plan(name, version.version_id, definition, columns, tolerated=error))
        if has_hidden_fractions(table_map):
            return _counted(table_map, error)
        cells = CellWidths.from_table_map(table_map)
        return _map_plan(cells, _by_map(name, table_map, cells, version.version_id, error))


def _mismatch(
    name: TableName, differences: Sequence[Disagreement], version: TableVersion, table_map: TableMap
) -> SchemaMismatchError:
    """The error about rows whose TABLE_MAP contradicts the valid version: how, and which version they fit."""
    more = f"; and {len(differences) - 3} more" if len(differences) > 3 else ""
    message, crossing = "; ".join(str(each) for each in differences[:3]) + more, None
    if version.near is not None:
        sentence, crossing = find_crossing(table_map, version.near())
        message = f"{message}; {sentence}"
    return SchemaMismatchError(
        message,
        table=str(name),
        remedy="The schema history does not have what the server had here: look at `strata schema history "
        f"--table {table_word(name)}`, and track the stream again with the right baseline.",
    ).across(crossing)


def _counted(table_map: TableMap, refused: StrataError | None) -> MapPlan:
    """The plan for rows that are only counted."""
    plan = _map_plan(cell_widths(table_map), None)
    return MapPlan(plan.cells, plan.targets, None, refused)


def _unknown_lengths(name: TableName) -> UnsupportedEventError:
    return UnsupportedEventError(
        "a DATETIME, TIMESTAMP or TIME is in the format of MariaDB 5.3, of which a TABLE_MAP does not have the "
        "length: only a schema version that agrees with the TABLE_MAP knows it",
        table=str(name),
        remedy="Decode with the schema history, and take a snapshot if it has no version of the table here. "
        "`ALTER TABLE ... FORCE` gives the table the newer format, for rows from then on.",
    )


def _map_plan(cells: CellWidths, decode: DecodePlan | None) -> MapPlan:
    targets = np.full(len(cells.widths), -1, np.int64)
    for target, column in enumerate(decode.columns if decode else ()):
        if column.index >= 0:
            targets[column.index] = target
    return MapPlan(cells, targets, decode)


def _by_map(
    name: TableName,
    table_map: TableMap,
    cells: CellWidths,
    version_id: int | None = None,
    error: SchemaMismatchError | None = None,
) -> DecodePlan:
    definition = physical_definition(table_map)
    columns = plan_columns(definition.columns, table_map, cells)
    return _decode_plan(name, version_id, definition, columns, mismatch=error)


def _decode_plan(
    name: TableName,
    version_id: int | None,
    definition: TableDefinition,
    columns: tuple[ColumnPlan, ...],
    *,
    mismatch: SchemaMismatchError | None = None,
    tolerated: SchemaMismatchError | None = None,
) -> DecodePlan:
    fields = [pa.field(column.name, column.type) for column in columns]
    image = pa.struct(fields)
    schema = pa.schema([*fields, pa.field(BEFORE, image), *ROW_FIELDS])
    no_image, versions = pa.nulls(BATCH_ROWS, image), repeated_number(version_id, BATCH_ROWS, pa.int64())
    return DecodePlan(name, version_id, definition, columns, image, schema, no_image, versions, mismatch, tolerated)
