"""Bytes that a whole column takes in a key, and characters it can hold.
Not here: prefixes and their limits (`keys.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.model.charsets import CHARSETS
from strata.schema.model.types import (
    AS_TEXT,
    BLOBS,
    LABELLED,
    NO_DIMENSIONS,
    SPATIAL,
    TEXT_BYTES,
    TEXTS,
    TypeKind,
    parse_column_type,
)

if TYPE_CHECKING:
    from strata.schema.model.definition import Column
    from strata.schema.model.types import ColumnType

_FIXED = {
    TypeKind.TINYINT: 1,
    TypeKind.SMALLINT: 2,
    TypeKind.MEDIUMINT: 3,
    TypeKind.INT: 4,
    TypeKind.BIGINT: 8,
    TypeKind.FLOAT: 4,
    TypeKind.DOUBLE: 8,
    TypeKind.DATE: 3,
    TypeKind.YEAR: 1,
}
_BEFORE_FRACTION = {TypeKind.TIME: 3, TypeKind.DATETIME: 5, TypeKind.TIMESTAMP: 4}
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""Bytes of the digits of a decimal that fill no group of nine."""


def characters_of(column: Column) -> int:
    """How many characters a column can hold at most (`max_display_width_in_codepoints`); bytes if it has no charset."""
    column_type = parse_column_type(column.column_type)
    kind = column_type.kind
    if kind in TEXTS or kind in BLOBS:
        return TEXT_BYTES[AS_TEXT.get(kind, kind)] // _longest_character(column)
    if kind in SPATIAL or kind is TypeKind.JSON:
        return TEXT_BYTES[TypeKind.LONGTEXT]
    if kind is TypeKind.VECTOR:
        return _vector_bytes(column_type)
    if kind in LABELLED:
        lengths = [len(label) for label in column_type.labels]
        return max(lengths) if kind is TypeKind.ENUM else sum(lengths) + len(lengths) - 1
    # Numbers and times are shorter than the shortest text but for the longest decimals: sign and point.
    return (column_type.length or 0) + (2 if kind is TypeKind.DECIMAL else 0)


def key_length(column: Column) -> int:
    """What a key on the whole column takes, in its characters: bytes but for text."""
    column_type = parse_column_type(column.column_type)
    kind = column_type.kind
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _BEFORE_FRACTION:
        return _BEFORE_FRACTION[kind] + ((column_type.length or 0) + 1) // 2
    if kind is TypeKind.DECIMAL:
        return _decimal_bytes(column_type)
    if kind is TypeKind.BIT:
        return ((column_type.length or 1) + 7) // 8
    if kind in LABELLED:
        return label_bytes(column_type) // _longest_character(column)
    return column_type.length or 0


def _longest_character(column: Column) -> int:
    return CHARSETS[column.character_set].max_bytes if column.character_set is not None else 1


def _decimal_bytes(column_type: ColumnType) -> int:
    decimals = column_type.decimals or 0
    whole = (column_type.length or 0) - decimals
    return sum(digits // 9 * 4 + _DIGIT_BYTES[digits % 9] for digits in (whole, decimals))


def _vector_bytes(column_type: ColumnType) -> int:
    return 0 if column_type.length == NO_DIMENSIONS else (column_type.length or 0) * _FIXED[TypeKind.FLOAT]


def label_bytes(column_type: ColumnType) -> int:
    """Bytes that a value of an ENUM or SET takes."""
    count = len(column_type.labels)
    if column_type.kind is TypeKind.ENUM:
        return 1 if count < 256 else 2
    return 8 if count > 32 else (count + 7) // 8
