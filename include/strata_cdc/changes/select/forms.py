"""How each column is requested, in which form the server sends it, and which of the decoder's gathers converts it.
Not here: the loop over rows (`binlog/kernels/result_rows.py`), the statement around the columns (`statement.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.kernels import numbers, result_rows
from strata_cdc.binlog.kernels.result_rows import DATE, DECIMAL, DIGITS, EXACT, FIXED, MOMENT, TEXT, TIME
from strata_cdc.changes.arrow import MOST_DIGITS, TIMESTAMP_UTC, UNSIGNED_BIGINT, arrow_type_of
from strata_cdc.changes.charset import UTF8, charset_table
from strata_cdc.changes.gather import GatherBits, GatherIntegers, GatherLongs, GatherUnsigned, array_of
from strata_cdc.changes.gather_text import (
    GatherBytes,
    GatherGeometry,
    GatherPadded,
    GatherText,
    GatherUtf8,
    GatherVector,
    gather_enum,
    gather_set,
)
from strata_cdc.changes.select.calendar import GatherDays, GatherMoments
from strata_cdc.errors import UnsupportedEventError
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.types import (
    BLOBS,
    INTEGERS,
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

    from strata_cdc.binlog.kernels.arrays import Cells
    from strata_cdc.changes.faults import Faults
    from strata_cdc.changes.gather import Gather
    from strata_cdc.changes.region import Region
    from strata_cdc.schema.model.definition import Column

_LENGTH_BYTES = 4
"""Bytes of the length before a cell of TEXT (`binlog/kernels/result_rows.py`)."""


class SelectColumn(Struct, frozen=True):
    """One column of a SELECT."""

    name: str
    expression: str
    """Its expression in the list of the SELECT."""
    form: int
    size: int
    type_codes: frozenset[int]
    """Its type codes in the result set: with another code, the table is not the one that the definition describes."""
    is_unsigned: bool | None
    """Whether the server reports it as unsigned; None if that has no meaning."""
    gather: Gather


class GatherWide(Struct, frozen=True):
    """Numbers of 128 bits."""

    type: pa.DataType

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        out = np.empty(2 * len(cells), np.int64)
        result_rows.gather_16(region.buffer, region.base, cells, out)
        return array_of(self.type, cells, out)


class _ColumnForm(Struct, frozen=True):
    form: int
    size: int
    codes: frozenset[int]
    gather: Gather


def plan_column(column: Column) -> SelectColumn:
    """How to request a column.

    Raises:
        UnsupportedEventError: Its charset is not known.
        BadData: Its type is no type of MySQL.
    """
    kind = parse_column_type(column.column_type)
    form = FORMS[kind.kind](kind, column)
    name = quoted(column.name)
    # The text of a label depends on charsets and on the server's conversions; its number does not. The result of | has
    # 64 bits; that of CAST has 32 on MariaDB if the number is small.
    expression = f"CAST({name} AS UNSIGNED) | 0" if kind.kind in LABELLED else name
    is_integer = kind.kind in INTEGERS
    return SelectColumn(
        column.name,
        expression,
        form.form,
        form.size,
        form.codes,
        kind.unsigned if is_integer else None,
        form.gather,
    )


_SIZES = {FieldType.TINY: 1, FieldType.SHORT: 2, FieldType.INT24: 4, FieldType.LONG: 4, FieldType.LONGLONG: 8}
_KERNELS = {1: (numbers.gather_1, 0x80), 2: (numbers.gather_2, 0x8000), 4: (numbers.gather_4, 0x80000000)}
_DTYPES = {pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64}


def _integer(kind: ColumnType, _: Column) -> _ColumnForm:
    code, target = kind.kind.facts.code, arrow_type_of(kind)
    size = _SIZES[code]
    if size == 8:
        gather: Gather = GatherUnsigned(target, 8) if target == UNSIGNED_BIGINT else GatherLongs(target)
        return _ColumnForm(FIXED, size, frozenset({code}), gather)
    kernel, sign = _KERNELS[size]
    gather = GatherIntegers(target, kernel, 0 if kind.unsigned else sign, _DTYPES[target])
    return _ColumnForm(FIXED, size, frozenset({code}), gather)


def _decimal(kind: ColumnType, _: Column) -> _ColumnForm:
    codes = frozenset({FieldType.NEWDECIMAL})
    if (kind.length or 10) > MOST_DIGITS:
        return _ColumnForm(DIGITS, 0, codes, GatherUtf8(_LENGTH_BYTES, "utf8mb4"))
    return _ColumnForm(DECIMAL, kind.decimals or 0, codes, GatherWide(arrow_type_of(kind)))


def _float(kind: ColumnType, _: Column) -> _ColumnForm:
    gather = GatherIntegers(arrow_type_of(kind), numbers.gather_4, 0x80000000, np.int32)
    return _ColumnForm(FIXED, 4, frozenset({FieldType.FLOAT}), gather)


def _double(kind: ColumnType, _: Column) -> _ColumnForm:
    return _ColumnForm(FIXED, 8, frozenset({FieldType.DOUBLE}), GatherLongs(arrow_type_of(kind)))


def _bits(kind: ColumnType, _: Column) -> _ColumnForm:
    bits = kind.length or 1
    size = (bits + 7) >> 3
    return _ColumnForm(EXACT, size, frozenset({FieldType.BIT}), GatherBits(arrow_type_of(kind), bits, size))


def _text(_: ColumnType, column: Column) -> _ColumnForm:
    charset = column.character_set
    if charset is None:
        raise UnsupportedEventError(f"column {column.name} is text without a charset")
    if charset in UTF8:
        return _ColumnForm(TEXT, 0, _TEXT_CODES, GatherUtf8(_LENGTH_BYTES, charset))
    return _ColumnForm(TEXT, 0, _TEXT_CODES, GatherText(_LENGTH_BYTES, charset, *charset_table(charset)))


def _bytes(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(TEXT, 0, _TEXT_CODES, GatherBytes(_LENGTH_BYTES))


def _padded(kind: ColumnType, _: Column) -> _ColumnForm:
    return _ColumnForm(TEXT, 0, _TEXT_CODES, GatherPadded(_LENGTH_BYTES, 1 if kind.length is None else kind.length))


def _enum(kind: ColumnType, _: Column) -> _ColumnForm:
    return _ColumnForm(FIXED, 8, frozenset({FieldType.LONGLONG}), gather_enum(8, kind.labels))


def _set(kind: ColumnType, _: Column) -> _ColumnForm:
    return _ColumnForm(FIXED, 8, frozenset({FieldType.LONGLONG}), gather_set(8, kind.labels))


def _date(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(DATE, 0, frozenset({FieldType.DATE, FieldType.NEWDATE}), GatherDays())


def _datetime(kind: ColumnType, _: Column) -> _ColumnForm:
    return _ColumnForm(MOMENT, 0, frozenset({FieldType.DATETIME}), GatherMoments(pa.timestamp("us"), kind.length or 0))


def _timestamp(kind: ColumnType, _: Column) -> _ColumnForm:
    # The session's time zone is UTC.
    return _ColumnForm(MOMENT, 0, frozenset({FieldType.TIMESTAMP}), GatherMoments(TIMESTAMP_UTC, kind.length or 0))


def _time(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(TIME, 0, frozenset({FieldType.TIME}), GatherLongs(pa.int64()))


def _year(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(FIXED, 2, frozenset({FieldType.YEAR}), GatherIntegers(pa.int16(), numbers.gather_2, 0, np.int16))


def _json(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(TEXT, 0, frozenset({FieldType.JSON}), GatherUtf8(_LENGTH_BYTES, "utf8mb4"))


def _as_text(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(TEXT, 0, frozenset({FieldType.STRING}), GatherUtf8(_LENGTH_BYTES, "utf8mb4"))


def _vector(_: ColumnType, __: Column) -> _ColumnForm:
    # MariaDB sends a VARBINARY.
    return _ColumnForm(TEXT, 0, frozenset({FieldType.VECTOR, FieldType.VAR_STRING}), GatherVector(_LENGTH_BYTES))


def _geometry(_: ColumnType, __: Column) -> _ColumnForm:
    return _ColumnForm(TEXT, 0, frozenset({FieldType.GEOMETRY}), GatherGeometry(_LENGTH_BYTES))


_TEXT_CODES: Final = frozenset({FieldType.STRING, FieldType.VAR_STRING, FieldType.BLOB})
FORMS: Final[dict[TypeKind, Callable[[ColumnType, Column], _ColumnForm]]] = {
    **dict.fromkeys(INTEGERS, _integer),
    TypeKind.DECIMAL: _decimal,
    TypeKind.FLOAT: _float,
    TypeKind.DOUBLE: _double,
    TypeKind.BIT: _bits,
    **dict.fromkeys(STRINGS, _text),
    TypeKind.BINARY: _padded,
    TypeKind.VARBINARY: _bytes,
    **dict.fromkeys(BLOBS, _bytes),
    TypeKind.ENUM: _enum,
    TypeKind.SET: _set,
    TypeKind.DATE: _date,
    TypeKind.DATETIME: _datetime,
    TypeKind.TIMESTAMP: _timestamp,
    TypeKind.TIME: _time,
    TypeKind.YEAR: _year,
    TypeKind.JSON: _json,
    TypeKind.VECTOR: _vector,
    **dict.fromkeys(kinds_of(Family.FIXED_BYTES), _as_text),
    **dict.fromkeys(SPATIAL, _geometry),
}
"""The form of each column type in the binary protocol (sql/field.cc, `send_to_protocol`)."""
