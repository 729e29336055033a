"""How each column is converted from its cells to Arrow: decided once per table and TABLE_MAP.
Not here: the conversions (`gather.py` and similar modules), whether map and version agree (`table_map_check.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.events.field_types import bit_length
from strata_cdc.binlog.kernels import address_texts, numbers
from strata_cdc.changes.arrow import MOST_DIGITS, UNSIGNED_BIGINT, arrow_type_of
from strata_cdc.changes.charset import UTF8, charset_table
from strata_cdc.changes.gather import (
    GatherBits,
    GatherDecimals,
    GatherDefault,
    GatherIntegers,
    GatherLongDecimals,
    GatherLongs,
    GatherTemporals,
    GatherUnsigned,
    GatherYears,
)
from strata_cdc.changes.gather_compressed import INFLATED_PREFIX, GatherCompressed
from strata_cdc.changes.gather_json import GatherJson
from strata_cdc.changes.gather_text import (
    GatherBytes,
    GatherFixedBytes,
    GatherGeometry,
    GatherPadded,
    GatherText,
    GatherUtf8,
    GatherVector,
    gather_enum,
    gather_set,
)
from strata_cdc.errors import UnsupportedEventError
from strata_cdc.schema.model.types import (
    BLOBS,
    INTEGERS,
    SPATIAL,
    STRINGS,
    ColumnType,
    Family,
    TypeKind,
    kinds_of,
    parse_column_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.binlog.events.cell_widths import CellWidths
    from strata_cdc.binlog.events.model import TableMap
    from strata_cdc.changes.gather import Gather
    from strata_cdc.schema.model.definition import Column


class ColumnPlan(Struct, frozen=True):
    """One wanted column."""

    name: str
    index: int
    """Its index in the row image; -1 if it is not there."""
    code: int
    """Type code in the TABLE_MAP; -1 if it is not there."""
    json_ordinal: int
    """Its number among the table's JSON columns, if it is one."""
    type: pa.DataType
    gather: Gather


class _LoggedType(Struct, frozen=True):
    """A column's type, and its entries in the TABLE_MAP."""

    type: ColumnType
    charset: str | None
    code: int
    metadata: int
    width: int
    """Width of a cell, as in `LoggedField.width`."""

    @property
    def target(self) -> pa.DataType:
        """Its type in Arrow."""
        return arrow_type_of(self.type)


def plan_columns(
    columns: Sequence[Column], table_map: TableMap, cells: CellWidths, wanted: frozenset[str] | None = None
) -> tuple[ColumnPlan, ...]:
    """A plan for each wanted column, in the table's order.

    Args:
        columns: Columns of the version that names the row images' columns. Columns after the map's last one get their
            default.
        table_map: Their physical types.
        cells: The same, compiled.
        wanted: Names in lower case; None for all.

    Raises:
        UnsupportedEventError: A type or charset is not supported.
    """
    plans = []
    for index, column in enumerate(columns):
        if wanted is None or column.name.casefold() in wanted:
            kind = parse_column_type(column.column_type)
            if index >= len(table_map.types):
                target = arrow_type_of(kind)
                plans.append(ColumnPlan(column.name, -1, -1, 0, target, GatherDefault(target, column.default)))
                continue
            code = table_map.types[index]
            logged = _LoggedType(kind, column.character_set, code, table_map.metadata[index], int(cells.widths[index]))
            gather = _gather_of(logged)
            if gather is None:
                raise UnsupportedEventError(f"column {column.name} has type {code}, which is not read")
            ordinal = table_map.types[:index].count(FieldType.JSON)
            plans.append(ColumnPlan(column.name, index, code, ordinal, arrow_type_of(kind), gather))
    return tuple(plans)


_SMALL = {
    FieldType.TINY: (numbers.gather_1, 0x80),
    FieldType.SHORT: (numbers.gather_2, 0x8000),
    FieldType.INT24: (numbers.gather_3, 0x800000),
    FieldType.LONG: (numbers.gather_4, 0x80000000),
}
_DTYPES = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}


def _integer(logged: _LoggedType) -> Gather:
    target = logged.target
    if logged.code in _SMALL:
        kernel, sign = _SMALL[FieldType(logged.code)]
        return GatherIntegers(target, kernel, 0 if logged.type.unsigned else sign, _DTYPES[target])
    if logged.code in (FieldType.ENUM, FieldType.SET):
        # Without a version the labels are not known, only their numbers.
        return GatherUnsigned(target, logged.width)
    return GatherUnsigned(target, 8) if target == UNSIGNED_BIGINT else GatherLongs(target)


def _decimal(logged: _LoggedType) -> Gather:
    precision, scale = logged.metadata >> 8, logged.metadata & 0xFF
    return (GatherLongDecimals if precision > MOST_DIGITS else GatherDecimals)(precision, scale, logged.width)


def _gather_of(logged: _LoggedType) -> Gather | None:
    if logged.code not in _COMPRESSED:
        return GATHERS[logged.type.kind](logged)
    inflated = GATHERS[logged.type.kind](replace(logged, width=-INFLATED_PREFIX))
    return inflated and GatherCompressed(-logged.width, _COMPRESSED[logged.code](logged.metadata), inflated)


_COMPRESSED: Final[dict[int, Callable[[int], int]]] = {
    FieldType.VARCHAR_COMPRESSED: lambda metadata: metadata - 1,
    FieldType.BLOB_COMPRESSED: lambda metadata: 256**metadata - 1,
}
"""By code of a compressed column: from its metadata to the bytes of the longest value."""


def _fixed_bytes(logged: _LoggedType) -> Gather:
    width, longest, texts = _ADDRESSES[logged.type.kind]
    return GatherFixedBytes(-logged.width, width, longest, texts)


_ADDRESSES: Final = {
    TypeKind.UUID: (16, address_texts.UUID_BYTES, address_texts.uuid_texts),
    TypeKind.INET4: (4, address_texts.INET4_BYTES, address_texts.inet4_texts),
    TypeKind.INET6: (16, address_texts.INET6_BYTES, address_texts.inet6_texts),
}


def _text(logged: _LoggedType) -> Gather | None:
    if logged.charset is None or logged.width >= 0:
        return _bytes(logged)
    if logged.charset in UTF8:
        return GatherUtf8(-logged.width, logged.charset)
    return GatherText(-logged.width, logged.charset, *charset_table(logged.charset))


def _bytes(logged: _LoggedType) -> Gather | None:
    return GatherBytes(-logged.width) if logged.width < 0 else None


def _temporal(logged: _LoggedType) -> Gather:
    return GatherTemporals(logged.code, logged.metadata, logged.width)


GATHERS: Final[dict[TypeKind, Callable[[_LoggedType], Gather | None]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: lambda logged: GatherIntegers(logged.target, numbers.gather_4, 0x80000000, np.int32),
    TypeKind.DOUBLE: lambda logged: GatherLongs(logged.target),
    TypeKind.BIT: lambda logged: GatherBits(logged.target, bit_length(logged.metadata), logged.width),
    **dict.fromkeys(STRINGS, _text),
    TypeKind.BINARY: lambda logged: GatherPadded(-logged.width, logged.type.length or 0),
    TypeKind.VARBINARY: _bytes,
    **dict.fromkeys(BLOBS, _bytes),
    TypeKind.ENUM: lambda logged: gather_enum(logged.width, logged.type.labels),
    TypeKind.SET: lambda logged: gather_set(logged.width, logged.type.labels),
    **dict.fromkeys(kinds_of(Family.TEMPORAL), _temporal),
    TypeKind.YEAR: lambda logged: GatherYears(logged.type.length or 4),
    TypeKind.JSON: lambda logged: GatherJson(-logged.width),
    TypeKind.VECTOR: lambda logged: GatherVector(-logged.width),
    **dict.fromkeys(SPATIAL, lambda logged: GatherGeometry(-logged.width)),
    **dict.fromkeys(kinds_of(Family.FIXED_BYTES), _fixed_bytes),
}
"""How the cells of each column type become an array. The result is None for a code that is not supported, which only
a TABLE_MAP without a version can have."""
