"""Reads literals as the values with which MySQL compares them; forms whose meaning MySQL would guess are refused.
Not here: where a literal is in a condition (`read.py`)."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

from strata_cdc.dialects.conditions.terms import Constant, ValueKind

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d{1,6})?)?")
_TIME: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?")
_LONGEST_TIME: Final = (838 * 3600 + 59 * 60 + 59) * 1_000_000


def number(text: str) -> Constant | None:
    """Reads a number: an integer, a decimal, or a double if it has an exponent; None if it has too many digits, or
    is no DOUBLE: `1e`, `5e400`."""
    if "e" in text.lower():
        double = _double(text)
        return None if double is None else Constant(ValueKind.DOUBLE, double)
    value = Decimal(text)
    after = len(text.partition(".")[2])
    before = len(text.partition(".")[0].lstrip("0"))
    if before + after > 38:
        return None
    if "." in text:
        return Constant(ValueKind.DECIMAL, value, (before, after))
    return Constant(ValueKind.INTEGER, int(value), (before, 0))


def _double(text: str) -> float | None:
    try:
        double = float(text)
    except ValueError:
        return None
    return double if math.isfinite(double) else None


def temporal(text: str, kind: ValueKind) -> Constant | None:
    """Reads a date or time that is compared with a column of this kind; None if the text does not have the full
    form."""
    try:
        return _temporal(text, kind)
    except ValueError:
        return None


def _temporal(text: str, kind: ValueKind) -> Constant | None:
    if kind is ValueKind.DATE and _DATE.fullmatch(text):
        return Constant(kind, date.fromisoformat(text))
    if kind in {ValueKind.DATETIME, ValueKind.TIMESTAMP} and _MOMENT.fullmatch(text):
        moment = datetime.fromisoformat(text)
        return Constant(kind, moment.replace(tzinfo=UTC) if kind is ValueKind.TIMESTAMP else moment)
    if kind is ValueKind.TIME and (match := _TIME.fullmatch(text)):
        sign, hours, minutes, seconds, fraction = match.groups()
        whole = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000
        micros = whole + int((fraction or "").ljust(6, "0"))
        return Constant(kind, -micros if sign else micros) if micros <= _LONGEST_TIME else None
    return None
