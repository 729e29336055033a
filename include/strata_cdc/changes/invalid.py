"""The text that MySQL prints for invalid dates and times, made from their parts in the log.
Not here: dates and times that Arrow can express (`binlog/kernels/temporal.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from strata_cdc.binlog.bytes.codes import FieldType

_DATE = r"\d{4}-(0\d|1[0-2])-([0-2]\d|3[01])"
_CLOCK = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
_KEPT = re.compile(rf"{_DATE}( {_CLOCK}(?:\.(?P<fraction>\d+))?)?")


def is_kept(text: str, fsp: int) -> bool:
    """Whether MySQL stores such a DATE, DATETIME or TIMESTAMP: it may be zero, have a zero month or day, or be a day
    that its month does not have (`ALLOW_INVALID_DATES`). There is no such TIME."""
    match = _KEPT.fullmatch(text)
    return match is not None and len(match["fraction"] or "") in {0, fsp}


def temporal_text(code: int, fsp: int, cell: bytes) -> str:
    """A cell of a date or time as MySQL prints it, whatever its parts are."""
    match code:
        case FieldType.DATE | FieldType.NEWDATE:
            packed = int.from_bytes(cell[:3], "little")
            return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"
        case FieldType.DATETIME:
            digits = f"{int.from_bytes(cell[:8], 'little'):014}"
            return f"{digits[:-10]}-{digits[-10:-8]}-{digits[-8:-6]} {digits[-6:-4]}:{digits[-4:-2]}:{digits[-2:]}"
        case FieldType.DATETIME2:
            packed = int.from_bytes(cell[:5], "big") - 0x80_0000_0000
            day = packed >> 17
            year, month = divmod(day >> 5, 13)
            return f"{year:04}-{month:02}-{day & 31:02} {_clock(packed & 0x1FFFF)}" + _fraction(cell[5:], fsp)
        case FieldType.TIME:
            number = int.from_bytes(cell[:3], "little", signed=True)
            digits = f"{abs(number):06}"
            return f"{'-' if number < 0 else ''}{digits[:-4]}:{digits[-4:-2]}:{digits[-2:]}"
        case FieldType.TIME2:
            bits = 8 * (len(cell) - 3)
            packed = int.from_bytes(cell, "big") - (0x800000 << bits)
            clock, fraction = divmod(abs(packed), 1 << bits)
            return ("-" if packed < 0 else "") + _clock(clock) + _fraction(fraction.to_bytes(len(cell) - 3, "big"), fsp)
        case _:
            seconds = int.from_bytes(cell[:4], "little" if code == FieldType.TIMESTAMP else "big")
            moment = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}" if seconds else "0000-00-00 00:00:00"
            return moment + _fraction(cell[4:], fsp)


def _clock(packed: int) -> str:
    return f"{packed >> 12:02}:{packed >> 6 & 63:02}:{packed & 63:02}"


def _fraction(packed: bytes, fsp: int) -> str:
    """A fraction with the `fsp` digits that MySQL prints; all digits, if they are not a valid fraction."""
    if fsp == 0:
        return ""
    digits = f"{int.from_bytes(packed, 'big'):0{len(packed) * 2}}"
    is_sound = len(digits) == len(packed) * 2 and set(digits[fsp:]) <= {"0"}
    return "." + (digits[:fsp] if is_sound else digits)
