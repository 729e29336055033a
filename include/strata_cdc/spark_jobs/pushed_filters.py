"""Conditions of Spark that a data source evaluates itself, over Arrow: those with exactly Spark's meaning; Spark keeps
all others.
Not here: the data source (`data_source.py`), conditions in MySQL's SQL (`dialects/conditions/`)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from strata_cdc.clock import to_micros

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.landing.landed import LandedStream

_SEQ: Final = ("_seq",)
_TIME: Final = ("_committed_at",)
_COMPARED: Final[dict[type, Callable[[pa.Array, pa.Scalar], pa.Array]]] = {
    spark.EqualTo: pc.equal,
    spark.GreaterThan: pc.greater,
    spark.GreaterThanOrEqual: pc.greater_equal,
    spark.LessThan: pc.less,
    spark.LessThanOrEqual: pc.less_equal,
}
_TEXTS: Final[dict[type, Callable[..., pa.Array]]] = {
    spark.StringStartsWith: pc.starts_with,
    spark.StringEndsWith: pc.ends_with,
    spark.StringContains: pc.match_substring,
}


def is_exact(condition: Any, schema: pa.Schema) -> bool:
    """Whether `is_true` has Spark's meaning of a condition on columns of this schema.

    Floating-point numbers are Spark's: NaN is equal to itself there, and larger than all others.
    """
    if isinstance(condition, spark.Not):
        return is_exact(condition.child, schema)
    attribute = getattr(condition, "attribute", ())
    kind = _type_of(attribute, schema)
    if kind is None:
        return False
    if isinstance(condition, (spark.IsNull, spark.IsNotNull)):
        return True
    if type(condition) in _TEXTS:
        return bool(pa.types.is_string(kind))
    if isinstance(condition, spark.In):
        return all(_as_scalar(value, kind) is not None for value in condition.value)
    return type(condition) in _COMPARED and _as_scalar(condition.value, kind) is not None


def is_true(condition: Any, batch: pa.RecordBatch) -> pa.Array:
    """For each row true, false, or NULL.

    Args:
        condition: One that `is_exact`.
        batch: Rows.
    """
    if isinstance(condition, spark.Not):
        return pc.invert(is_true(condition.child, batch))
    column = _column(condition.attribute, batch)
    if isinstance(condition, spark.IsNull):
        return column.is_null()
    if isinstance(condition, spark.IsNotNull):
        return column.is_valid()
    if isinstance(condition, spark.In):
        values = pa.array(condition.value, column.type)
        return pc.if_else(column.is_valid(), pc.is_in(column, values), pa.scalar(None, pa.bool_()))
    if type(condition) in _TEXTS:
        return _TEXTS[type(condition)](column, pattern=condition.value)
    return _COMPARED[type(condition)](column, _as_scalar(condition.value, column.type))


def narrowed(conditions: Sequence[spark.Filter], stream: LandedStream, after: int, until: int) -> tuple[int, int]:
    """The part of a range in which conditions on `_seq` and `_committed_at` can be true.

    Args:
        conditions: All must be true.
        stream: What has landed.
        after: The range begins after this transaction.
        until: It ends with this one.
    """
    for condition in conditions:
        places = _places(condition, stream)
        if places is None:
            continue
        before, last = places
        kind = type(condition)
        if kind in {spark.EqualTo, spark.GreaterThan, spark.GreaterThanOrEqual}:
            after = max(after, last if kind is spark.GreaterThan else before)
        if kind in {spark.EqualTo, spark.LessThan, spark.LessThanOrEqual}:
            until = min(until, before if kind is spark.LessThan else last)
    return after, max(after, until)


def _places(condition: Any, stream: LandedStream) -> tuple[int, int] | None:
    """The last transaction before the value of a condition, and the last one that has it; None if the condition is on
    another column."""
    attribute, value = getattr(condition, "attribute", ()), getattr(condition, "value", None)
    if attribute == _SEQ and isinstance(value, int):
        return value - 1, value
    if attribute == _TIME and isinstance(value, datetime):
        time = to_micros(value)
        return stream.seq_before(time), stream.seq_before(time + 1)
    return None


def _type_of(attribute: Sequence[str], schema: pa.Schema) -> pa.DataType | None:
    """The type of a column, or of a field in it; None if there is no such column, or several."""
    kind: pa.DataType | None = pa.struct(list(schema))
    for name in attribute:
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind if attribute else None


def _column(attribute: Sequence[str], batch: pa.RecordBatch) -> pa.Array:
    name, *inside = attribute
    column = batch.column(name)
    return pc.struct_field(column, list(inside)) if inside else column


def _as_scalar(value: Any, kind: pa.DataType) -> pa.Scalar | None:
    """A literal of Spark in the type of a column; None if that is not the same value, or types are not compared."""
    if value is None or isinstance(value, float) or not _is_compared(kind):
        return None
    if isinstance(value, bool) != pa.types.is_boolean(kind):
        return None
    if isinstance(value, datetime) and (value.tzinfo is None) != (getattr(kind, "tz", None) is None):
        return None
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.scalar(value, kind)
    return None


def _is_compared(kind: pa.DataType) -> bool:
    is_number = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
    return bool(is_number or pa.types.is_string(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind))
