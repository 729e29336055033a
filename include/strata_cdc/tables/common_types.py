"""The type that holds all values of two types without loss, to read columns that continue each other as one.
Not here: reading them (`read.py`, `united.py`), when a column continues in another one (`continued.py`)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST_DECIMAL = 38
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Digits of the largest signed integer with this many bits."""
_EXACT_IN_DOUBLE = 32
"""Bits of an integer that every double can hold exactly; 64 would need more than a double's 53."""


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns of the schemas, in the order of their first appearance, each in a type for all of its values.

    Raises:
        TypeError: A column has types without a common type; the message names the column.
    """
    return reduce(_merge, schemas)


def _merge(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    return pa.schema(_merge_fields(list(left), list(right)))


def _merge_fields(left: Sequence[pa.Field], right: Sequence[pa.Field]) -> list[pa.Field]:
    merged = {field.name: field for field in left}
    for field in right:
        known = merged.get(field.name, field)
        kind = common_type(known.type, field.type)
        if kind is None:
            raise TypeError(f"{field.name} is {known.type} in one and {field.type} in another")
        merged[field.name] = pa.field(field.name, kind)
    return list(merged.values())


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type for the values of both; None if no type holds them without loss."""
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        return pa.struct(_merge_fields(list(left), list(right)))
    if _is_exact(left) and _is_exact(right):
        return _common_exact(left, right)
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        return pa.float64() if _fits_double(left) and _fits_double(right) else None
    return None


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _common_exact(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if pa.types.is_integer(left) and pa.types.is_integer(right):
        return max(left, right, key=lambda kind: kind.bit_width)
    (whole_left, scale_left), (whole_right, scale_right) = _places(left), _places(right)
    scale = max(scale_left, scale_right)
    precision = max(whole_left, whole_right) + scale
    return pa.decimal128(precision, scale) if precision <= _WIDEST_DECIMAL else None


def _places(kind: pa.DataType) -> tuple[int, int]:
    """Number of digits before and after the decimal point."""
    if pa.types.is_integer(kind):
        return _DIGITS[kind.bit_width], 0
    return kind.precision - kind.scale, kind.scale


def _fits_double(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or (pa.types.is_integer(kind) and kind.bit_width <= _EXACT_IN_DOUBLE)
    )
