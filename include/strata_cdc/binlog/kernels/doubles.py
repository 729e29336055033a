"""Doubles as the text that MySQL prints: the shortest text that is read as the same number.
Not here: where doubles lie (`jsonb.py`).

Algorithm: Raffaello Giulietti, "The Schubfach way to render doubles" (2021). Layout: `my_gcvt` in
`strings/dtoa.cc` (9.7): plain digits if the point lies within 15 digits of the first one, or
among the digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Word, WordRows

LONGEST_DOUBLE: Final = 36
"""The text of a double has at most this many bytes."""

_LEAST_EXPONENT: Final = -324
_MOST_EXPONENT: Final = 292
_MASK_63: Final = (1 << 63) - 1
_MASK_32: Final = 0xFFFFFFFF
_LEAST_POWER: Final = -1074
_HIDDEN_BIT: Final = 1 << 52
_FIFTEEN_DIGITS: Final = 1e15
_MOST_FRACTION: Final = 6
_PLAIN_DIGITS: Final = 15
"""DBL_DIG: how far from the first digit the point may be in plain notation."""


def _powers() -> WordRows:
    """For each k, floor(10 ** -k * 2 ** -r) + 1 in 126 bits, as two halves of 63 bits."""
    powers = np.empty((_MOST_EXPONENT - _LEAST_EXPONENT + 1, 2), np.uint64)
    for k in range(_LEAST_EXPONENT, _MOST_EXPONENT + 1):
        shift = (-k * 913124641741 >> 38) - 125
        numerator, denominator = (10**-k, 1) if k <= 0 else (1, 10**k)
        scaled = (numerator << -shift) // denominator if shift < 0 else numerator // (denominator << shift)
        powers[k - _LEAST_EXPONENT] = (scaled + 1) >> 63, (scaled + 1) & _MASK_63
    return powers


POWERS = _powers()
"""An argument of the kernels: a global array would be copied into each of them as a constant."""


@part
def multiply(left: Word, right: Word) -> tuple[Word, Word]:
    """The upper and the lower 64 bits of a product."""
    mask, half = np.uint64(_MASK_32), np.uint64(32)
    a, b = left >> half, left & mask
    c, d = right >> half, right & mask
    low, left_middle, right_middle = b * d, b * c, a * d
    middle = (low >> half) + (left_middle & mask) + (right_middle & mask)
    high = a * c + (left_middle >> half) + (right_middle >> half) + (middle >> half)
    return high, ((middle & mask) << half) | (low & mask)


@part
def scale(powers: WordRows, row: Int, value: Word) -> Word:
    """`value` times a power of ten, rounded to odd (the paper's `rop`)."""
    mask, bits = np.uint64(_MASK_63), np.uint64(63)
    carried, _ = multiply(powers[row, 1], value)
    high, low = multiply(powers[row, 0], value)
    rest = (low >> np.uint64(1)) + carried
    high += rest >> bits
    return high | (((rest & mask) + mask) >> bits)


@part
def shortest(powers: WordRows, mantissa: Int, power: Int) -> tuple[Int, Int]:
    """The decimal d * 10 ** e, as (d, e): of the shortest that round to mantissa * 2 ** power, the closest to it."""
    odd = np.uint64(mantissa & 1)
    unsigned_one, unsigned_two = np.uint64(1), np.uint64(2)
    middle = np.uint64(mantissa) << unsigned_two
    right = middle + unsigned_two
    if mantissa != _HIDDEN_BIT or power == _LEAST_POWER:
        left = middle - unsigned_two
        k = (power * 661971961083) >> 41
    else:
        # Below a power of two the next number is only half as far.
        left = middle - unsigned_one
        k = (power * 661971961083 - 274743187321) >> 41
    shift = np.uint64(power + ((-k * 913124641741) >> 38) + 2)
    row = k - _LEAST_EXPONENT
    value = scale(powers, row, middle << shift)
    low = scale(powers, row, left << shift) + odd
    high = scale(powers, row, right << shift)
    digits = value >> unsigned_two
    if digits >= np.uint64(10):
        below = digits // np.uint64(10) * np.uint64(10)
        above = below + np.uint64(10)
        below_fits = low <= below << unsigned_two
        above_fits = (above << unsigned_two) + odd <= high
        if below_fits != above_fits:
            return np.int64(below if below_fits else above), k
    above = digits + unsigned_one
    below_fits = low <= digits << unsigned_two
    above_fits = (above << unsigned_two) + odd <= high
    if below_fits != above_fits:
        return np.int64(digits if below_fits else above), k
    half = (digits + above) << unsigned_one
    if value < half or (value == half and digits & unsigned_one == 0):
        return np.int64(digits), k
    return np.int64(above), k


@part
def few_digits(bits: Int) -> tuple[Int, Int]:
    """A positive double as d * 10 ** e with d < 10 ** 15 and e from -6 to 0, if that is possible; else d is 0.

    A decimal of at most 15 digits that rounds to a double is the only one of its length, so the first is the shortest.
    """
    value = np.int64(bits).view(np.float64)
    scaled, ten = np.float64(1.0), np.int64(0)
    for _ in range(_MOST_FRACTION + 1):
        digits = np.rint(value * scaled)
        if digits >= _FIFTEEN_DIGITS:
            break
        if digits / scaled == value:
            return np.int64(digits), ten
        scaled *= 10.0
        ten -= 1
    return np.int64(0), np.int64(0)


@kernel
def write_double(powers: WordRows, bits: Int, out: Bytes, to: Int) -> Int:
    """Writes the double with these bits; `out` has space for LONGEST_DOUBLE bytes. Returns the position after the text.

    A number without fraction or exponent gets `.0`, as the server prints a JSON double. Returns -1 for infinities and
    NaN, which JSON does not have.
    """
    if bits < 0:
        out[to] = ord("-")
        to += 1
    exponent = (bits >> 52) & 0x7FF
    mantissa = bits & (_HIDDEN_BIT - 1)
    if exponent == 0x7FF:
        return np.int64(-1)
    if exponent == 0 and mantissa == 0:
        out[to] = ord("0")
        out[to + 1] = ord(".")
        out[to + 2] = ord("0")
        return to + 3
    power = np.int64(_LEAST_POWER)
    if exponent > 0:
        mantissa |= _HIDDEN_BIT
        power = exponent - 1075
    digits, ten = few_digits(bits & _MASK_63)
    if digits == 0:
        digits, ten = shortest(powers, mantissa, power)
    while digits % 10_000 == 0:
        digits //= 10_000
        ten += 4
    while digits % 10 == 0:
        digits //= 10
        ten += 1
    return lay_out(digits, ten, out, to)


@part
def lay_out(digits: Int, ten: Int, out: Bytes, to: Int) -> Int:
    """Writes digits * 10 ** ten, where `digits` does not end in 0; returns the position after the text."""
    count, rest = np.int64(1), digits // 10
    while rest > 0:
        count += 1
        rest //= 10
    point = count + ten
    plain = -_PLAIN_DIGITS < point <= _PLAIN_DIGITS or 0 < point < count
    if plain and point <= 0:
        out[to] = ord("0")
        out[to + 1] = ord(".")
        to += 2
        for _ in range(-point):
            out[to] = ord("0")
            to += 1
        return write_digits(digits, count, np.int64(-1), out, to)
    if plain and point < count:
        return write_digits(digits, count, point, out, to)
    if plain:
        to = write_digits(digits, count, np.int64(-1), out, to)
        for _ in range(point - count):
            out[to] = ord("0")
            to += 1
        out[to] = ord(".")
        out[to + 1] = ord("0")
        return to + 2
    to = write_digits(digits, count, np.int64(1) if count > 1 else np.int64(-1), out, to)
    out[to] = ord("e")
    to += 1
    power = point - 1
    if power < 0:
        out[to] = ord("-")
        to += 1
        power = -power
    width = np.int64(1 + (power >= 10) + (power >= 100))
    return write_digits(power, width, np.int64(-1), out, to)


@part
def write_digits(value: Int, count: Int, point: Int, out: Bytes, to: Int) -> Int:
    """Writes `count` digits, with a point after the first `point` ones if that is not -1."""
    end = to + count + (1 if point >= 0 else 0)
    at = end - 1
    for left in range(count, 0, -1):
        if left == point:
            out[at] = ord(".")
            at -= 1
        out[at] = ord("0") + value % 10
        value //= 10
        at -= 1
    return end
