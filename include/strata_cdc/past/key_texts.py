"""Values of keys as texts, as people write them and see them, and back.
Not here: other values (`changes/jsonl.py`), which columns are a key (`mirrors/layout.py`)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.changes.arrow import arrow_type, is_calendar
from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.dialects.conditions.terms import RULES, TextRule
from strata_cdc.schema.apply.defaults import shown_address
from strata_cdc.schema.model.types import LABELLED, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType

_TIME: Final = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)", re.ASCII)
_DAY: Final = re.compile(r"\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])", re.ASCII)
_TIME_OF_DAY: Final = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?", re.ASCII)
_PLAIN: Final = "^[ -~]*$"
_WITH_ZEROS: Final = frozenset({TypeKind.TIME, TypeKind.DECIMAL})
_MOST_DIGITS: Final = 65
"""Of DECIMAL, the widest exact type to which a DOUBLE may be altered."""


class KeyImage(Struct, frozen=True):
    """The values of a column of a key in some rows."""

    values: pa.Array | pa.ChunkedArray
    verbatim: pa.Array | None = None
    """The values that the column does not hold, as the binlog has them, such as zero dates; None: there are none."""

    def chosen(self, rows_at: pa.Array) -> KeyImage:
        """Those of some rows, by their numbers."""
        return KeyImage(self.values.take(rows_at), None if self.verbatim is None else self.verbatim.take(rows_at))

    def differs(self, other: KeyImage) -> pa.Array:
        """Where another image of the same rows has another value."""
        differs = pc.fill_null(pc.not_equal(self.values, other.values), fill_value=False)
        if self.verbatim is None or other.verbatim is None:
            return differs
        return pc.or_(differs, pc.not_equal(pc.fill_null(self.verbatim, ""), pc.fill_null(other.verbatim, "")))


class KeyValues(Struct, frozen=True):
    """Some values of a column of a key."""

    column: Column
    held: pa.Array
    """Those that Arrow's type has, in one spelling (`as_compared`)."""
    verbatim: pa.Array
    """The others, as the binlog has them."""

    @classmethod
    def from_texts(cls, column: Column, texts: Sequence[str]) -> KeyValues:
        """The values of texts; a text that is no value of the column is skipped."""
        held = as_compared(column, values_of_texts(column, texts))
        others = [text for text in texts if not len(values_of_texts(column, [text]))]
        dates = [day for day in (_verbatim_date(column, text) for text in others) if day is not None]
        return cls(column, held, pa.array(dates, pa.string()))

    def __len__(self) -> int:
        return len(self.held) + len(self.verbatim)

    def texts(self) -> list[str]:
        """Their texts."""
        held = texts_of_values(self.column, KeyImage(self.held))
        return [text or "" for text in held] + [_without_midnight(text) for text in self.verbatim.to_pylist()]

    def among(self, image: KeyImage) -> pa.Array | pa.ChunkedArray:
        """Which rows have one of them."""
        values = as_compared(self.column, image.values)
        has = pc.is_in(values, self.held.cast(values.type))
        if image.verbatim is None or not len(self.verbatim):
            return has
        return pc.or_(has, pc.is_in(image.verbatim, self.verbatim))


def values_of_texts(column: Column, texts: Sequence[str]) -> pa.Array:
    """Values of a column, in its Arrow type; a text that is no value of the column is skipped.

    Numbers are decimal numbers, times in the form of `2026-02-01 12:00:00` (TIMESTAMP in UTC), bytes hexadecimal as
    `0x00ff` or the bytes of the text in UTF-8, members of a SET in any order.
    """
    kind = arrow_type(column)
    scalars = []
    for text in texts:
        try:
            value = _shown(column, text) if pa.types.is_string(kind) else _value(text, kind)
            scalars.append(pa.scalar(value, kind))
        except (ValueError, ArithmeticError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
    return pa.array([scalar.as_py() for scalar in scalars], kind)


def texts_of_values(column: Column, image: KeyImage) -> list[str | None]:
    """The inverse of `values_of_texts`: values that are equal in several types have one text, as 5 and 5.00."""
    texts = _texts_of_held(column, image.values)
    if image.verbatim is None or image.verbatim.null_count == len(image.verbatim):
        return texts
    verbatim = image.verbatim.to_pylist()
    return [other and _without_midnight(other) if text is None else text
            for text, other in zip(texts, verbatim, strict=True)]  # fmt: skip


def _texts_of_held(column: Column, values: pa.Array) -> list[str | None]:
    shown = parse_column_type(column.column_type)
    if pa.types.is_binary(values.type):
        return [None if value is None else f"0x{value.hex()}" for value in values.to_pylist()]
    texts = [None if value is None else str(value) for value in JSON_VALUES[shown.kind](shown)(values)]
    if shown.kind is TypeKind.DATETIME:
        return [text and _without_midnight(text) for text in texts]
    if pa.types.is_timestamp(values.type) or pa.types.is_decimal(values.type) or shown.kind in _WITH_ZEROS:
        return [text and without_zeros(text) for text in texts]
    if pa.types.is_floating(values.type):
        return [text and _exact_number(text) for text in texts]
    return texts


def has_spellings(column: Column) -> bool:
    """Whether the column's collation is known to take different texts for the same."""
    rule = RULES.get(column.collation or "", TextRule())
    return rule.folds or rule.trims


def as_compared(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values of a column, those that its collation takes for the same with one spelling: plain ASCII text in lower case
    and without blanks at its end, as `RULES` has it. Other texts and other collations stay as they are. The zero of
    floating-point numbers has no sign."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    rule = RULES.get(column.collation or "", TextRule())
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if not has_spellings(column) or not is_text:
        return values
    spelled = pc.ascii_lower(values) if rule.folds else values
    spelled = pc.ascii_rtrim(spelled, " ") if rule.trims else spelled
    return pc.if_else(pc.match_substring_regex(values, _PLAIN), spelled, values)


def without_zeros(text: str) -> str:
    """The text of a number or a time without zeros at the end of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _without_midnight(text: str) -> str:
    """The text of a DATETIME; that of a DATE, if it is the same moment."""
    return without_zeros(text).removesuffix(" 00:00:00")


def _exact_number(text: str) -> str:
    """The text of a floating-point number as exact numbers have it, unless it has more digits than they may have."""
    number = Decimal(text)
    if abs(number.adjusted()) > _MOST_DIGITS:
        return text
    return "0" if not number else without_zeros(f"{number:f}")


def _verbatim_date(column: Column, text: str) -> str | None:
    """A date that Arrow does not have (zero, impossible, of the year 0), as the binlog has it; None if it is none."""
    if not is_calendar(column):
        return None
    shown = parse_column_type(column.column_type)
    day, _, time = text.partition(" ")
    if shown.kind is TypeKind.DATE:
        return text if _DAY.fullmatch(text) else None
    if not _DAY.fullmatch(day) or not _TIME_OF_DAY.fullmatch(time or "00:00:00"):
        return None
    seconds, _, fraction = (time or "00:00:00").partition(".")
    digits = fraction.rstrip("0").ljust(shown.length or 0, "0")
    if len(digits) > (shown.length or 0):
        return None
    return f"{day} {seconds}" + (f".{digits}" if digits else "")


def _shown(column: Column, text: str) -> str:
    """A text as a SELECT shows it, if it is another one of the same value."""
    kind = parse_column_type(column.column_type)
    if kind.kind in LABELLED:
        return _as_labelled(column, kind, text)
    if kind.kind is TypeKind.DECIMAL:
        return _wide_decimal(text, kind.decimals or 0)
    if kind.kind is TypeKind.INET6 and ":" not in text:
        # MariaDB stores an IPv4 address so, since it has INET4 (10.10).
        return shown_address(f"::ffff:{text}", kind)
    return shown_address(text, kind) if kind.kind.facts.family is Family.FIXED_BYTES else text


def _wide_decimal(text: str, scale: int) -> str:
    number = Decimal(text.strip())
    whole, _, fraction = f"{number or Decimal(0):f}".partition(".")
    digits = fraction.rstrip("0").ljust(scale, "0")
    if not number.is_finite() or len(digits) > scale:
        raise ValueError(text)
    return f"{whole}.{digits}" if digits else whole


def _as_labelled(column: Column, shown: ColumnType, text: str) -> str:
    """The text of an ENUM or SET as its labels spell it, members of a SET in the order of their numbers."""
    words = [] if text == "" else text.split(",") if shown.kind is TypeKind.SET else [text]
    labels, wanted = (as_compared(column, pa.array(texts, pa.string())).to_pylist() for texts in (shown.labels, words))
    # ValueError: it is no label.
    return ",".join(shown.labels[number] for number in sorted({labels.index(word) for word in wanted}))


def _value(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_binary(kind):
        match = _HEXADECIMAL.fullmatch(text)
        return bytes.fromhex(match[1]) if match else text.encode()
    if pa.types.is_date(kind):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if kind.tz and moment.tzinfo is None else moment
    return _number(text, kind)


def _number(text: str, kind: pa.DataType) -> Any:
    match = _TIME.fullmatch(text)
    if match is not None and pa.types.is_int64(kind):
        return _micros(match)
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if pa.types.is_decimal(kind):
        return number
    if pa.types.is_floating(kind):
        return float(number)
    if number != int(number):
        raise ValueError(text)
    return bool(int(number)) if pa.types.is_boolean(kind) else int(number)


def _micros(match: re.Match[str]) -> int:
    """A TIME in microseconds."""
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    micros = seconds * 1_000_000 + int((match[5] or "").ljust(6, "0"))
    return -micros if match[1] else micros
