"""Values of keys as texts, as people write them and see them, and back.
Not here: other values (`changes/jsonl.py`), which columns are a key (`mirrors/layout.py`)."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import arrow_type
from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.dialects.conditions.terms import RULES, TextRule
from strata_cdc.schema.model.types import TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.schema.model.definition import Column

_TIME: Final = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})*)", re.ASCII)
_PLAIN: Final = "^[ -~]*$"


def values_of_texts(column: Column, texts: Sequence[str]) -> pa.Array:
    """Values of a column, in its Arrow type; a text that is no value of the column is skipped.

    Numbers are decimal numbers, times in the form of `2026-02-01 12:00:00` (TIMESTAMP in UTC), bytes hexadecimal as
    `0x00ff` or the bytes of the text in UTF-8.
    """
    kind = arrow_type(column)
    scalars = []
    for text in texts:
        try:
            scalars.append(pa.scalar(_value(text, kind), kind))
        except (ValueError, ArithmeticError, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
    return pa.array([scalar.as_py() for scalar in scalars], kind)


def texts_of_values(column: Column, values: pa.Array) -> list[str | None]:
    """The inverse of `values_of_texts`: values that are equal in several types have one text, as 5 and 5.00."""
    shown = parse_column_type(column.column_type)
    if pa.types.is_binary(values.type):
        return [None if value is None else f"0x{value.hex()}" for value in values.to_pylist()]
    texts = [None if value is None else str(value) for value in JSON_VALUES[shown.kind](shown)(values)]
    if pa.types.is_timestamp(values.type) or pa.types.is_decimal(values.type) or shown.kind is TypeKind.TIME:
        return [text and without_zeros(text) for text in texts]
    return texts


def has_spellings(column: Column) -> bool:
    """Whether the column's collation is known to take different texts for the same."""
    rule = RULES.get(column.collation or "", TextRule())
    return rule.folds or rule.trims


def as_compared(column: Column, values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values of a column, those that its collation takes for the same with one spelling: plain ASCII text in lower case
    and without blanks at its end, as `RULES` has it. Other texts and other collations stay as they are."""
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


def _value(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return text
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
