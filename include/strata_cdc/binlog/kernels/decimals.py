"""Converts cells of DECIMAL to 128-bit numbers and to text.
Not here: how many bytes a DECIMAL takes (`binlog/events/cell_widths.py`).

Format: `strings/decimal.cc`, `decimal2bin`. Groups of nine digits in four bytes, the highest first; the first and the
last group may have fewer digits in fewer bytes. The top bit is inverted; for a negative number, all bits are inverted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.memory import load_big_u32, load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, Ints, Offsets

LIMB: Final = 0xFFFFFFFF
ONE_LIMB_DIGITS: Final = 18
"""Digits that fit into 64 bits with space for a sign."""
MOST_GROUPS: Final = 9
"""Groups of a number in a calculation (DECIMAL_BUFF_LENGTH, strings/decimal.h). The result of a calculation has whole
groups before the point, so it may have more than the 65 digits that are allowed in a column."""


@part
def group_bytes(digits: Int) -> Int:
    """Bytes that 0 to 9 digits take."""
    return (digits + 1) >> 1 if digits < 9 else np.int64(4)


@part
def power_of_ten(digits: Int) -> Int:
    """10 ** digits for 0 to 9 digits."""
    power = np.int64(1)
    for _ in range(digits):
        power *= 10
    return power


@part
def group_at(buf: Bytes, at: Int, size: Int, mask: Int, flip: Int) -> Int:
    """A group of digits; `mask` is 0xFF for negative numbers, `flip` 0x80 for the number's first byte."""
    if size == 4:
        return load_big_u32(buf, at) ^ (mask * 0x01010101) ^ (flip << 24)
    value = np.int64(0)
    for k in range(size):
        value = (value << 8) | (load_u8(buf, at + k) ^ mask)
    return value ^ (flip << (8 * size - 8))


@part
def count_groups(precision: Int, scale: Int) -> Int:
    """How many groups a number has."""
    whole = precision - scale
    return (whole + 8) // 9 + (scale + 8) // 9


@part
def group_digits(k: Int, count: Int, precision: Int, scale: Int) -> Int:
    """How many digits group `k` of `count` has."""
    first, last = (precision - scale) % 9, scale % 9
    if k == 0 and first > 0:
        return first
    if k == count - 1 and last > 0:
        return last
    return np.int64(9)


@kernel
def gather_decimals(buf: Bytes, base: Int, cells: Cells, precision: Int, scale: Int, out: Ints, bad: Bytes) -> Int:
    """DECIMAL of up to 38 digits: two entries of `out` each, the lower half first.

    Cells with a group of too many digits are marked in `bad`.

    Returns:
        The number of marked cells.
    """
    count, wrong = count_groups(precision, scale), np.int64(0)
    for i in range(cells.shape[0]):
        out[2 * i] = 0
        out[2 * i + 1] = 0
        if cells[i] <= ABSENT_CELL:
            continue
        at = base + np.int64(cells[i])
        negative = load_u8(buf, at) < 0x80
        mask, flip = np.int64(0xFF if negative else 0), np.int64(0x80)
        a, b, c, d = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for k in range(count):
            digits = group_digits(k, count, precision, scale)
            size, power = group_bytes(digits), power_of_ten(digits)
            group = group_at(buf, at, size, mask, flip)
            if group >= power:
                bad[i] = 1
                wrong += 1
                break
            at += size
            flip = np.int64(0)
            a = a * power + group
            if precision > ONE_LIMB_DIGITS:
                b = b * power + (a >> 32)
                c = c * power + (b >> 32)
                d = d * power + (c >> 32)
                a, b, c = a & LIMB, b & LIMB, c & LIMB
        if precision > ONE_LIMB_DIGITS:
            low, high = a | (b << 32), c | (d << 32)
        else:
            low, high = a, np.int64(0)
        if negative:
            high = ~high + np.int64(low == 0)
            low = -low
        out[2 * i] = low
        out[2 * i + 1] = high
    return wrong


@kernel
def write_decimal(buf: Bytes, at: Int, precision: Int, scale: Int, out: Bytes, to: Int) -> Int:
    """Writes a DECIMAL as MySQL prints it; `out` has space for precision + 3 bytes after `to`.

    Returns:
        The position after the text, -1 if a group has too many digits.
    """
    count = count_groups(precision, scale)
    negative = load_u8(buf, at) < 0x80
    mask, flip = np.int64(0xFF if negative else 0), np.int64(0x80)
    if negative:
        out[to] = ord("-")
        to += 1
    left = precision - scale
    started = False
    if left == 0:
        out[to] = ord("0")
        out[to + 1] = ord(".")
        to += 2
        started = True
    for k in range(count):
        digits = group_digits(k, count, precision, scale)
        size, power = group_bytes(digits), power_of_ten(digits)
        group = group_at(buf, at, size, mask, flip)
        if group >= power:
            return np.int64(-1)
        at += size
        flip = np.int64(0)
        for _ in range(digits):
            power //= 10
            digit = group // power
            group -= digit * power
            left -= 1
            started = started or digit > 0 or left == 0
            if started:
                out[to] = ord("0") + digit
                to += 1
            if left == 0 and scale > 0:
                out[to] = ord(".")
                to += 1
    return to


@kernel
def gather_decimal_texts(
    buf: Bytes, base: Int, cells: Cells, precision: Int, scale: Int, offsets: Offsets, out: Bytes, bad: Bytes
) -> Int:
    """DECIMAL of any precision as text; `out` has space for precision + 3 bytes per cell.

    Cells with a group of too many digits are marked in `bad`, and their text is empty.

    Returns:
        The number of marked cells.
    """
    to, wrong = np.int64(0), np.int64(0)
    offsets[0] = 0
    for i in range(cells.shape[0]):
        if cells[i] > ABSENT_CELL:
            behind = write_decimal(buf, base + np.int64(cells[i]), precision, scale, out, to)
            if behind < 0:
                bad[i] = 1
                wrong += 1
            else:
                to = behind
        offsets[i + 1] = to
    return wrong
