"""CREATE TABLE, in its forms.
Not here: databases, indexes and views (`statements.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.changes import (
    Change,
    CreateTable,
    CreateTableLike,
    Existing,
    WrittenColumn,
    WrittenKey,
    WrittenKeyPart,
)
from strata.schema.ddl.columns import read_column
from strata.schema.ddl.keys import KEY_STARTS, read_constraint_or_key
from strata.schema.ddl.options import read_table_options
from strata.schema.model import KeyKind, TableName

if TYPE_CHECKING:
    from strata.schema.ddl.cursor import Cursor


def read_create_table(cursor: Cursor, existing: Existing, *, temporary: bool) -> Change:
    """Reads a CREATE TABLE from behind the word TABLE on."""
    if cursor.take_all("IF", "NOT", "EXISTS"):
        existing = Existing.KEEP
    name = cursor.table_name()
    like = _read_like(cursor)
    if like is not None:
        return CreateTableLike(cursor.context, name, like, existing, temporary=temporary)
    columns: list[WrittenColumn] = []
    keys: list[WrittenKey] = []
    if cursor.word == "(" and not _is_query_ahead(cursor):
        _read_elements(cursor, columns, keys)
    options = read_table_options(cursor)
    return CreateTable(
        cursor.context,
        name,
        tuple(columns),
        tuple(keys),
        options,
        existing,
        temporary=temporary,
        from_query=not cursor.at_end(),
    )


def _read_like(cursor: Cursor) -> TableName | None:
    if cursor.take("LIKE"):
        return cursor.table_name()
    if cursor.word == "(" and cursor.ahead(1) == "LIKE":
        cursor.at += 2
        name = cursor.table_name()
        cursor.expect(")")
        return name
    return None


def _is_query_ahead(cursor: Cursor) -> bool:
    """Whether the parentheses hold a query rather than columns: `CREATE TABLE t (SELECT ...)`."""
    depth = 1
    while cursor.ahead(depth) == "(":
        depth += 1
    return cursor.ahead(depth) in {"SELECT", "WITH", "TABLE", "VALUES"}


def _read_elements(cursor: Cursor, columns: list[WrittenColumn], keys: list[WrittenKey]) -> None:
    cursor.expect("(")
    while True:
        if cursor.word in KEY_STARTS:
            key = read_constraint_or_key(cursor)
            if key is not None:
                keys.append(key)
        else:
            column = read_column(cursor)
            columns.append(column)
            keys.extend(column_keys(column))
        if not cursor.take(","):
            break
    cursor.expect(")")


def column_keys(column: WrittenColumn) -> list[WrittenKey]:
    """The keys that a column's own attributes ask for."""
    keys = []
    part = (WrittenKeyPart(column.name),)
    if column.primary:
        keys.append(WrittenKey(KeyKind.PRIMARY, part, "PRIMARY"))
    if column.unique:
        keys.append(WrittenKey(KeyKind.UNIQUE, part))
    if column.references is not None:
        keys.append(column.references)
    return keys
