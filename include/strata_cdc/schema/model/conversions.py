"""Which values MySQL makes of a column's values when an ALTER changes its type: what follows from the two types alone,
and what only the server knows.
Not here: the values (`tables/convert.py`, which has a function for each pair of `KNOWN`), whole statements
(`schema/history/effects.py`)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from strata_cdc.schema.model.charsets import CHARSETS, MANY_TO_ONE
from strata_cdc.schema.model.time_zones import offset_of
from strata_cdc.schema.model.types import LABELLED, ColumnType, Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import Column


class ValueClass(StrEnum):
    """Types whose values are converted in the same way."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOATING = "floating"
    BITS = "bits"
    TEXT = "text"
    BYTES = "bytes"
    ENUM = "enum"
    SET = "set"
    DATE = "date"
    DATETIME = "datetime"
    TIMESTAMP = "timestamp"
    TIME = "time"
    YEAR = "year"
    JSON = "json"
    GEOMETRY = "geometry"
    VECTOR = "vector"
    UUID = "uuid"
    INET4 = "inet4"
    INET6 = "inet6"


_OF_FAMILY: Final = {
    Family.INTEGER: ValueClass.INTEGER,
    Family.DECIMAL: ValueClass.DECIMAL,
    Family.FLOATING: ValueClass.FLOATING,
    Family.BITS: ValueClass.BITS,
    Family.CHARACTERS: ValueClass.TEXT,
    Family.TEXT: ValueClass.TEXT,
    Family.BYTES: ValueClass.BYTES,
    Family.BLOB: ValueClass.BYTES,
    Family.YEAR: ValueClass.YEAR,
    Family.DOCUMENT: ValueClass.JSON,
    Family.GEOMETRY: ValueClass.GEOMETRY,
    Family.VECTOR: ValueClass.VECTOR,
}


def value_class(kind: TypeKind) -> ValueClass:
    """How values of a type are converted."""
    return _OF_FAMILY.get(kind.facts.family) or ValueClass(kind.value)


_INTO: Final[dict[ValueClass, str]] = {
    ValueClass.INTEGER: "integer decimal floating bits text bytes enum year",
    ValueClass.DECIMAL: "integer decimal floating text bytes",
    ValueClass.FLOATING: "integer decimal floating text",
    ValueClass.BITS: "integer decimal floating bits",
    ValueClass.TEXT: "integer decimal floating text bytes enum set date datetime time year",
    ValueClass.BYTES: "text bytes",
    ValueClass.ENUM: "integer text bytes enum set",
    ValueClass.SET: "integer text bytes enum set",
    ValueClass.DATE: "integer text date datetime",
    ValueClass.DATETIME: "integer text date datetime time timestamp",
    ValueClass.TIMESTAMP: "timestamp datetime",
    ValueClass.TIME: "integer text time",
    ValueClass.YEAR: "integer decimal floating text year",
    ValueClass.JSON: "text bytes json",
    ValueClass.GEOMETRY: "geometry bytes",
    ValueClass.VECTOR: "vector",
}
KNOWN: Final = frozenset(
    (from_class, ValueClass(other)) for from_class, others in _INTO.items() for other in others.split()
)
"""Pairs whose conversion is known for each value; single values that MySQL cuts or replaces are refused."""

_OF_SESSION: Final = frozenset(
    {
        (ValueClass.DATETIME, ValueClass.TIMESTAMP),
        (ValueClass.TIMESTAMP, ValueClass.DATETIME),
        (ValueClass.DATE, ValueClass.TIMESTAMP),
        (ValueClass.TIMESTAMP, ValueClass.DATE),
        (ValueClass.TIMESTAMP, ValueClass.TIME),
        (ValueClass.TIMESTAMP, ValueClass.TEXT),
        (ValueClass.TEXT, ValueClass.TIMESTAMP),
    }
)
"""Pairs that depend on the session's `time_zone`. Those in `KNOWN` are known if the zone has only one offset."""

PAD_CHAR_TO_FULL_LENGTH: Final = 1 << 31
STRICT_MODES: Final = 0x200000 | 0x400000
"""STRICT_TRANS_TABLES and STRICT_ALL_TABLES."""
_PLAIN_COLLATION: Final = re.compile(
    r"(?:(?:ascii|latin1|utf8|utf8mb3|utf8mb4|ucs2|utf16|utf16le|utf32)_"
    r"(?:general|unicode|unicode_520|0900_a[is]|uca1400_a[is])|latin1_swedish)(?:_nopad)?_c[is]"
)
"""Collations without the rules of a language for ASCII letters."""


def keeps_values(before: Column, after: Column) -> bool:
    """Whether every value is the same afterwards, in the same type of the lake."""
    if before.nullable and not after.nullable:
        return False
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    kind = value_class(old.kind)
    if kind is not value_class(new.kind) or (after.auto_increment and not before.auto_increment):
        return False
    return _KEEPING[kind](old, new, before, after) if kind in _KEEPING else _is_same(old, new)


def looks_alike(before: Column, after: Column) -> bool:
    """Whether an expression has the same result with either column: its number of bytes, its digits, its order."""
    if (before.character_set, before.collation) != (after.character_set, after.collation):
        return False
    if before.nullable and not after.nullable:
        return False
    if before.column_type == after.column_type:
        return True
    longer = {ValueClass.TEXT, ValueClass.BYTES}
    return value_class(parse_column_type(before.column_type).kind) in longer and keeps_values(before, after)


def is_padded(before: Column, after: Column, sql_mode: int) -> bool:
    """Whether values get trailing blanks, which a CHAR otherwise does not show."""
    if not sql_mode & PAD_CHAR_TO_FULL_LENGTH:
        return False
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    return old.kind is TypeKind.CHAR is not new.kind


def other_labels(before: Column, after: Column, sql_mode: int) -> str | None:
    """Why values of an ENUM or SET may have got other labels; None if they have the same, or if there are no labels.

    The server looks a label up by the collation, and takes the first that is equal. Two labels of a type can be equal
    only if the statement that made it ran without a strict mode (sql/sql_table.cc, `check_duplicates_in_interval`); the
    statement that changes the labels checks them again.
    """
    if sql_mode & STRICT_MODES or parse_column_type(after.column_type).kind not in LABELLED:
        return None
    is_same = (before.column_type, before.collation) == (after.column_type, after.collation)
    if is_same or not _may_be_equal(parse_column_type(after.column_type).labels, after.collation):
        return None
    return f"{after.name}: labels may be equal under {after.collation}, and then rows get the first of them"


def _may_be_equal(labels: Sequence[str], collation: str | None) -> bool:
    """Whether two labels may be equal under a collation: those of plain ASCII are where only their case differs, as far
    as no language has rules of its own."""
    # Only columns that no DDL and no server has given lack a collation.
    if collation is None or collation == "binary" or collation.endswith("_bin"):
        return False
    is_plain = _PLAIN_COLLATION.fullmatch(collation) and all(
        label.isascii() and label.isprintable() for label in labels
    )
    return not is_plain or len({label.lower() for label in labels}) < len(labels)


def unknown_conversion(before: Column, after: Column, sql_mode: int = 0, time_zone: str | None = None) -> str | None:
    """Why the values of a column after the change do not follow from those before; None if they do."""
    old, new = parse_column_type(before.column_type), parse_column_type(after.column_type)
    pair = value_class(old.kind), value_class(new.kind)
    shown = f"{before.column_type} to {after.column_type}"
    if pair in _OF_SESSION and (pair not in KNOWN or offset_of(time_zone) is None):
        return f"{after.name}: what a conversion of {shown} gives depends on the session's time zone{_shown(time_zone)}"
    if pair not in KNOWN or _is_odd(old, new, pair):
        return f"{after.name}: how MySQL converts {shown} is not known here"
    if is_padded(before, after, sql_mode):
        return f"{after.name}: PAD_CHAR_TO_FULL_LENGTH is on, so that {shown} keeps blanks that no row event has"
    if before.label_bytes or after.label_bytes:
        return f"{after.name}: the labels of {shown} have bytes that are no text"
    return None


def _shown(time_zone: str | None) -> str:
    return "" if time_zone is None else f" ({time_zone})"


def _is_odd(old: ColumnType, new: ColumnType, pair: tuple[ValueClass, ValueClass]) -> bool:
    """FLOAT(7,3) rounds differently; ZEROFILL shows in texts."""
    if _is_same(old, new):
        return False
    rounds = ValueClass.FLOATING
    if (pair[1] is rounds and new.decimals is not None) or (pair[0] is rounds and old.decimals is not None):
        return True
    return old.zerofill and pair[0] is not ValueClass.INTEGER and pair[1] in {ValueClass.TEXT, ValueClass.BYTES}


# What keeps values ------------------------------------------------------------------------------


def _is_same(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    return old == new


def _same_integer(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    # The display width is not part of the value.
    return old.kind is new.kind and old.unsigned == new.unsigned


def _longer_text(old: ColumnType, new: ColumnType, before: Column, after: Column) -> bool:
    if TypeKind.CHAR is new.kind is not old.kind:
        return False
    charset = after.character_set or ""
    if charset not in {before.character_set, "utf8mb4"}:
        return False
    if charset != before.character_set and before.character_set in MANY_TO_ONE:
        # Values that were different may become equal.
        return False
    return _room(new) >= _needed(old, before.character_set or "", after_is_text=new.length is None)


def _room(kind: ColumnType) -> int:
    """The number of characters, or of bytes for a TEXT."""
    return kind.length if kind.length is not None else _capacity(kind)


def _needed(kind: ColumnType, charset: str, *, after_is_text: bool) -> int:
    wide = CHARSETS[charset].max_bytes if charset in CHARSETS else 4
    if kind.length is None:
        return _capacity(kind)
    # In another charset a character may take more bytes, at most the four of utf8mb4.
    return kind.length * max(wide, 4) if after_is_text else kind.length


def _capacity(kind: ColumnType) -> int:
    return kind.kind.facts.capacity(kind) if kind.kind.facts.capacity is not None else kind.length or 0


def _longer_bytes(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    if new.kind is TypeKind.BINARY:
        return old == new
    return _room(new) >= _room(old)


def _more_labels(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    return set(old.labels) <= set(new.labels)


def _more_members(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    """Members are shown in the order of the type."""
    return [label for label in new.labels if label in set(old.labels)] == list(old.labels)


def _more_digits(old: ColumnType, new: ColumnType, *_: Column) -> bool:
    return (new.length or 0) >= (old.length or 0)


def _any_geometry(_one: ColumnType, _other: ColumnType, *_: Column) -> bool:
    # If a value does not fit the type or the SRID, the statement fails.
    return True


_KEEPING: Final[dict[ValueClass, Callable[[ColumnType, ColumnType, Column, Column], bool]]] = {
    ValueClass.INTEGER: _same_integer,
    ValueClass.TEXT: _longer_text,
    ValueClass.BYTES: _longer_bytes,
    ValueClass.ENUM: _more_labels,
    ValueClass.SET: _more_members,
    ValueClass.DATETIME: _more_digits,
    ValueClass.TIMESTAMP: _more_digits,
    ValueClass.TIME: _more_digits,
    ValueClass.YEAR: lambda *_: True,
    ValueClass.GEOMETRY: _any_geometry,
    ValueClass.VECTOR: _more_digits,
}
