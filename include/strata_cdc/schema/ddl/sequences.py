"""CREATE SEQUENCE and ALTER SEQUENCE of MariaDB: a sequence is a table of eight columns and one row.
Not here: DROP SEQUENCE, which is a DROP TABLE (`statements.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AlterTable,
    ChangeColumn,
    CreateTable,
    Existing,
    RemoveRows,
    WrittenColumn,
    WrittenType,
)
from strata_cdc.schema.ddl.options import read_sequence_options
from strata_cdc.schema.model.types import TypeKind

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.cursor import TokenCursor

_NUMBER: Final = WrittenType(TypeKind.BIGINT)
_TYPED: Final = {
    "next_not_cached_value": "",
    "minimum_value": "",
    "maximum_value": "",
    "start_value": "start value when sequences is created or value if RESTART is used",
}
"""The columns that have the type of the sequence, with their comments (sql/sql_sequence.cc, `sequence_structure`)."""
_OTHERS: Final = (
    WrittenColumn("increment", WrittenType(TypeKind.BIGINT, 21), nullable=False, comment="increment value"),
    WrittenColumn("cache_size", WrittenType(TypeKind.BIGINT, 21, unsigned=True), nullable=False),
    WrittenColumn(
        "cycle_option",
        WrittenType(TypeKind.TINYINT, 1, unsigned=True),
        nullable=False,
        comment="0 if no cycles are allowed, 1 if the sequence should begin a new cycle when maximum_value is passed",
    ),
    WrittenColumn(
        "cycle_count",
        WrittenType(TypeKind.BIGINT, 21),
        nullable=False,
        comment="How many cycles have been done",
    ),
)


def read_create_sequence(cursor: TokenCursor, existing: Existing, *, temporary: bool) -> CreateTable:
    """Reads a CREATE SEQUENCE after the word SEQUENCE."""
    if cursor.take_all("IF", "NOT", "EXISTS"):
        existing = Existing.KEEP
    name = cursor.table_name()
    kind, options = read_sequence_options(cursor)
    columns = (*_typed(kind or _NUMBER), *_OTHERS)
    return CreateTable(cursor.context, name, columns, (), options, existing, temporary=temporary)


def read_alter_sequence(cursor: TokenCursor) -> tuple[Change, ...]:
    """Reads an ALTER SEQUENCE after the word SEQUENCE; only AS changes the table. The row is another one afterwards, of
    which there is no row event."""
    if_exists = cursor.take_all("IF", "EXISTS") or cursor.context.sql_if_exists
    name = cursor.table_name()
    kind, _ = read_sequence_options(cursor)
    gone = RemoveRows(cursor.context, (name,))
    if kind is None:
        return (gone,)
    steps = tuple(ChangeColumn(column.name, column) for column in _typed(kind))
    return (AlterTable(cursor.context, name, steps, if_exists=if_exists), gone)


def _typed(kind: WrittenType) -> tuple[WrittenColumn, ...]:
    widths = kind.kind.facts.display_widths
    # One more than the width of the signed type, whatever the sign is.
    sized = kind if widths is None else replace(kind, length=widths[0] + 1)
    return tuple(WrittenColumn(name, sized, nullable=False, comment=comment) for name, comment in _TYPED.items())
