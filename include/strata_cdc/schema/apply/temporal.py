"""Literal defaults of dates and times as COLUMN_DEFAULT shows them.
Not here: CURRENT_TIMESTAMP, which is kept as a function (`columns.py`)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.literals import Literal, LiteralKind
from strata_cdc.schema.model.time_zones import offset_of
from strata_cdc.schema.model.types import ColumnType, TypeKind

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext

_NO_ZERO_IN_DATE = 0x800000
_DISPLACED: Final = re.compile(r"(.*[\d.])([+-])(\d\d):(\d\d)", re.ASCII | re.DOTALL)
_DISPLACED_SINCE: Final = (8, 0, 19)
_PARTS_OF_TIME: Final = 6


def temporal_text(literal: Literal, column_type: ColumnType, context: DdlContext) -> str:
    """The value as the server prints it; the literal's own text if it is not a known form of a date or time.

    Raises:
        DdlError: It depends on the session's time zone, whose offset then is not known.
    """
    text = str(literal.number()) if literal.kind in {LiteralKind.HEX, LiteralKind.BITS} else literal.text.strip()
    kind = column_type.kind
    if literal.kind is not LiteralKind.TEXT and kind in {TypeKind.DATE, TypeKind.DATETIME, TypeKind.TIMESTAMP}:
        text = _filled(text)
    if kind is TypeKind.YEAR:
        return _year(text, is_number=literal.kind is not LiteralKind.TEXT)
    rounding = ROUND_DOWN if context.truncates_fractions else ROUND_HALF_UP
    displaced = _DISPLACED.fullmatch(text) if context.flavour.is_mysql(*_DISPLACED_SINCE) else None
    try:
        if displaced is not None:
            text = _in_session_zone(displaced, column_type, rounding, context)
        if kind is TypeKind.TIME:
            return _time(text, column_type, rounding)
        return _date_and_time(text, column_type, rounding, allows_zero=not context.sql_mode & _NO_ZERO_IN_DATE)
    except (ValueError, OverflowError):
        return literal.text


def _year(text: str, *, is_number: bool) -> str:
    if not text.isdigit():
        return text
    number = int(text)
    if len(text) >= 3 or (is_number and number == 0):
        return f"{number:04d}"
    return str(_century(number))


def _century(year: int) -> int:
    """Years of two digits: 70 to 99 are 19xx, 00 to 69 are 20xx."""
    return year + (2000 if year < 70 else 1900)


def _date_and_time(text: str, column_type: ColumnType, rounding: str, *, allows_zero: bool) -> str:
    runs, fraction = _runs(text)
    if len(runs) < 3:
        raise ValueError(text)
    year, month, day, *time = (int(run) for run in runs[:6])
    if len(runs[0]) == 2 and (year, month, day) != (0, 0, 0):
        year = _century(year)
    if not (month and day) and (column_type.kind is TypeKind.TIMESTAMP or not allows_zero):
        year = month = day = 0  # no timestamp has only a part of a date
        time, fraction = [], ""
    if column_type.kind is TypeKind.DATE:
        return f"{year:04d}-{month:02d}-{day:02d}"
    hour, minute, second = (*time, 0, 0, 0)[:3]
    carry, decimals = _rounded(fraction, column_type, rounding)
    if carry:
        later = datetime(year, month, day, hour, minute, second) + timedelta(seconds=carry)  # noqa: DTZ001 - no zone
        year, month, day, hour, minute, second = later.timetuple()[:6]
    return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{decimals}"


def _in_session_zone(match: re.Match[str], column_type: ColumnType, rounding: str, context: DdlContext) -> str:
    """A date and time that ends with its distance from UTC, as `+05:30`, in the time zone of the session, which is
    logged. With fewer parts the end is no distance (sql-common/my_time.cc, `str_to_datetime`)."""
    runs, fraction = _runs(match[1])
    if len(runs) < _PARTS_OF_TIME:
        return match[0]
    # Rounding up to a whole second loses the distance (measured with 9.7.4).
    if column_type.kind in {TypeKind.DATETIME, TypeKind.TIMESTAMP} and _rounded(fraction, column_type, rounding)[0]:
        return match[1]
    offset = offset_of(context.time_zone)
    if offset is None:
        zone = context.time_zone or "unknown"
        raise DdlError(f"what {match[0]!r} is depends on the session's time zone, whose offset is not known ({zone})")
    year, month, day, hour, minute, second = (int(run) for run in runs[:_PARTS_OF_TIME])
    year = _century(year) if len(runs[0]) == 2 else year
    local = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001 - no zone
    distance = timedelta(hours=int(match[3]), minutes=int(match[4]))
    moment = local - (distance if match[2] == "+" else -distance) + timedelta(seconds=offset)
    return f"{moment.isoformat(' ')}.{fraction or 0}"


def _runs(text: str) -> tuple[list[str], str]:
    """Year, month, day and so on as digits, and the fraction of the second."""
    whole, _, fraction = text.rpartition(".")
    is_fraction = fraction.isdigit() and (":" in whole or (whole.isdigit() and len(whole) >= 12))
    if not is_fraction:
        whole, fraction = text, ""
    runs = "".join(ch if ch.isdigit() else " " for ch in whole).split()
    return (_digits_apart(runs[0]) if len(runs) == 1 else runs), fraction


def _filled(number: str) -> str:
    """A number with its leading zeros: 70101 is 070101. A text is read from its first digit on."""
    whole, point, fraction = number.partition(".")
    if not whole.isdigit() or not whole.strip("0"):
        return number
    return whole.zfill(next((size for size in (6, 8, 12, 14) if len(whole) <= size), 14)) + point + fraction


def _digits_apart(digits: str) -> list[str]:
    """YYYYMMDDHHMMSS, YYMMDDHHMMSS, YYYYMMDD, YYMMDD; 0 is the zero date."""
    if not digits.strip("0"):
        return ["0000", "0", "0"]
    year = 4 if len(digits) in {4, 8} or len(digits) >= 14 else 2
    rest = digits[year:]
    return [digits[:year], *(rest[at : at + 2] for at in range(0, len(rest), 2))]


def _rounded(digits: str, column_type: ColumnType, rounding: str) -> tuple[int, str]:
    """The whole seconds that rounding adds, and the fraction as it is printed, with its point."""
    decimals = column_type.length or 0
    value = Decimal(f"0.{digits or '0'}").quantize(Decimal(1).scaleb(-decimals), rounding)
    carry = int(value)
    return carry, f"{value - carry:f}"[1:] if decimals else ""


def _time(text: str, column_type: ColumnType, rounding: str) -> str:
    sign = "-" if text.startswith("-") else ""
    days, _, clock = text.lstrip("-").rpartition(" ")
    if "-" in days:
        days = ""  # a date and time: the date is dropped
    whole, _, fraction = clock.partition(".")
    parts = whole.split(":")
    if len(parts) == 1:
        digits = parts[0].zfill(6)
        parts = [digits[:-4], digits[-4:-2], digits[-2:]]
    hour, minute, second = (*(int(part) for part in parts), 0)[:3]
    carry, decimals = _rounded(fraction, column_type, rounding)
    seconds = ((24 * int(days or 0) + hour) * 60 + minute) * 60 + second + carry
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{decimals}"
