"""Options of tables and databases, and partitioning.
Not here: the effect of a charset option on columns (`apply/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import TableOptions
from strata_cdc.schema.ddl.cursor import LITERALS, STRINGS
from strata_cdc.schema.ddl.keys import skip_engine_attribute
from strata_cdc.schema.ddl.lexer import END, NAME
from strata_cdc.schema.ddl.types import read_charset_name, read_type

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import WrittenType
    from strata_cdc.schema.ddl.cursor import TokenCursor

# Words at which the options of a CREATE TABLE end.
_STATEMENT_TAILS = frozenset({"SELECT", "WITH", "TABLE", "VALUES", "REPLACE", "IGNORE", "AS", "("})


def read_charset_option(cursor: TokenCursor) -> tuple[str | None, str | None] | None:
    """Reads `[DEFAULT] CHARACTER SET [=] x` or `[DEFAULT] COLLATE [=] x` as (charset, collation); None if neither is
    next. The charset DEFAULT is ''."""
    begin = cursor.at
    cursor.accept("DEFAULT")
    if cursor.accept("CHARSET") or cursor.take_all("CHARACTER", "SET") or cursor.take_all("CHAR", "SET"):
        cursor.accept("=")
        if cursor.accept("DEFAULT"):
            return "", None
        return read_charset_name(cursor), None
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        return None, read_charset_name(cursor)
    cursor.at = begin
    return None


def read_table_options(cursor: TokenCursor) -> TableOptions:
    """Reads the options after the columns of a CREATE TABLE, and its partitioning.

    One of them is START TRANSACTION, which the server writes instead of a query.
    """
    options = TableOptions()
    while not cursor.at_end():
        if cursor.take_all("WITH", "SYSTEM", "VERSIONING"):
            options = replace(options, versioned=True)
            continue
        if cursor.word in _STATEMENT_TAILS:
            break
        if cursor.sees("PARTITION", "BY"):
            options = replace(options, partitioning=read_partitioning(cursor))
            continue
        if cursor.take_all("START", "TRANSACTION"):
            # The server adds it for engines with atomic DDL (HTON_SUPPORTS_ATOMIC_DDL); there is only one such engine.
            options = replace(options, engine=options.engine or "InnoDB")
            continue
        options = _read_option(cursor, options)
        cursor.accept(",")
    return options


def read_alter_option(cursor: TokenCursor) -> TableOptions:
    """Reads one or more table options of an ALTER TABLE, up to the next comma or the end of the list."""
    options = TableOptions()
    while cursor.word != "," and not cursor.at_end() and cursor.word not in {"PARTITION", "REMOVE"}:
        if cursor.take_all("WITH", "SYSTEM", "VERSIONING"):
            options = replace(options, versioned=True)
        else:
            options = _read_option(cursor, options)
    return options


def read_sequence_options(cursor: TokenCursor) -> tuple[WrittenType | None, TableOptions]:
    """Reads the options of a CREATE or ALTER SEQUENCE: the type after AS, and the options of its table."""
    kind, options = None, TableOptions(sequence=True)
    while not cursor.at_end():
        if cursor.accept("AS"):
            kind = read_type(cursor).type
        elif cursor.word in _TABLE_OPTIONS_OF_SEQUENCES:
            options = _read_option(cursor, options)
            cursor.accept(",")
        else:
            # START WITH 1, INCREMENT BY -2, NO CACHE, RESTART and others: they change the row.
            cursor.skip()
    return kind, options


_TABLE_OPTIONS_OF_SEQUENCES = frozenset(
    {"ENGINE", "COMMENT", "CHARSET", "CHARACTER", "DEFAULT", "COLLATE", "ROW_FORMAT"}
)


def _read_option(cursor: TokenCursor, options: TableOptions) -> TableOptions:
    charset = read_charset_option(cursor)
    if charset is not None:
        name, collation = charset
        return replace(options, collation=collation) if name is None else replace(options, charset=name)
    if _skip_quoted_attribute(cursor):
        return options
    word = cursor.word
    if word in LITERALS or word == END or not (word[0].isalpha() or word[0] == "_"):
        cursor.fail("expected a table option")
    cursor.at += 1
    return options if _skip_option(cursor, word) else _with_option(options, word, _option_value(cursor))


def _with_option(options: TableOptions, word: str, value: str) -> TableOptions:
    if word in {"ENGINE", "TYPE"}:
        return replace(options, engine=value)
    if word == "ROW_FORMAT":
        return replace(options, row_format=value.lower())
    return replace(options, sequence=value == "1") if word == "SEQUENCE" else options


def _skip_quoted_attribute(cursor: TokenCursor) -> bool:
    """Skips `` `name`=value ``, as SHOW CREATE TABLE of MariaDB writes attributes of engines."""
    return cursor.word == NAME and skip_engine_attribute(cursor)


def _skip_option(cursor: TokenCursor, word: str) -> bool:
    """Skips an option of more than one value; none of them changes a column. False if the next option is not one of
    these."""
    if word == "UNION":
        cursor.accept("=")
        cursor.skip_parentheses()
    elif word in {"DATA", "INDEX"} and cursor.accept("DIRECTORY"):
        _option_value(cursor)
    elif word == "TABLESPACE":
        _option_value(cursor)
        if cursor.accept("STORAGE"):
            cursor.skip()
    else:
        return False
    return True


def _option_value(cursor: TokenCursor) -> str:
    cursor.accept("=")
    if cursor.word in STRINGS:
        return cursor.string()
    cursor.take_any("+", "-")
    if not cursor.sees_name() and cursor.word not in LITERALS:
        cursor.fail("expected the value of an option")
    return cursor.value()


def read_partitioning(cursor: TokenCursor) -> str:
    """Reads `PARTITION BY ...` as text, up to a query or the end; nothing in it changes a column."""
    begin = cursor.offset
    cursor.expect("PARTITION")
    cursor.expect("BY")
    while not cursor.at_end() and cursor.word not in {"SELECT", "WITH", "REPLACE", "IGNORE", "AS", "START", "TABLE"}:
        cursor.skip_part()
    return cursor.tokens.opened(begin, cursor.end)
