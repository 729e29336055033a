"""The text that MySQL prints for invalid dates and times, made from their parts in the log.
Not here: dates and times that Arrow can express (`binlog/kernels/temporal.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.bytes.codes import FieldType

if TYPE_CHECKING:
    from collections.abc import Callable

_DATE = r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_KEPT = re.compile(rf"{_DATE}( {_CLOCK}(?:\.(?P<fraction>\d+))?)?")


def is_kept(text: str, fsp: int) -> bool:
    """Whether MySQL stores such a DATE, DATETIME or TIMESTAMP: it may be zero, have a zero month or day, or be a day
    that its month does not have (`ALLOW_INVALID_DATES`). There is no such TIME."""
    match = _KEPT.fullmatch(text)
    return match is not None and len(match["fraction"] or "") in {0, fsp}


def temporal_text(code: int, fsp: int, cell: bytes) -> str:
    """A cell of a date or time as the server prints it, whatever its parts are."""
    if fsp and code in _HIRES:
        return _HIRES[code](cell, fsp)
    return _TEXTS[code](cell, fsp)


def _date(cell: bytes, _: int) -> str:
    packed = int.from_bytes(cell[:3], "little")
    return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"


def _old_datetime(cell: bytes, _: int) -> str:
    digits = f"{int.from_bytes(cell[:8], 'little'):014}"
    return f"{digits[:-10]}-{digits[-10:-8]}-{digits[-8:-6]} {digits[-6:-4]}:{digits[-4:-2]}:{digits[-2:]}"


def _datetime(cell: bytes, fsp: int) -> str:
    packed = int.from_bytes(cell[:5], "big") - 0x80_0000_0000
    return f"{_day(packed >> 17)} {_clock(packed & 0x1FFFF)}" + _fraction(cell[5:], fsp)


def _old_time(cell: bytes, _: int) -> str:
    number = int.from_bytes(cell[:3], "little", signed=True)
    digits = f"{abs(number):06}"
    return f"{'-' if number < 0 else ''}{digits[:-4]}:{digits[-4:-2]}:{digits[-2:]}"


def _time(cell: bytes, fsp: int) -> str:
    bits = 8 * (len(cell) - 3)
    packed = int.from_bytes(cell, "big") - (0x800000 << bits)
    clock, fraction = divmod(abs(packed), 1 << bits)
    return ("-" if packed < 0 else "") + _clock(clock) + _fraction(fraction.to_bytes(len(cell) - 3, "big"), fsp)


def _timestamp(cell: bytes, fsp: int) -> str:
    return _moment(int.from_bytes(cell[:4], "big"), is_zero=not any(cell)) + _fraction(cell[4:], fsp)


def _old_timestamp(cell: bytes, _: int) -> str:
    return _moment(int.from_bytes(cell[:4], "little"), is_zero=not any(cell))


def _hires_datetime(cell: bytes, fsp: int) -> str:
    seconds, fraction = divmod(int.from_bytes(cell, "big"), 10**fsp)
    day, clock = divmod(seconds, 86_400)
    return f"{_day(day)} {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.{fraction:0{fsp}}"


def _hires_time(cell: bytes, fsp: int) -> str:
    time = int.from_bytes(cell, "big") - 839 * 3600 * 10**fsp
    clock, fraction = divmod(abs(time), 10**fsp)
    sign = "-" if time < 0 else ""
    return f"{sign}{clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}.{fraction:0{fsp}}"


def _hires_timestamp(cell: bytes, fsp: int) -> str:
    moment = _moment(int.from_bytes(cell[:4], "big"), is_zero=not any(cell))
    return f"{moment}.{int.from_bytes(cell[4:], 'big'):0{fsp}}"


_TEXTS: Final[dict[int, Callable[[bytes, int], str]]] = {
    FieldType.DATE: _date,
    FieldType.NEWDATE: _date,
    FieldType.DATETIME: _old_datetime,
    FieldType.DATETIME2: _datetime,
    FieldType.TIME: _old_time,
    FieldType.TIME2: _time,
    FieldType.TIMESTAMP: _old_timestamp,
    FieldType.TIMESTAMP2: _timestamp,
}
_HIRES: Final[dict[int, Callable[[bytes, int], str]]] = {
    FieldType.DATETIME: _hires_datetime,
    FieldType.TIME: _hires_time,
    FieldType.TIMESTAMP: _hires_timestamp,
}
"""Of MariaDB 5.3 with fractions."""


def _day(packed: int) -> str:
    """Year, month and day from (year * 13 + month) * 32 + day."""
    year, month = divmod(packed >> 5, 13)
    return f"{year:04}-{month:02}-{packed & 31:02}"


def _moment(seconds: int, *, is_zero: bool) -> str:
    return "0000-00-00 00:00:00" if is_zero else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _clock(packed: int) -> str:
    return f"{packed >> 12:02}:{packed >> 6 & 63:02}:{packed & 63:02}"


def _fraction(packed: bytes, fsp: int) -> str:
    """A fraction with the `fsp` digits that MySQL prints; all digits, if they are not a valid fraction."""
    if fsp == 0:
        return ""
    digits = f"{int.from_bytes(packed, 'big'):0{len(packed) * 2}}"
    is_sound = len(digits) == len(packed) * 2 and set(digits[fsp:]) <= {"0"}
    return "." + (digits[:fsp] if is_sound else digits)
