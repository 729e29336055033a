"""Numbers and moments as texts in decimal digits, a column at a time.
Not here: floats, which msgspec writes (`changes/json_columns.py`), lines of the texts (`json_lines.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import copy_bytes

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints

LONGEST_INTEGER: Final = 20
"""Bytes of -9223372036854775808."""
SECOND_BYTES: Final = 19
"""Bytes of `2024-02-29 12:34:56`."""
_MINUS, _DASH, _COLON, _POINT, _ZERO = 45, 45, 58, 46, 48


@part
def put_two(value: Int, out: Bytes, to: Int) -> None:
    """Writes two digits."""
    out[to] = 48 + value // 10
    out[to + 1] = 48 + value % 10


@kernel
def time_texts(values: Ints, digits: Int, offsets: Ints, out: Bytes) -> Int:
    """TIMEs in microseconds as MySQL prints them, `[-]HH:MM:SS[.ffffff]`, hours up to 838.

    `out` has 17 bytes for each text. Returns the length of the data.
    """
    to = np.int64(0)
    offsets[0] = 0
    for i in range(values.shape[0]):
        value = values[i]
        if value < 0:
            out[to] = 45
            to += np.int64(1)
            value = -value
        seconds, fraction = value // 1_000_000, value % 1_000_000
        hours = seconds // 3600 % 1000
        if hours >= 100:
            out[to] = 48 + hours // 100
            to += np.int64(1)
        put_two(hours % 100, out, to)
        out[to + 2] = 58
        put_two(seconds // 60 % 60, out, to + 3)
        out[to + 5] = 58
        put_two(seconds % 60, out, to + 6)
        to += np.int64(8)
        if digits > 0:
            out[to] = 46
            unit = np.int64(100_000)
            for k in range(digits):
                out[to + 1 + k] = 48 + fraction // unit % 10
                unit //= np.int64(10)
            to += np.int64(1) + digits
        offsets[i + 1] = to
    return to


@kernel
def integer_texts(values: Ints, starts: Ints, out: Bytes) -> Int:
    """Integers as digits; `starts` gets the positions where the texts begin, and where the last one ends.

    `out` has LONGEST_INTEGER bytes for each text. Returns the length of the data.
    """
    to = np.int64(0)
    starts[0] = 0
    for i in range(values.shape[0]):
        value = values[i]
        # The last digit is removed first: the rest can be negated, whatever the number is.
        rest, last = value // 10, value % 10
        if value < 0:
            out[to] = _MINUS
            to += np.int64(1)
            if last > 0:
                rest, last = rest + 1, 10 - last
            rest = -rest
        to += np.int64(digits_of(rest))
        at, left = to, rest
        while left >= 100:
            at -= np.int64(2)
            put_two(left % 100, out, at)
            left //= np.int64(100)
        if left >= 10:
            put_two(left, out, at - 2)
        elif left > 0:
            out[at - 1] = _ZERO + left
        out[to] = _ZERO + last
        to += np.int64(1)
        starts[i + 1] = to
    return to


@part
def digits_of(value: Int) -> Int:
    """The number of digits of a number that is not negative; 0 for the number 0."""
    count, most = np.int64(0), np.int64(1)
    while most <= value:
        count += np.int64(1)
        if count == LONGEST_INTEGER - 2:
            # The next power of ten would be too large; a number whose last digit was removed never needs it.
            return count
        most *= np.int64(10)
    return count


@kernel
def moment_texts(values: Ints, separator: Int, digits: Int, size: Int, out: Bytes) -> None:
    """Moments in microseconds since 1970 as `2024-02-29 12:34:56[.ffffff]`, of years 0 to 9999.

    Args:
        values: The moments. For other years the texts are meaningless.
        separator: The byte between date and time.
        digits: Digits after the second, 0 to 6.
        size: Bytes for each text in `out`; those after the text are not written.
        out: Gets the texts.
    """
    known, written = np.int64(0), np.int64(-1)
    for i in range(values.shape[0]):
        micros = values[i]
        second, fraction, to = micros // 1_000_000, micros % 1_000_000, i * size
        if written >= 0 and second == known:
            # Consecutive commits are mostly in the same second.
            copy_bytes(out, written, out, to, np.int64(SECOND_BYTES))
        else:
            put_second(second, separator, out, to)
        known, written = second, to
        if digits > 0:
            to += np.int64(SECOND_BYTES)
            out[to] = _POINT
            unit = np.int64(100_000)
            for k in range(digits):
                out[to + 1 + k] = _ZERO + fraction // unit % 10
                unit //= np.int64(10)


@part
def put_second(second: Int, separator: Int, out: Bytes, to: Int) -> None:
    """Writes a second since 1970. The year is counted from March, so that the leap day is its last day (Howard Hinnant,
    chrono-compatible algorithms, `civil_from_days`)."""
    days, of_day = second // 86_400 + 719_468, second % 86_400
    era = days // 146_097
    of_era = days - era * 146_097
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + np.int64(3 if shifted < 10 else -9)
    year = year_of_era + era * 400 + np.int64(month <= 2)
    put_two(year // 100 % 100, out, to)
    put_two(year % 100, out, to + 2)
    out[to + 4] = _DASH
    put_two(month, out, to + 5)
    out[to + 7] = _DASH
    put_two(of_year - (153 * shifted + 2) // 5 + 1, out, to + 8)
    out[to + 10] = separator
    put_two(of_day // 3600, out, to + 11)
    out[to + 13] = _COLON
    put_two(of_day // 60 % 60, out, to + 14)
    out[to + 16] = _COLON
    put_two(of_day % 60, out, to + 17)
