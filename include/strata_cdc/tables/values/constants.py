"""Columns with the same value in all rows: the value that an ALTER fills in, and the default that an INSERT uses.
Not here: which value that is (`schema/history/fills.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.schema.model.conversions import ValueClass, value_class
from strata_cdc.schema.model.types import TypeKind, parse_column_type
from strata_cdc.tables.values.moments import time_of

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column


def constant(column: Column, text: str | None, count: int) -> pa.Array:
    """A column that has the same value in all rows.

    Args:
        text: The value as MySQL prints it, bytes in hexadecimal after `0x`; None for NULL.
        count: Number of rows.
    """
    target = arrow_type(column)
    return pa.nulls(count, target) if text is None else pa.repeat(_scalar(column, text, target), count)


def _scalar(column: Column, text: str, target: pa.DataType) -> pa.Scalar:
    """The value; NULL for a date that the column does not hold."""
    kind = parse_column_type(column.column_type)
    if pa.types.is_binary(target):
        return pa.scalar(bytes.fromhex(text.removeprefix("0x")), target)
    if kind.kind is TypeKind.TIME:
        return pa.scalar(time_of(text), target)
    if pa.types.is_boolean(target):
        return pa.scalar(text == "1", target)
    if value_class(kind.kind) in {ValueClass.DATE, ValueClass.DATETIME, ValueClass.TIMESTAMP}:
        return _moment(text, target)
    if pa.types.is_float32(target):
        return pa.scalar(np.float32(float(text)), target)
    return pa.array([text]).cast(target)[0]


def _moment(text: str, target: pa.DataType) -> pa.Scalar:
    if text.startswith("0000"):
        # Zero dates, and those of the year 0, which Arrow would read as others of its calendar.
        return pa.scalar(None, target)
    try:
        return pa.array([text]).cast(pa.date32() if pa.types.is_date32(target) else pa.timestamp("us")).cast(target)[0]
    except pa.ArrowInvalid:
        # Invalid dates; MySQL allows no other such value as a default.
        return pa.scalar(None, target)
