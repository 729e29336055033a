"""FLOAT and DOUBLE as the server prints them.
Not here: which literal a default is (`defaults.py`)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from strata_cdc.schema.model.types import TypeKind

if TYPE_CHECKING:
    from strata_cdc.schema.model.types import ColumnType

_LARGEST_FIXED_EXPONENT = 15  # MAX_DECPT_FOR_F_FORMAT (strings/dtoa.cc)
_FLOAT_WIDTH, _DOUBLE_WIDTH = 12, 22
_FLOAT_DIGITS = 6


def approximate_text(value: float, column_type: ColumnType) -> str:
    """The value as a column of that type prints it."""
    single = column_type.kind is TypeKind.FLOAT
    if column_type.decimals is not None:
        text = _with_decimals(value, column_type.decimals, single=single)
        width = column_type.length or 0
    else:
        text = float_text(value) if single else double_text(value)
        width = _FLOAT_WIDTH if single else _DOUBLE_WIDTH
    return text.zfill(width) if column_type.zerofill else text


def _with_decimals(value: float, decimals: int, *, single: bool) -> str:
    """Rounded as a double first, half to even (sql/field.cc, `Field_real::truncate`)."""
    rounded = round(value * 10**decimals) / 10**decimals
    return f"{_single(rounded) if single else rounded:.{decimals}f}"


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def double_text(value: float) -> str:
    """A DOUBLE: the shortest digits from which the same number can be read back."""
    return _printed(repr(value), _DOUBLE_WIDTH)


def float_text(value: float) -> str:
    """A FLOAT: six digits of the nearest single."""
    return _printed(f"{_single(value):.{_FLOAT_DIGITS - 1}e}", _FLOAT_WIDTH)


def _printed(text: str, width: int) -> str:
    """Digits and an exponent in the form of `my_gcvt`."""
    sign, digits, point = _split(text)
    if not digits:
        return f"{sign}0"
    fixed = _fixed(digits, point)
    fits = -_LARGEST_FIXED_EXPONENT + 1 <= point <= _LARGEST_FIXED_EXPONENT and len(sign + fixed) <= width
    if fits:
        return sign + fixed
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{point - 1}"


def _split(text: str) -> tuple[str, str, int]:
    """Sign, significant digits, and the position of the point: the number is 0.digits times ten to that power."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    return sign, digits.strip("0"), point - leading


def _fixed(digits: str, point: int) -> str:
    if point <= 0:
        return "0." + "0" * -point + digits
    if point >= len(digits):
        return digits + "0" * (point - len(digits))
    return f"{digits[:point]}.{digits[point:]}"
