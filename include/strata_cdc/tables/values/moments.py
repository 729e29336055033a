"""Dates and times: converts them to fewer digits, into each other, and to numbers and texts; reads them from texts.
Not here: which time zones of a session are known (`schema/model/time_zones.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.schema.model.types import TypeKind
from strata_cdc.tables.values.numbers import to_integers
from strata_cdc.tables.values.pair import by_value

if TYPE_CHECKING:
    from strata_cdc.tables.values.pair import Pair

Micros = npt.NDArray[np.int64]

SECOND: Final = 1_000_000
HOUR: Final = 3_600 * SECOND
DAY: Final = 24 * HOUR
_LONGEST_TIME: Final = (838 * 3600 + 59 * 60 + 59) * SECOND
_LAST_MOMENT: Final = 253_402_300_799_999_999
"""9999-12-31 23:59:59.999999 in microseconds."""
_LAST_TIMESTAMP: Final = 2_147_483_647_999_999
"""2038-01-19 03:14:07.999999 UTC in microseconds."""
_DATE: Final = r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"
_MOMENT: Final = (
    r"^[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01]) ([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,6})?$"
)
_TIME: Final = re.compile(r"(-?)([0-9]{2,3}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,6}))?")
_TIME_TEXT: Final = r"^-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$"


def rounded(micros: Micros, digits: int, *, truncates: bool) -> Micros:
    """Microseconds with this many digits of a fraction: rounded half away from zero, or cut."""
    unit = 10 ** (6 - digits)
    size, sign = np.abs(micros), np.sign(micros)
    rest = size % unit
    result: Micros = sign * (size - rest + (0 if truncates else (rest * 2 >= unit) * unit))
    return result


def to_fewer_digits(values: pa.Array, pair: Pair) -> pa.Array:
    """DATETIME, TIMESTAMP or TIME with fewer digits after the second."""
    digits = pair.new.length or 0
    micros, nulls = _micros(values)
    is_time = pair.new.kind is TypeKind.TIME
    if is_time:
        rounded_micros = rounded(micros, digits, truncates=pair.truncates)
        _require_within(np.abs(rounded_micros), _LONGEST_TIME, pair)
    else:
        rounded_micros = _rounded_moments(micros, digits, pair)
    return pa.array(rounded_micros, pa.int64(), mask=nulls).cast(pair.target)


def date_to_datetime(values: pa.Array, pair: Pair) -> pa.Array:
    """Midnight of each date."""
    return values.cast(pa.timestamp("us")).cast(pair.target)


def datetime_to_timestamp(values: pa.Array, pair: Pair) -> pa.Array:
    """The moment that has this date and time in the session's zone."""
    micros, nulls = _micros(values)
    rounded_moments = _rounded_moments(micros, pair.new.length or 0, pair) - _offset(pair)
    known = rounded_moments[~nulls]
    # Outside strict mode, the value becomes a zero date.
    if known.size and (known.min() < SECOND or known.max() > _LAST_TIMESTAMP):
        pair.refuse("values are moments that no TIMESTAMP has")
    return pa.array(rounded_moments, pa.int64(), mask=nulls).cast(pair.target)


def timestamp_to_datetime(values: pa.Array, pair: Pair) -> pa.Array:
    """The date and time of a moment in the session's zone."""
    micros, nulls = _micros(values)
    rounded_moments = _rounded_moments(micros + _offset(pair), pair.new.length or 0, pair)
    return pa.array(rounded_moments, pa.int64(), mask=nulls).cast(pair.target)


def _offset(pair: Pair) -> int:
    if pair.offset_seconds is None:
        pair.refuse("the session's time zone is not known")
    return pair.offset_seconds * SECOND


def datetime_to_date(values: pa.Array, pair: Pair) -> pa.Array:
    """The day of a moment after rounding to a second."""
    micros, nulls = _micros(values)
    days = _rounded_moments(micros, 0, pair) // DAY
    return pa.array(days.astype(np.int32), pa.int32(), mask=nulls).cast(pair.target)


def datetime_to_time(values: pa.Array, pair: Pair) -> pa.Array:
    """The time of the day."""
    _require_no_zero_dates(values, pair)
    micros, nulls = _micros(values)
    times = rounded(micros % DAY, pair.new.length or 0, truncates=pair.truncates)
    return pa.array(times, pa.int64(), mask=nulls)


def date_to_text(values: pa.Array, pair: Pair) -> pa.Array:
    """The text that MySQL prints."""
    _require_no_zero_dates(values, pair)
    return values.cast(pa.string())


def datetime_to_text(values: pa.Array, pair: Pair) -> pa.Array:
    """The text that MySQL prints, with as many digits as the column had."""
    _require_no_zero_dates(values, pair)
    digits = pair.old.length or 0
    return pc.utf8_slice_codeunits(values.cast(pa.string()), 0, 19 + (digits + 1 if digits else 0))


def time_to_text(values: pa.Array, pair: Pair) -> pa.Array:
    """The text that MySQL prints, with as many digits as the column had."""
    digits = pair.old.length or 0
    micros, nulls = _micros(values)
    size = np.abs(micros)
    hours = pc.utf8_lpad(pa.array(size // HOUR, pa.int64(), mask=nulls).cast(pa.string()), 2, "0")
    clock = pa.array(size % HOUR, pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    rest = pc.utf8_slice_codeunits(clock, len("1970-01-01 00"), 19 + (digits + 1 if digits else 0))
    return pc.binary_join_element_wise(pc.if_else(pa.array(micros < 0), "-", ""), hours, rest, "")


def date_to_integer(values: pa.Array, pair: Pair) -> pa.Array:
    """The number YYYYMMDD."""
    return to_integers(_digits(date_to_text(values, pair)), pair)


def _require_whole_seconds(micros: Micros, pair: Pair) -> None:
    """Numbers are not made as the mode says: MySQL rounds even with TIME_TRUNCATE_FRACTIONAL (9.7.4), MariaDB always
    cuts (11.8.9). Which server it was is not known here."""
    if pair.truncates:
        pair.require(pa.array(micros % SECOND == 0), "times have fractions of seconds")


def datetime_to_integer(values: pa.Array, pair: Pair) -> pa.Array:
    """The number YYYYMMDDhhmmss of the moment after rounding to a second."""
    _require_no_zero_dates(values, pair)
    micros, nulls = _micros(values)
    _require_whole_seconds(micros, pair)
    moments = pa.array(_rounded_moments(micros, 0, replace(pair, truncates=False)), pa.int64(), mask=nulls).cast(
        pa.timestamp("us")
    )
    return to_integers(_digits(pc.utf8_slice_codeunits(moments.cast(pa.string()), 0, 19)), pair)


def time_to_integer(values: pa.Array, pair: Pair) -> pa.Array:
    """The number hhmmss of the time after rounding to a second."""
    micros, nulls = _micros(values)
    _require_whole_seconds(micros, pair)
    whole = rounded(micros, 0, truncates=False)
    seconds, sign = np.abs(whole) // SECOND, np.sign(whole)
    integers = sign * (seconds // 3600 * 10_000 + seconds // 60 % 60 * 100 + seconds % 60)
    return to_integers(pa.array(integers, pa.int64(), mask=nulls), pair)


def text_to_moment(values: pa.Array, pair: Pair) -> pa.Array:
    """Texts in exactly the form in which MySQL prints a DATE, DATETIME or TIME, to that type."""
    form = {TypeKind.DATE: _DATE, TypeKind.TIME: _TIME_TEXT}.get(pair.new.kind, _MOMENT)
    pair.require(pc.match_substring_regex(values, form), "texts are no plain dates and times")
    if pair.new.kind is TypeKind.TIME:
        return to_fewer_digits(by_value(values, time_of, pa.int64()), pair)
    try:
        moments = values.cast(pa.date32() if pair.new.kind is TypeKind.DATE else pa.timestamp("us"))
    except pa.ArrowInvalid:
        pair.refuse("texts are days that no month has")
    return moments if pair.new.kind is TypeKind.DATE else to_fewer_digits(moments, pair)


def time_of(text: str) -> int:
    """Microseconds of a TIME that MySQL printed; an empty text is 0."""
    if not text:
        return 0
    match = _TIME.fullmatch(text)
    if match is None:  # a regular expression has seen it
        raise ValueError(text)
    sign, hours, minutes, seconds, fraction = match.groups(default="")
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * SECOND + int(fraction.ljust(6, "0"))
    return -micros if sign else micros


def _rounded_moments(micros: Micros, digits: int, pair: Pair) -> Micros:
    """Rounds up or cuts towards the past, also before 1970."""
    unit = 10 ** (6 - digits)
    rest = micros % unit
    result: Micros = micros - rest + (0 if pair.truncates else (rest * 2 >= unit) * unit)
    _require_within(result, _LAST_MOMENT, pair)
    return result


def _require_within(micros: Micros, most: int, pair: Pair) -> None:
    if micros.size and micros.max() > most:
        pair.refuse("values are rounded to more than it can hold")


def _require_no_zero_dates(values: pa.Array, pair: Pair) -> None:
    """Refuses NULLs that may be zero dates: a zero date is NULL in the lake, so a NULL may be either."""
    if values.null_count:
        pair.refuse("values are NULL, or zero dates")


def _micros(values: pa.Array) -> tuple[Micros, npt.NDArray[np.bool_]]:
    """Microseconds, and which of them are NULL."""
    numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers, np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def _digits(text: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(text, "[^0-9]", "").cast(pa.int64())
