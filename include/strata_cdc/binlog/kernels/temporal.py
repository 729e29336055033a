"""Converts cells of dates and times to microseconds and days.
Not here: the text of invalid ones (`changes/invalid.py`).

Formats: MySQL 5.6 and later `mysys/my_time.cc` (`my_datetime_packed_from_binary` and similar), before that
`sql/field.cc`; with fractions before that only in MariaDB 5.3 (`sql/field.cc`, `Field_datetime_hires` and similar).
NULL cells become 0. A value is invalid if it is not a date of the proleptic Gregorian calendar in the years 1 to 9999
(zero dates, 30 February) or not a time of a clock. An invalid value becomes 0, and its entry in `bad` 1; the kernels
return the number of invalid values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.decimals import power_of_ten
from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.numbers import big_endian, little_endian

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Days, Int, Ints

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
NO_DATE: Final = -(1 << 62)
NO_FRACTION: Final = -1
MOST_HOURS: Final = 838
"""The most hours of a TIME."""


@kernel
def days_from_civil(year: Int, month: Int, day: Int) -> Int:
    """Days since 1970-01-01, NO_DATE if there is no such day.

    The year is counted from March, so that the leap day is its last day (Howard Hinnant, chrono-compatible algorithms).
    """
    if year < 1 or year > 9999 or month < 1 or month > 12 or day < 1 or day > 31:
        return np.int64(NO_DATE)
    if day > 28:
        leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
        last = np.int64(31)
        if month == 2:
            last = np.int64(29 if leap else 28)
        elif month in (4, 6, 9, 11):
            last = np.int64(30)
        if day > last:
            return np.int64(NO_DATE)
    shifted = year - np.int64(month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.int64(9 if month <= 2 else -3)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@kernel
def micros_of(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Int:
    """Microseconds since 1970-01-01 00:00:00, NO_DATE if there is no such moment."""
    days = days_from_civil(year, month, day)
    if days == NO_DATE or hour > 23 or minute > 59 or second > 59:
        return np.int64(NO_DATE)
    return days * DAY + (hour * 3600 + minute * 60 + second) * SECOND


@kernel
def fraction_micros(stored: Int, fsp: Int) -> Int:
    """Microseconds of a fraction of a second. It is stored in hundredths, hundreds of microseconds or microseconds.
    NO_FRACTION if it is a second or more, or has more digits than `fsp` (1 to 6)."""
    if fsp & 1 and stored % 10 != 0:
        return np.int64(NO_FRACTION)
    micros = stored
    for _ in range(3 - ((fsp + 1) >> 1)):
        micros *= 100
    return micros if micros < SECOND else np.int64(NO_FRACTION)


@kernel
def fraction_at(buf: Bytes, at: Int, fsp: Int) -> Int:
    """The fraction of a second after DATETIME2 and TIMESTAMP2, 0 to 3 bytes, in microseconds or NO_FRACTION."""
    if fsp == 0:
        return np.int64(0)
    return fraction_micros(big_endian(buf, at, (fsp + 1) >> 1), fsp)


@kernel
def gather_dates(buf: Bytes, base: Int, cells: Cells, out: Days, bad: Bytes) -> Int:
    """DATE, 3 bytes: day 5 bits, month 4, year 15. Days since 1970-01-01."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            packed = little_endian(buf, base + np.int64(cells[i]), 3)
            days = days_from_civil(packed >> 9, (packed >> 5) & 15, packed & 31)
            if days == NO_DATE:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = days
    return bad_count


@kernel
def gather_datetimes(buf: Bytes, base: Int, cells: Cells, fsp: Int, out: Ints, bad: Bytes) -> Int:
    """DATETIME(fsp), 5 bytes and its fraction: sign 1 bit, year * 13 + month 17, day 5, hour 5, minute 6, second 6."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            packed = big_endian(buf, at, 5) - np.int64(0x80_0000_0000)
            day, clock = packed >> 17, packed & 0x1FFFF
            month = day >> 5
            micros = micros_of(month // 13, month % 13, day & 31, clock >> 12, (clock >> 6) & 63, clock & 63)
            fraction = fraction_at(buf, at + 5, fsp)
            if micros == NO_DATE or fraction == NO_FRACTION:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = micros + fraction
    return bad_count


@kernel
def gather_timestamps(buf: Bytes, base: Int, cells: Cells, fsp: Int, out: Ints, bad: Bytes) -> Int:
    """TIMESTAMP(fsp), 4 bytes and its fraction: seconds since 1970 UTC, all 0 for the zero date."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            seconds = big_endian(buf, at, 4)
            fraction = fraction_at(buf, at + 4, fsp)
            if seconds + fraction == 0 or fraction == NO_FRACTION:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = seconds * SECOND + fraction
    return bad_count


@kernel
def micros_of_time(hour: Int, minute: Int, second: Int) -> Int:
    """Microseconds of a TIME without its sign and fraction, NO_DATE if there is no such time."""
    if hour > MOST_HOURS or minute > 59 or second > 59:
        return np.int64(NO_DATE)
    return (hour * 3600 + minute * 60 + second) * SECOND


@kernel
def gather_times(buf: Bytes, base: Int, cells: Cells, fsp: Int, out: Ints, bad: Bytes) -> Int:
    """TIME(fsp), 3 bytes and its fraction: sign 1 bit, unused 1, hour 10, minute 6, second 6.

    Negative times are the two's complement of all bytes together.
    """
    bad_count = np.int64(0)
    size = np.int64(3 + ((fsp + 1) >> 1))
    bits = np.int64(8 * (size - 3))
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            packed = big_endian(buf, base + np.int64(cells[i]), size) - (np.int64(0x800000) << bits)
            magnitude = abs(packed)
            clock = magnitude >> bits
            micros = micros_of_time(clock >> 12, (clock >> 6) & 63, clock & 63)
            fraction = np.int64(0)
            if fsp > 0:
                fraction = fraction_micros(magnitude - (clock << bits), fsp)
            if micros == NO_DATE or fraction == NO_FRACTION:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = micros + fraction if packed >= 0 else -(micros + fraction)
    return bad_count


@kernel
def gather_old_datetimes(buf: Bytes, base: Int, cells: Cells, out: Ints, bad: Bytes) -> Int:
    """DATETIME before 5.6: 8 bytes, the digits YYYYMMDDhhmmss as a number."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            digits = little_endian(buf, base + np.int64(cells[i]), 8)
            day, clock = digits // 1_000_000, digits % 1_000_000
            micros = micros_of(
                day // 10_000, day // 100 % 100, day % 100, clock // 10_000, clock // 100 % 100, clock % 100
            )
            if digits < 0 or micros == NO_DATE:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = micros
    return bad_count


@kernel
def gather_old_timestamps(buf: Bytes, base: Int, cells: Cells, out: Ints, bad: Bytes) -> Int:
    """TIMESTAMP before 5.6: 4 bytes, seconds since 1970 UTC."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            seconds = little_endian(buf, base + np.int64(cells[i]), 4)
            if seconds == 0:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = seconds * SECOND
    return bad_count


@kernel
def gather_old_times(buf: Bytes, base: Int, cells: Cells, out: Ints, bad: Bytes) -> Int:
    """TIME before 5.6: 3 bytes, signed, the digits hhhmmss as a number."""
    bad_count = np.int64(0)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            digits = (little_endian(buf, base + np.int64(cells[i]), 3) ^ 0x800000) - 0x800000
            size = abs(digits)
            micros = micros_of_time(size // 10_000, size // 100 % 100, size % 100)
            if micros == NO_DATE:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = micros if digits >= 0 else -micros
    return bad_count


@kernel
def gather_hires_datetimes(buf: Bytes, base: Int, cells: Cells, digits: Int, out: Ints, bad: Bytes) -> Int:
    """DATETIME(digits) of MariaDB 5.3, 6 to 8 bytes: (((year * 13 + month) * 32 + day) * 24 + hour) and so on, with
    `digits` digits (1 to 6) after the second."""
    bad_count = np.int64(0)
    size = np.int64(6 + (digits > 2) + (digits > 5))
    unit = power_of_ten(digits)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            packed = big_endian(buf, base + np.int64(cells[i]), size)
            seconds = packed // unit
            clock, day = seconds % 86_400, seconds // 86_400
            month = day >> 5
            micros = micros_of(month // 13, month % 13, day & 31, clock // 3600, clock // 60 % 60, clock % 60)
            if packed < 0 or micros == NO_DATE:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = micros + packed % unit * (SECOND // unit)
    return bad_count


@kernel
def gather_hires_timestamps(buf: Bytes, base: Int, cells: Cells, digits: Int, out: Ints, bad: Bytes) -> Int:
    """TIMESTAMP(digits) of MariaDB 5.3, 5 to 7 bytes: seconds since 1970 UTC, then `digits` digits (1 to 6)."""
    bad_count = np.int64(0)
    unit = power_of_ten(digits)
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            seconds = big_endian(buf, at, 4)
            fraction = big_endian(buf, at + 4, (digits + 1) >> 1)
            if seconds + fraction == 0 or fraction >= unit:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = seconds * SECOND + fraction * (SECOND // unit)
    return bad_count


@kernel
def gather_hires_times(buf: Bytes, base: Int, cells: Cells, digits: Int, out: Ints, bad: Bytes) -> Int:
    """TIME(digits) of MariaDB 5.3, 4 to 6 bytes: from -838:59:59.999999 on, with `digits` digits (1 to 6) after the
    second."""
    bad_count = np.int64(0)
    size = np.int64(4 + (digits > 2) + (digits > 5))
    unit = power_of_ten(digits)
    zero = (MOST_HOURS + 1) * 3600 * unit
    for i in range(cells.shape[0]):
        out[i] = 0
        if cells[i] > ABSENT_CELL:
            time = big_endian(buf, base + np.int64(cells[i]), size) - zero
            if abs(time) >= zero:
                bad[i] = 1
                bad_count += 1
            else:
                out[i] = time * (SECOND // unit)
    return bad_count
