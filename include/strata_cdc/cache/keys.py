"""The text of a key: the same for values that are equal in MySQL, and different for all others.
Not here: which columns may make keys (`serving.py`), whose rows touch which keys (`touched.py`)."""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

INTEGER: Final = "i"
DECIMAL: Final = "d"
TEXT: Final = "s"
BYTES: Final = "b"
DATE: Final = "D"
YEAR: Final = "y"
"""Of columns alone: readers ask for integers."""

_TYPES: Final[tuple[tuple[str, Any], ...]] = (
    (INTEGER, int),
    (DECIMAL, Decimal),
    (TEXT, str),
    (BYTES, bytes),
    (DATE, date),
)
_LONGEST: Final = 256
"""Characters; the rest is a hash."""
_MOST_DIGITS: Final = 65
_MOST_DECIMALS: Final = 30
"""Of a DECIMAL. Of a literal with more digits the server makes 65 nines (strings/decimal.cc, 9.7)."""
_SHORT_YEARS: Final = range(1970, 2070)
"""Years that two digits mean, too: `WHERE y = 24` finds 2024."""
_CENTURY: Final = 2000
"""But for this one: 0 is the year 0000."""


def kinds_of(values: Sequence[Any]) -> str:
    """The kinds of the values that a reader asks for, a letter each: i integer, d decimal, s text, b bytes, D date.

    Raises:
        Usage: A value can be no key: NULL, floats and times; text that ends with a blank, which some collations take
            for the same as without, or that no server can have; a decimal that no column can have.
    """
    return "".join(map(_kind, values))


def _kind(value: object) -> str:
    for kind, types in _TYPES:
        if isinstance(value, types) and not isinstance(value, (bool, datetime)):
            fault = _fault(value)
            if fault:
                raise Usage(f"{value!r} can be no key of a cache: {fault}", remedy="Read it from the server.")
            return kind
    raise Usage(
        f"a value of type {type(value).__name__} can be no key of a cache",
        remedy="Keys are int, Decimal, str, bytes and date, as the columns are.",
    )


def _fault(value: object) -> str:
    if isinstance(value, str):
        if value.endswith(" "):
            return "it ends with a blank"
        return (
            "it has half of a surrogate pair" if any("\ud800" <= character <= "\udfff" for character in value) else ""
        )
    if isinstance(value, Decimal):
        return _decimal_fault(value)
    return ""


def _decimal_fault(value: Decimal) -> str:
    if not value.is_finite():
        return "it is no number"
    # Before it is written out, which may take more memory than there is.
    if value and abs(value.adjusted()) > _MOST_DIGITS:
        return f"no DECIMAL has more than {_MOST_DIGITS} digits"
    whole, _, decimals = _decimal(value).lstrip("-").partition(".")
    if len(whole) + len(decimals) > _MOST_DIGITS or len(decimals) > _MOST_DECIMALS:
        return f"no DECIMAL has more than {_MOST_DIGITS} digits, {_MOST_DECIMALS} of them after the point"
    return ""


def key_text(values: Sequence[Any], kinds: str) -> str:
    """The text of the key that a reader asks for.

    Args:
        kinds: As `kinds_of` has them.
    """
    return _joined([_one(value, kind) for value, kind in zip(values, kinds, strict=True)])


def key_texts(values: Sequence[Any], kinds: str) -> Iterator[str]:
    """The texts of all keys that a row answers to.

    Args:
        values: As a stream has them, none of them None.
        kinds: Of their columns.

    Raises:
        ValueError: A value does not fit its column's type: the stream could not decode it.
    """
    return map(_joined, itertools.product(*map(_all, values, kinds)))


def _joined(plain: Sequence[str | int]) -> str:
    text = json.dumps(plain, separators=(",", ":"))
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()


def _all(value: Any, kind: str) -> tuple[str | int, ...]:
    """The texts of a value of a column."""
    if kind == YEAR:
        year = int(value)
        return (year, year % 100) if year in _SHORT_YEARS and year != _CENTURY else (year,)
    if kind == DATE and isinstance(value, str):
        # Zero dates, and days that their month lacks: no reader can ask for them.
        return (value,)
    if isinstance(value, str) is not (kind == TEXT) and not (kind == DECIMAL and isinstance(value, str)):
        raise ValueError(f"a value of kind {kind} is text, or the other way round")
    return (_one(value, kind),)


def _one(value: Any, kind: str) -> str | int:
    if kind == INTEGER:
        return int(value)
    if kind == DECIMAL:
        return _decimal(Decimal(value))
    if kind == TEXT:
        # As CHAR and PAD SPACE collations compare; readers do not ask for a text with blanks at its end.
        return str(value).rstrip(" ")
    return bytes(value).hex() if kind == BYTES else date(value.year, value.month, value.day).isoformat()


def _decimal(number: Decimal) -> str:
    """All digits, but for zeros at its ends: `normalize` would round to the 28 of Python's context."""
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
