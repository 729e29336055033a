"""Which way each column goes from its cells to Arrow: decided once per table and TABLE_MAP.
Not here: the ways (`gather.py` and its like), whether map and version agree (`table_map_check.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata.errors import UnsupportedEventError
from strata.events.field_types import bit_length
from strata.kernels import numbers
from strata.rows.arrow import MOST_DIGITS, UNSIGNED_BIGINT, arrow_type_of
from strata.rows.charset import UTF8, charset_table
from strata.rows.gather import (
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
from strata.rows.gather_json import GatherJson
from strata.rows.gather_text import (
    GatherBytes,
    GatherGeometry,
    GatherPadded,
    GatherText,
    GatherUtf8,
    GatherVector,
    gather_enum,
    gather_set,
)
from strata.schema.model.types import LABELLED, SPATIAL, STRINGS, ColumnType, TypeKind, parse_column_type
from strata.wire.codes import FieldType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.events.cell_widths import CellWidths
    from strata.events.model import TableMap
    from strata.rows.gather import Gather
    from strata.schema.model.definition import Column


class ColumnPlan(Struct, frozen=True):
    """One wanted column."""

    name: str
    index: int
    """In the row image; -1 if it is not there."""
    code: int
    """Type code in the TABLE_MAP; -1 if it is not there."""
    json_ordinal: int
    """Which of the table's JSON columns it is, if it is one."""
    type: pa.DataType
    gather: Gather


_SMALL = {
    FieldType.TINY: (numbers.gather_1, 0x80),
    FieldType.SHORT: (numbers.gather_2, 0x8000),
    FieldType.INT24: (numbers.gather_3, 0x800000),
    FieldType.LONG: (numbers.gather_4, 0x80000000),
}
_LABELLED = {FieldType.ENUM: gather_enum, FieldType.SET: gather_set}
_DTYPES = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}
_TEMPORAL = frozenset(
    {
        FieldType.DATE,
        FieldType.NEWDATE,
        FieldType.TIME,
        FieldType.TIME2,
        FieldType.DATETIME,
        FieldType.DATETIME2,
        FieldType.TIMESTAMP,
        FieldType.TIMESTAMP2,
    }
)


def plan_columns(
    columns: Sequence[Column], table_map: TableMap, cells: CellWidths, wanted: frozenset[str] | None = None
) -> tuple[ColumnPlan, ...]:
    """A plan for each wanted column, in the table's order.

    Args:
        columns: Of the version that names the row images' columns. Those behind the map's last get their default.
        table_map: Their physical types.
        cells: The same, compiled.
        wanted: Names in lower case; None for all.

    Raises:
        UnsupportedEventError: A type or charset that is not read.
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
            gather = _gather(column, kind, code, table_map.metadata[index], int(cells.widths[index]))
            ordinal = table_map.types[:index].count(FieldType.JSON)
            plans.append(ColumnPlan(column.name, index, code, ordinal, arrow_type_of(kind), gather))
    return tuple(plans)


def _gather(column: Column, kind: ColumnType, code: int, metadata: int, width: int) -> Gather:
    if code in _TEMPORAL:
        return GatherTemporals(code, metadata, width)
    found = _number(kind, code, metadata, width) or _text(column, kind, code, width)
    if found is None:
        raise UnsupportedEventError(f"column {column.name} has type {code}, which is not read")
    return found


def _number(kind: ColumnType, code: int, metadata: int, width: int) -> Gather | None:
    target = arrow_type_of(kind)
    if code in _SMALL:
        kernel, sign = _SMALL[FieldType(code)]
        return GatherIntegers(target, kernel, 0 if kind.unsigned else sign, _DTYPES[target])
    if code in (FieldType.LONGLONG, FieldType.DOUBLE):
        unsigned = target == UNSIGNED_BIGINT
        return GatherUnsigned(target, 8) if unsigned else GatherLongs(target)
    if code in (FieldType.ENUM, FieldType.SET) and kind.kind not in LABELLED:
        # Without a version there are no labels, and their numbers are what is left.
        return GatherUnsigned(target, width)
    return _other_number(target, code, metadata, width)


def _other_number(target: pa.DataType, code: int, metadata: int, width: int) -> Gather | None:
    match code:
        case FieldType.FLOAT:
            return GatherIntegers(target, numbers.gather_4, 0x80000000, np.int32)
        case FieldType.YEAR:
            return GatherYears()
        case FieldType.NEWDECIMAL:
            precision, scale = metadata >> 8, metadata & 0xFF
            return (GatherLongDecimals if precision > MOST_DIGITS else GatherDecimals)(precision, scale)
        case FieldType.BIT:
            return GatherBits(target, bit_length(metadata), width)
        case _:
            return None


def _text(column: Column, kind: ColumnType, code: int, width: int) -> Gather | None:
    if code in _LABELLED:
        return _LABELLED[FieldType(code)](width, kind.labels)
    prefix = -width
    if code == FieldType.JSON:
        return GatherJson(prefix)
    if code == FieldType.VECTOR:
        return GatherVector(prefix)
    if kind.kind in SPATIAL:
        return GatherGeometry(prefix)
    if kind.kind is TypeKind.BINARY:
        return GatherPadded(prefix, kind.length or 0)
    if prefix > 0 and kind.kind in STRINGS and column.character_set is not None:
        return _charset_text(prefix, column.character_set)
    return GatherBytes(prefix) if prefix > 0 else None


def _charset_text(prefix: int, charset: str) -> Gather:
    if charset in UTF8:
        return GatherUtf8(prefix, charset)
    return GatherText(prefix, charset, *charset_table(charset))
