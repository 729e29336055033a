"""CREATE TABLE, in all its forms.
Not here: databases, indexes and views (`statements.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata_cdc.schema.ddl.changes import (
    CreateTable,
    CreateTableLike,
    Existing,
    WrittenColumn,
    WrittenKey,
    WrittenKeyPart,
)
from strata_cdc.schema.ddl.columns import read_column
from strata_cdc.schema.ddl.keys import key_is_next, read_constraint_or_key
from strata_cdc.schema.ddl.options import read_table_options
from strata_cdc.schema.model.definition import ApplicationPeriod, KeyKind, TableName

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.cursor import TokenCursor

_NAME = r"""(?:[`"](?:[^`"]|``|"")+[`"]|\w+)"""
_LOWER = "page_size|database_name|value|trx_id|lock_id|requesting_trx_id"
"""First columns of InnoDB's tables in `information_schema` that are not written in capitals (5.7 and 9.7)."""
_SERVERS_START = re.compile(
    # The database is written before the table if it is not that of the session.
    rf"""CREATE TABLE (?:IF NOT EXISTS )?(?:{_NAME}\.)?{_NAME} \(\n  [`"]?(?:[A-Z_]+|{_LOWER})[`"]? """
)
_SERVERS_LINE = re.compile(
    # Each column that may be NULL has its default, except texts and similar types.
    r"""[ ]{2} (?: [`"] .+ [`"] | \w+ ) [ ][a-z]+ (?: (?<=text|blob|json) | .*[ ] (?: NOT[ ]NULL | DEFAULT[ ] ) )""",
    re.VERBOSE,
)


def read_create_table(cursor: TokenCursor, existing: Existing, *, temporary: bool) -> CreateTable | CreateTableLike:
    """Reads a CREATE TABLE after the word TABLE."""
    if cursor.take_all("IF", "NOT", "EXISTS"):
        existing = Existing.KEEP
    name = cursor.table_name()
    like = _read_like(cursor)
    if like is not None:
        return CreateTableLike(cursor.context, name, like, existing, temporary=temporary)
    elements = _Elements()
    if cursor.word == "(" and not _is_query_ahead(cursor):
        _read_elements(cursor, elements)
    options = read_table_options(cursor)
    is_from_query = not cursor.at_end()
    has_charset = options.charset is not None or options.collation is not None
    return CreateTable(
        cursor.context,
        name,
        tuple(elements.columns),
        tuple(elements.keys),
        options,
        existing,
        temporary=temporary,
        from_query=is_from_query,
        written_by_server=not (temporary or is_from_query or has_charset) and _may_be_like(cursor),
        period=elements.period,
    )


def _may_be_like(cursor: TokenCursor) -> bool:
    """Whether a CREATE TABLE may be what the server wrote for a LIKE."""
    context = cursor.context
    return context.may_be_like or (context.flavour.is_mysql() and _may_be_like_information_schema(cursor.statement))


def _may_be_like_information_schema(statement: str) -> bool:
    """Whether a CREATE TABLE has the form that MySQL writes, without the charset, for a LIKE of a table of
    `information_schema` (sql/sql_table.cc, `mysql_create_like_table`; 9.7): an engine, no keys, a first column in
    capitals. No flag of its event says so, as none is opened. People may write this form, too, if they remove the
    charset from a SHOW CREATE TABLE."""
    if not _SERVERS_START.match(statement):
        return False
    *lines, end = statement.split("\n")[1:]
    return end.startswith(") ENGINE=") and all(map(_SERVERS_LINE.match, lines))


def _read_like(cursor: TokenCursor) -> TableName | None:
    if cursor.accept("LIKE"):
        return cursor.table_name()
    if cursor.word == "(" and cursor.ahead(1) == "LIKE":
        cursor.at += 2
        name = cursor.table_name()
        cursor.expect(")")
        return name
    return None


def _is_query_ahead(cursor: TokenCursor) -> bool:
    """Whether the parentheses contain a query instead of columns: `CREATE TABLE t (SELECT ...)`."""
    depth = 1
    while cursor.ahead(depth) == "(":
        depth += 1
    return cursor.ahead(depth) in {"SELECT", "WITH", "TABLE", "VALUES"}


class _Elements(Struct):
    """The parts between the parentheses."""

    columns: list[WrittenColumn] = field(default_factory=list)
    keys: list[WrittenKey] = field(default_factory=list)
    period: ApplicationPeriod | None = None


def _read_elements(cursor: TokenCursor, elements: _Elements) -> None:
    cursor.expect("(")
    while True:
        if key_is_next(cursor):
            key = read_constraint_or_key(cursor)
            if key is not None:
                elements.keys.append(key)
        elif cursor.sees("PERIOD", "FOR"):
            elements.period = read_period(cursor) or elements.period
        else:
            column = read_column(cursor)
            elements.columns.append(column)
            elements.keys.extend(column_keys(column))
        if not cursor.accept(","):
            break
    cursor.expect(")")


def read_period(cursor: TokenCursor) -> ApplicationPeriod | None:
    """Reads `PERIOD FOR name (start, end)` of MariaDB; None for SYSTEM_TIME, whose columns say themselves what they
    are."""
    cursor.expect("PERIOD")
    cursor.take_all("IF", "NOT", "EXISTS")  # a table has at most one
    cursor.expect("FOR")
    is_of_system = cursor.word == "SYSTEM_TIME"
    name = cursor.name()
    cursor.expect("(")
    start = cursor.name()
    cursor.expect(",")
    end = cursor.name()
    cursor.expect(")")
    return None if is_of_system else ApplicationPeriod(name, start, end)


def column_keys(column: WrittenColumn) -> list[WrittenKey]:
    """The keys that a column's own attributes make."""
    keys = []
    part = (WrittenKeyPart(column.name),)
    if column.primary:
        keys.append(WrittenKey(KeyKind.PRIMARY, part, "PRIMARY"))
    if column.unique:
        keys.append(WrittenKey(KeyKind.UNIQUE, part))
    if column.references is not None:
        keys.append(column.references)
    return keys
