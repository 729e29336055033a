"""The bytes of a whole column in a key, and the characters that it can hold.
Not here: prefixes and their limits (`keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.events.field_types import LOGGED_FIELDS
from strata_cdc.schema.model.charsets import CHARSETS
from strata_cdc.schema.model.types import LABELLED, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column
    from strata_cdc.schema.model.types import ColumnType


def characters_of(column: Column) -> int:
    """The maximum number of characters of a column (`max_display_width_in_codepoints`); bytes if it has no charset."""
    column_type = parse_column_type(column.column_type)
    kind = column_type.kind
    if kind.facts.capacity is not None:
        return kind.facts.capacity(column_type) // _longest_character(column)
    if kind in LABELLED:
        lengths = [len(label) for label in column_type.labels]
        return max(lengths) if kind is TypeKind.ENUM else sum(lengths) + len(lengths) - 1
    # Numbers and times are shorter than the shortest text, except for the longest decimals: sign and point.
    return (column_type.length or 0) + (2 if kind is TypeKind.DECIMAL else 0)


def key_length(column: Column) -> int:
    """The length of a key on the whole column, in the key's units: characters for text, else bytes."""
    column_type = parse_column_type(column.column_type)
    facts = column_type.kind.facts
    # Types of a fixed width use the same number of bytes in a key as in a row image.
    width = LOGGED_FIELDS[facts.code].width(facts.metadata.of(column_type, 1))
    if width is not None and width >= 0:
        return width // _longest_character(column)
    return column_type.length or 0


def _longest_character(column: Column) -> int:
    return CHARSETS[column.character_set].max_bytes if column.character_set is not None else 1


def label_bytes(column_type: ColumnType) -> int:
    """The bytes of a value of an ENUM or SET."""
    return column_type.kind.facts.metadata.of(column_type, 1)
