"""The kinds as which the values of a table's columns are compared.
Not here: what a condition does with them (`read.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.dialects.conditions.terms import MOST_DIGITS, ColumnTerm, Term, ValueKind
from strata_cdc.schema.model.types import Family, TypeKind, parse_column_type

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Column

_TEMPORAL: Final = {
    TypeKind.DATE: ValueKind.DATE, TypeKind.DATETIME: ValueKind.DATETIME, TypeKind.TIMESTAMP: ValueKind.TIMESTAMP,
    TypeKind.TIME: ValueKind.TIME,
}  # fmt: skip
_DIGITS_OF_YEAR: Final = (4, 0)


def column_term(column: Column) -> ColumnTerm | None:
    """Returns how values of the column are compared; None for types that are not compared."""
    kind = parse_column_type(column.column_type)
    family = kind.kind.facts.family
    if family in {Family.INTEGER, Family.YEAR}:
        return ColumnTerm(column.name, ValueKind.INTEGER, digits=_DIGITS_OF_YEAR if family is Family.YEAR else (20, 0))
    if family is Family.DECIMAL and (kind.length or 10) <= MOST_DIGITS:
        scale = kind.decimals or 0
        return ColumnTerm(column.name, ValueKind.DECIMAL, digits=((kind.length or 10) - scale, scale))
    if family is Family.FLOATING:
        return ColumnTerm(column.name, ValueKind.DOUBLE)
    if family in {Family.CHARACTERS, Family.TEXT} or (kind.kind is TypeKind.ENUM and column.collation is not None):
        is_plain = kind.kind is TypeKind.ENUM and all(map(is_plain_text, kind.labels))
        return ColumnTerm(column.name, ValueKind.TEXT, column.collation, is_plain=is_plain)
    if family is Family.TEMPORAL:
        return ColumnTerm(column.name, _TEMPORAL[kind.kind])
    return None


def is_year(term: Term) -> bool:
    """Whether a term is a YEAR: MySQL reads numbers differently if they are compared with a YEAR."""
    return isinstance(term, ColumnTerm) and term.kind is ValueKind.INTEGER and term.digits == _DIGITS_OF_YEAR


def is_plain_text(text: str) -> bool:
    """Whether a text is plain ASCII: U+0020 to U+007E."""
    return all(" " <= ch <= "~" for ch in text)
