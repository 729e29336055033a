"""A common type holds every value of both types, or there is none."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.tables.common_types import common_schema, common_type

INTEGERS = st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64()])
DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: pa.decimal128(precision, scale))
)
FLOATS = st.sampled_from([pa.float32(), pa.float64()])
OTHERS = st.sampled_from([pa.string(), pa.binary(), pa.date32(), pa.bool_(), pa.timestamp("us")])
TYPES = INTEGERS | DECIMALS | FLOATS | OTHERS


def extremes(kind):
    """The values of a type that are hardest to keep."""
    if pa.types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        return [-bound, bound - 1, 0, 1]
    if pa.types.is_decimal(kind):
        nines = Decimal((0, (9,) * kind.precision, -kind.scale))
        return [nines, nines.copy_negate(), Decimal((0, (1,), -kind.scale))]
    if pa.types.is_floating(kind):
        return pa.array([0.1, 1e30, -1.5], kind).to_pylist()
    return []


@given(TYPES, TYPES)
def test_it_is_the_same_from_both_sides_and_loses_nothing(left, right):
    found = common_type(left, right)
    assert found == common_type(right, left)
    if found is None:
        assert left != right
        return
    for kind in (left, right):
        values = pa.array(extremes(kind), kind)
        kept = values.cast(found)
        assert kept.to_pylist() == pytest.approx(values.to_pylist(), rel=0, abs=0)
        assert kept.cast(kind).equals(values)


def test_structs_get_the_fields_of_both():
    first = pa.schema([("a", pa.int32()), ("_before", pa.struct([("a", pa.int32())]))])
    second = pa.schema([("b", pa.string()), ("_before", pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.string())]))])
    merged = common_schema([first, second])
    assert merged.names == ["a", "_before", "b"]
    assert merged.field("_before").type == pa.struct([("a", pa.decimal128(12, 2)), ("b", pa.string())])


def test_a_column_without_a_common_type_is_named():
    with pytest.raises(TypeError, match="x is int32 in one and string in another"):
        common_schema([pa.schema([("x", pa.int32())]), pa.schema([("x", pa.string())])])
