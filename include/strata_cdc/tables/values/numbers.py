"""Numbers: converts integers, decimals, floating-point numbers, bits and years into each other.
Not here: numbers in texts (`texts.py`), numbers of labels and moments (`labels.py`, `moments.py`)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.schema.model.types import Family, TypeKind
from strata_cdc.tables.values.pair import by_value

if TYPE_CHECKING:
    from strata_cdc.schema.model.types import ColumnType
    from strata_cdc.tables.values.pair import Pair

_BYTES: Final = {
    TypeKind.TINYINT: 1,
    TypeKind.SMALLINT: 2,
    TypeKind.MEDIUMINT: 3,
    TypeKind.INT: 4,
    TypeKind.BIGINT: 8,
}
_EXACT: Final = Context(prec=400)
_WIDEST: Final = 76
_LEAST_BY_TEXT: Final = 1e-12
"""From this size on, 30 decimal places have the 17 digits of a double."""
FIRST_YEAR, LAST_YEAR = 1901, 2155


def bounds(kind: ColumnType) -> tuple[int, int]:
    """The smallest and the largest value of an integer, BIT or YEAR type."""
    if kind.kind is TypeKind.YEAR:
        return FIRST_YEAR, LAST_YEAR
    if kind.kind is TypeKind.BIT:
        return 0, 2 ** (kind.length or 1) - 1
    size = 2 ** (8 * _BYTES[kind.kind])
    return (0, size - 1) if kind.unsigned else (-size // 2, size // 2 - 1)


def as_integers(values: pa.Array) -> pa.Array:
    """Integers in a type for computing: BIT(1) is a boolean in the lake."""
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def from_integers(values: pa.Array, pair: Pair) -> pa.Array:
    """Integers, bits or years to any number type."""
    values = as_integers(values)
    family = pair.new.kind.facts.family
    if family is Family.DECIMAL:
        return to_decimal(values.cast(pa.decimal128(20, 0)), pair)
    if family is Family.FLOATING:
        return to_floating(_doubles_of_integers(values), pair)
    return to_integers(values, pair)


def to_integers(values: pa.Array, pair: Pair) -> pa.Array:
    """Integers of any width (including whole decimals) to an integer, BIT or YEAR that can hold them."""
    range_ = pc.min_max(values).as_py()
    least, most = bounds(pair.new)
    if range_["min"] is not None and (range_["min"] < least or range_["max"] > most):
        pair.refuse("values do not fit")
    if pa.types.is_boolean(pair.target):
        return values.cast(pa.int8()).cast(pair.target)
    return values.cast(pair.target)


def to_decimal(values: pa.Array, pair: Pair) -> pa.Array:
    """Rounds decimals half up, away from zero (`my_decimal_round`)."""
    decimals = pair.new.decimals or 0
    wide = _wide(values)
    if wide.type.scale > decimals:
        wide = pc.round(wide, decimals, round_mode="half_towards_infinity")
    range_ = pc.min_max(wide).as_py()
    most = Decimal(10) ** ((pair.new.length or 10) - decimals)
    if range_["min"] is not None and not (
        range_["max"] < most and (range_["min"] >= 0 if pair.new.unsigned else range_["min"] > -most)
    ):
        pair.refuse("values do not fit")
    exact = wide.cast(pa.decimal256(_WIDEST, decimals))
    return decimal_text(exact) if pa.types.is_string(pair.target) else exact.cast(pair.target)


def from_decimal(values: pa.Array, pair: Pair) -> pa.Array:
    """Decimals to any number type."""
    family = pair.new.kind.facts.family
    if family is Family.DECIMAL:
        return to_decimal(_decimals(values, pair), pair)
    if family is Family.FLOATING:
        # Through the text, as the server does (`decimal2double`).
        return to_floating(decimal_text(_wide(_decimals(values, pair))).cast(pa.float64()), pair)
    rounded = pc.round(_wide(_decimals(values, pair)), 0, round_mode="half_towards_infinity")
    return to_integers(rounded.cast(pa.decimal256(_WIDEST, 0)), pair)


def from_floating(values: pa.Array, pair: Pair) -> pa.Array:
    """FLOAT and DOUBLE to any number type; a FLOAT is widened first."""
    family = pair.new.kind.facts.family
    doubles = values.cast(pa.float64())
    if family is Family.FLOATING:
        return to_floating(doubles, pair)
    if family is Family.DECIMAL:
        return _decimals_of_doubles(doubles, pair)
    rounded = pc.round(doubles, 0, round_mode="half_to_even")
    least, most = bounds(pair.new)
    pair.require(
        pc.and_(pc.greater_equal(rounded, float(least)), pc.less(rounded, float(most + 1))), "values do not fit"
    )
    whole = rounded.cast(pa.uint64() if pair.new.unsigned else pa.int64(), safe=False)
    return to_integers(_signed(whole), pair)


def to_floating(doubles: pa.Array, pair: Pair) -> pa.Array:
    """Doubles to FLOAT or DOUBLE."""
    if pair.new.unsigned:
        pair.require(pc.greater_equal(doubles, 0.0), "values do not fit")
    pair.require(pc.is_finite(doubles), "values do not fit")
    if pa.types.is_float64(pair.target):
        return doubles
    with np.errstate(over="ignore"):
        singles = pa.array(
            doubles.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float32), mask=_nulls(doubles)
        )
    pair.require(pc.is_finite(singles), "values do not fit")
    return singles


def decimal_text(values: pa.Array) -> pa.Array:
    """Decimals as MySQL prints them, with all digits: Arrow prints small ones with an exponent."""
    scale = values.type.scale
    wide = _wide(values)
    # The same digits without the decimal point.
    whole = pa.Array.from_buffers(pa.decimal256(_WIDEST, 0), len(wide), wide.buffers(), offset=wide.offset)
    text = whole.cast(pa.string())
    if scale == 0:
        return text
    sign = pc.if_else(pc.starts_with(text, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(text, "-"), scale + 1, "0")
    front, back = pc.utf8_slice_codeunits(digits, 0, -scale), pc.utf8_slice_codeunits(digits, -scale)
    return pc.binary_join_element_wise(sign, front, ".", back, "")


def _wide(values: pa.Array) -> pa.Array:
    return values.cast(pa.decimal256(_WIDEST, values.type.scale))


def _decimals(values: pa.Array, pair: Pair) -> pa.Array:
    """Decimals; those with more digits than Arrow's 128 bits can hold are texts in the lake."""
    if pa.types.is_string(values.type):
        return values.cast(pa.decimal256(_WIDEST, pair.old.decimals or 0))
    return values


def _decimals_of_doubles(doubles: pa.Array, pair: Pair) -> pa.Array:
    """Doubles to decimals, through the shortest text that gives the same double again (`double2decimal`)."""
    size = pc.abs(doubles)
    pair.require(pc.less(size, 1e38), "values do not fit")
    if pc.all(pc.or_(pc.greater(size, _LEAST_BY_TEXT), pc.equal(size, 0.0)), min_count=0).as_py() is not False:
        return to_decimal(doubles.cast(pa.string()).cast(pa.decimal256(_WIDEST, 30)), pair)
    scale = pair.new.decimals or 0
    step = Decimal(1).scaleb(-scale)
    exact = by_value(
        doubles,
        lambda value: Decimal(repr(value)).quantize(step, ROUND_HALF_UP, context=_EXACT),
        pa.decimal256(_WIDEST, scale),
    )
    return to_decimal(exact, pair)


def _doubles_of_integers(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.uint64())
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    return pa.array(plain.astype(np.float64), mask=_nulls(values))


def _signed(whole: pa.Array) -> pa.Array:
    return whole.cast(pa.decimal128(20, 0)) if pa.types.is_unsigned_integer(whole.type) else whole


def _nulls(values: pa.Array) -> np.ndarray:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))
