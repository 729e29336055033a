"""MySQL's columns as Arrow's: the types of a change table.
Not here: filling them (`decode.py`), columns that only the lake has (`tables/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.schema.model.charsets import MANY_TO_ONE
from strata_cdc.schema.model.types import (
    LABELLED,
    SPATIAL,
    STRINGS,
    ColumnType,
    Family,
    TypeKind,
    kinds_of,
    parse_column_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.schema.model.definition import Column, TableDefinition

MOST_DIGITS = 38
"""Digits of Arrow's decimal128, and of Spark's and Delta's decimals."""

GEOMETRY = pa.struct([pa.field("srid", pa.int32()), pa.field("wkb", pa.binary())])
VECTOR = pa.list_(pa.float32())
TIMESTAMP_UTC = pa.timestamp("us", tz="UTC")
UNSIGNED_BIGINT = pa.decimal128(20, 0)

INVALID = pa.map_(pa.string(), pa.string())
"""From a column to the value that the binlog has for it. A column of the before image has the name `_before.NAME`."""

MISSING = pa.list_(pa.string())
"""The columns that the images lack."""

BEFORE = "_before"

ROW_FIELDS = (
    pa.field("_op", pa.string()),
    pa.field("_gtid", pa.string()),
    pa.field("_seq", pa.int64()),
    pa.field("_row", pa.int64()),
    pa.field("_committed_at", TIMESTAMP_UTC),
    pa.field("_binlog_file", pa.string()),
    pa.field("_binlog_pos", pa.int64()),
    pa.field("_schema_version", pa.int64()),
    pa.field("_missing", MISSING),
    pa.field("_invalid", INVALID),
)
"""The columns that every change has besides its images; `_gtid` is NULL for anonymous transactions.

`_missing` has the names of the columns that a partial image lacks (`_before.NAME` in the before image); it is NULL if
no column is missing. `_invalid` has the values that the column's Arrow type cannot express (these are NULL in the
column), the numbers of labels with the same text as another number, and the bytes of texts that are not in their
charset's usual form (`0xED40`).
"""

_ROW_FIELD_NAMES: Final = [field.name for field in ROW_FIELDS]


def arrow_type(column: Column) -> pa.DataType:
    """The type of a column in Arrow, Parquet and Delta, by the column's exact MySQL type.

    Raises:
        BadData: The column's type is no type of MySQL.
    """
    return arrow_type_of(parse_column_type(column.column_type))


def arrow_type_of(kind: ColumnType) -> pa.DataType:
    """As `arrow_type`, for a type that has been parsed."""
    return ARROW_TYPES[kind.kind](kind)


def may_be_invalid(column: Column) -> bool:
    """Whether a column may have values that only `_invalid` distinguishes from others: invalid dates (zero, impossible,
    of the year 0), numbers of an ENUM or SET with the text of another number, bytes with the text of other bytes.

    Raises:
        BadData: The column's type is no type of MySQL.
    """
    kind = parse_column_type(column.column_type)
    if kind.kind in _CALENDAR or has_many_forms(column):
        return True
    return kind.kind in LABELLED and ("" in kind.labels or len(set(kind.labels)) < len(kind.labels))


def is_labelled(column: Column) -> bool:
    """Whether it is an ENUM or SET."""
    return parse_column_type(column.column_type).kind in LABELLED


def is_calendar(column: Column) -> bool:
    """Whether it is a DATE, DATETIME or TIMESTAMP, which may be zero."""
    return parse_column_type(column.column_type).kind in _CALENDAR


def has_many_forms(column: Column) -> bool:
    """Whether it is text in a charset in which several byte sequences are one character of Unicode."""
    return column.character_set in MANY_TO_ONE and parse_column_type(column.column_type).kind in STRINGS


_CALENDAR = frozenset({TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP})


def _decimal(kind: ColumnType) -> pa.DataType:
    precision = kind.length or 10
    return pa.decimal128(precision, kind.decimals or 0) if precision <= MOST_DIGITS else pa.string()


def _bits(kind: ColumnType) -> pa.DataType:
    bits = kind.length or 1
    if bits == 1:
        return pa.bool_()
    return pa.int64() if bits < 64 else UNSIGNED_BIGINT


def _integer(signed: pa.DataType, unsigned: pa.DataType) -> Callable[[ColumnType], pa.DataType]:
    """Spark and Delta have no unsigned integers, so an unsigned type becomes the next wider signed type."""
    return lambda kind: unsigned if kind.unsigned else signed


def _always(kind: pa.DataType) -> Callable[[ColumnType], pa.DataType]:
    return lambda _: kind


ARROW_TYPES: Final[dict[TypeKind, Callable[[ColumnType], pa.DataType]]] = {
    TypeKind.TINYINT: _integer(pa.int8(), pa.int16()),
    TypeKind.SMALLINT: _integer(pa.int16(), pa.int32()),
    TypeKind.MEDIUMINT: _integer(pa.int32(), pa.int32()),
    TypeKind.INT: _integer(pa.int32(), pa.int64()),
    TypeKind.BIGINT: _integer(pa.int64(), UNSIGNED_BIGINT),
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: _always(pa.float32()),
    TypeKind.DOUBLE: _always(pa.float64()),
    TypeKind.BIT: _bits,
    **dict.fromkeys(kinds_of(Family.CHARACTERS, Family.TEXT, Family.LABELS, Family.FIXED_BYTES), _always(pa.string())),
    **dict.fromkeys(kinds_of(Family.BYTES, Family.BLOB), _always(pa.binary())),
    TypeKind.DATE: _always(pa.date32()),
    TypeKind.DATETIME: _always(pa.timestamp("us")),
    TypeKind.TIMESTAMP: _always(TIMESTAMP_UTC),
    TypeKind.TIME: _always(pa.int64()),
    TypeKind.YEAR: _always(pa.int16()),
    TypeKind.JSON: _always(pa.string()),
    TypeKind.VECTOR: _always(VECTOR),
    **dict.fromkeys(SPATIAL, _always(GEOMETRY)),
}
"""The Arrow type of each column type."""


def change_schema(definition: TableDefinition) -> pa.Schema:
    """The schema of a table's changes: the columns of the after image, `_before`, then `ROW_FIELDS`.

    A MySQL column may have the name of one of those: distinguish them by their position. `tables/` renames them.
    """
    images = image_fields(definition)
    return pa.schema([*images, pa.field(BEFORE, pa.struct(images)), *ROW_FIELDS])


class ChangeColumns:
    """The columns of a batch of changes, by their position: a column of the table may have the name of any other."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        """Takes a batch whose columns are as in `change_schema`."""
        self._batch = batch
        self._own: int = batch.num_columns - len(ROW_FIELDS) - 1

    @property
    def names(self) -> list[str]:
        """The names of the table's own columns."""
        names: list[str] = self._batch.schema.names[: self._own]
        return names

    @property
    def own(self) -> list[pa.Array]:
        """The table's own columns, which are the image after the change."""
        columns: list[pa.Array] = self._batch.columns[: self._own]
        return columns

    @property
    def before(self) -> pa.StructArray:
        """The image before the change; its fields have the same names."""
        return self._batch.column(self._own)

    def index(self, name: str) -> int:
        """The index of a column of `ROW_FIELDS`."""
        return self._own + 1 + _ROW_FIELD_NAMES.index(name)

    def fact(self, name: str) -> pa.Array:
        """A column of `ROW_FIELDS`."""
        return self._batch.column(self.index(name))

    @property
    def facts(self) -> dict[str, pa.Array]:
        """All columns of `ROW_FIELDS`, in their order."""
        return dict(zip(_ROW_FIELD_NAMES, self._batch.columns[self._own + 1 :], strict=True))


def image_fields(definition: TableDefinition) -> list[pa.Field]:
    """One field for each column of an image, nullable because partial images lack columns."""
    return [pa.field(column.name, arrow_type(column)) for column in definition.columns]
