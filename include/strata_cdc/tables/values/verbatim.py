"""What an ALTER does to values that no column of the lake holds, which are stored as texts; and defaults as texts.
Not here: the text columns (`tables/verbatim.py`), values that columns hold (the other modules of this package)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from strata_cdc.changes.arrow import has_many_forms, is_calendar, is_labelled, may_be_invalid
from strata_cdc.changes.charset import characters_of_many_forms
from strata_cdc.errors import ReadAgainError
from strata_cdc.schema.model.conversions import keeps_values
from strata_cdc.schema.model.row_effects import ZeroedDate
from strata_cdc.schema.model.types import LABELLED, STRINGS, TypeKind, parse_column_type
from strata_cdc.tables.values.constants import constant
from strata_cdc.tables.values.pair import Pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import Column

_MOMENTS: Final = frozenset({TypeKind.DATETIME, TypeKind.TIMESTAMP})
_ZERO_DAY: Final = "0000-00-00"
_ZEROED: Final = {
    # Each day that some month lacks; in the year 0, which no column holds, months that have it are refused, too.
    ZeroedDate.ON_NO_CALENDAR: r"^\d{4}-(?:0[1-9]|1\d)-(?:29|3\d)",
    ZeroedDate.IN_PARTS: r"^\d{4}-(?:00-\d[1-9]|00-[1-9]0|\d[1-9]-00|10-00)|^(?:\d{0,3}[1-9]\d{0,3})-00-00",
}
NUMBER_OF_NO_LABEL: Final = "0"
"""The number of an ENUM's error value, and of a SET without members."""


def constant_text(column: Column, value: str | None, count: int) -> pa.Array:
    """The text of a value that all rows have, if its column does not hold the value; else NULL.

    Args:
        column: A column that may have such values.
        value: As MySQL prints it; None for NULL, and for the zero date of a column that is never NULL.
        count: Number of rows.
    """
    if not is_calendar(column) or (value is None and column.nullable):
        return pa.nulls(count, pa.string())
    if value is not None and constant(column, value, 1).null_count == 0:
        return pa.nulls(count, pa.string())
    return pa.repeat(pa.scalar(_zero(column) if value is None else value, pa.string()), count)


def converted_texts(
    texts: pa.ChunkedArray, values: pa.ChunkedArray, new_values: pa.ChunkedArray, before: Column, after: Column
) -> pa.ChunkedArray:
    """The texts of a column after it got its new type.

    Args:
        texts: The texts before; all NULL if the column could hold all of its values.
        values: The column's values before.
        new_values: The column's values afterwards.
        after: The column with its new type.

    Raises:
        ReadAgainError: It is not known what the server made of some of them.
    """
    if has_many_forms(before) or has_many_forms(after):
        return _forms(texts, values, new_values, Pair.from_columns(before, after))
    if texts.null_count < len(texts):
        texts = _converted(texts, Pair.from_columns(before, after))
    if not may_be_invalid(after):
        return texts
    if is_labelled(after):
        return _numbers(texts, values, before, after)
    # A NULL in a column without NULLs becomes a zero date.
    is_zero = pc.and_(new_values.is_null(), texts.is_null())
    return texts if after.nullable or not before.nullable else pc.if_else(is_zero, _zero(after), texts)


def _forms(texts: pa.ChunkedArray, values: pa.ChunkedArray, new_values: pa.ChunkedArray, pair: Pair) -> pa.ChunkedArray:
    """Bytes of texts: unchanged if the charset stays the same. If it changes and a text has several forms, the bytes
    are not known, and neither is what the server compared or read in them."""
    before, after = pair.before, pair.after
    are_texts = pair.old.kind in STRINGS and pair.new.kind in STRINGS
    if are_texts and before.character_set == after.character_set:
        if pc.any(pc.and_(texts.is_valid(), pc.not_equal(values, new_values))).as_py():
            pair.refuse("values were cut")
        return texts
    sides = ((after, new_values),) if are_texts else ((before, values), (after, new_values))
    for column, held in sides:
        if has_many_forms(column) and has_other_forms(held, column):
            pair.refuse(f"{column.character_set} has several forms of a text")
    return pa.chunked_array([pa.nulls(len(texts), pa.string())])


def refuse_zeroed(texts: pa.ChunkedArray, column: Column, dates: Iterable[ZeroedDate]) -> None:
    """Refuses texts of dates that a server may have made zero.

    Args:
        texts: The texts of a column before the statement.
        column: The column.
        dates: See `RowEffect.zeroed_dates`.

    Raises:
        ReadAgainError: There are such texts.
    """
    for date in dates if is_calendar(column) else ():
        if pc.any(pc.match_substring_regex(texts, _ZEROED[date])).as_py():
            raise ReadAgainError(
                f"{column.name} has dates {date.value}, which are 0000-00-00 now if the server has copied the table: "
                "the session of the statement had no strict sql_mode"
            )


def has_other_forms(values: pa.ChunkedArray, column: Column) -> bool:
    """Whether several byte sequences in a column's charset may have the same text as one of the values."""
    characters = characters_of_many_forms(column.character_set or "")
    escaped = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
    return bool(pc.any(pc.match_substring_regex(values, f"[{escaped}]")).as_py())


def keeps_invalid(before: Column, after: Column) -> bool:
    """Whether a date or time that is not on the calendar is still the same in its new type."""
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    is_longer = old.kind is new.kind and old.kind in _MOMENTS and (new.length or 0) >= (old.length or 0)
    return is_longer or (old.kind is TypeKind.DATE and new.kind in {TypeKind.DATE, TypeKind.DATETIME})


def _converted(texts: pa.ChunkedArray, pair: Pair) -> pa.ChunkedArray:
    before, after = pair.before, pair.after
    more = (pair.new.length or 0) - (pair.old.length or 0)
    if pair.old.kind is pair.new.kind and pair.old.kind in _MOMENTS and more >= 0:
        added = ("." if more and not pair.old.length else "") + "0" * more
        return pc.binary_join_element_wise(texts, added, "") if added else texts
    if pair.old.kind is TypeKind.DATE and pair.new.kind is TypeKind.DATETIME:
        return pc.binary_join_element_wise(texts, _zero(after).removeprefix(_ZERO_DAY), "")
    without_null = before if after.nullable else replace(before, nullable=False)
    if pair.old.kind is not pair.new.kind or not keeps_values(without_null, after):
        pair.refuse("values are on no calendar, or have labels whose text other labels have")
    return texts


def _numbers(texts: pa.ChunkedArray, values: pa.ChunkedArray, before: Column, after: Column) -> pa.ChunkedArray:
    """Texts of labels after a statement that gave some labels the text of another one."""
    pair = Pair.from_columns(before, after)
    if len(set(pair.new.labels)) < len(pair.new.labels) and before.column_type != after.column_type:
        pair.refuse("labels have the same text")
    if may_be_invalid(before) and pair.old.kind in LABELLED:
        return texts
    if "" not in pair.new.labels or pair.old.kind is TypeKind.ENUM is not pair.new.kind:
        return texts
    if not pa.types.is_string(values.type):
        return texts
    is_empty = pc.equal(values, "")
    if pair.old.kind is pair.new.kind:
        # Number 0 stays 0.
        return pc.if_else(is_empty, NUMBER_OF_NO_LABEL, texts)
    if pair.new.kind is TypeKind.SET and pc.any(is_empty).as_py():
        pair.refuse("texts are empty, and so is a label")
    return texts


def _zero(column: Column) -> str:
    kind = parse_column_type(column.column_type)
    if kind.kind is TypeKind.DATE:
        return _ZERO_DAY
    return f"{_ZERO_DAY} 00:00:00" + (f".{'0' * kind.length}" if kind.length else "")
