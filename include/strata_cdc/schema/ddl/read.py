"""Reading MySQL's DDL: statement and context in, typed changes out. A recursive-descent parser.
Not here: splitting into tokens (`schema/ddl/lexer.py`), the effect on tables (`schema/replay/catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import Unreadable
from strata_cdc.schema.ddl.cursor import TokenCursor, tokens_of
from strata_cdc.schema.ddl.statements import read_statement

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import TableName

__all__ = ["read_ddl", "read_ddl_or_gap"]

# First words of statements that can change or empty a table; no other statement is read.
_DDL_STARTS = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "SET")
_LONGEST_START = max(map(len, _DDL_STARTS))
_BLANKS = " \t\n\r\v\f;"


def read_ddl(statement: str, context: DdlContext) -> tuple[Change, ...]:
    """The changes that `statement` requests; `()` if it cannot change a table's columns or keys, nor a database's
    charset, and removes no rows, or if it takes no effect where it is in the log.

    Args:
        statement: One statement, as returned by `context.statement_text`.
        context: The session that ran it.

    Raises:
        DdlError: It may change tables, and is not understood. `tables` has the tables that it names, as far as they are
            known; if none is known, `database` is the database whose tables may all be meant.
    """
    if not context.takes_effect or not may_change_tables(statement):
        return ()
    try:
        return read_statement(TokenCursor(statement, context))
    except DdlError as fault:
        fault.tables, fault.database = tables_named_in(statement, context)
        fault.ddl = statement
        raise


def read_ddl_or_gap(statement: str, context: DdlContext) -> tuple[Change, ...]:
    """As `read_ddl`, but returns an `Unreadable` change instead of an error: it is applied like any other change."""
    try:
        return read_ddl(statement, context)
    except DdlError as fault:
        return (Unreadable(fault.message, fault.tables, fault.database),)


def may_change_tables(statement: str) -> bool:
    """Whether the statement may change or empty a table, judging by its first word; True for comments too."""
    start = statement.lstrip(_BLANKS)
    return (
        start[:_LONGEST_START].upper().startswith(_DDL_STARTS) or start[:2] in {"/*", "--"} or start[:1] in {"#", "("}
    )


_NO_TEXT = "\ufffd"
_BEFORE_A_TABLE = frozenset({"TABLE", "TABLES"})


def tables_named_in(statement: str, context: DdlContext) -> tuple[tuple[TableName, ...], str | None]:
    """The tables that an unreadable statement names as its targets; if there are none, the database that it may
    affect."""
    try:
        names = _targets(TokenCursor(_whole_part(statement, context), context))
    except DdlError:
        # There is no name, or the name is not text in the client's charset: then the server used another name, which is
        # not known.
        names = []
    if names:
        return tuple(dict.fromkeys(names)), None
    return (), context.default_database or None


def _targets(cursor: TokenCursor) -> list[TableName]:
    verb = cursor.word
    while not cursor.at_end() and cursor.word not in _BEFORE_A_TABLE and cursor.word != "ON":
        cursor.at += 1
    if cursor.at_end():
        return []
    cursor.at += 1
    cursor.take_all("IF", "NOT", "EXISTS") or cursor.take_all("IF", "EXISTS")
    names = [cursor.table_name()]
    many = verb in {"DROP", "RENAME"}
    while not cursor.at_end():
        if (many and cursor.word in {",", "TO"}) or cursor.word == "RENAME":
            _add_following_name(cursor, names)
        else:
            cursor.at += 1
    return names


def _add_following_name(cursor: TokenCursor, names: list[TableName]) -> None:
    """Another table of a list, or the new name of `RENAME [TO | AS]`."""
    renames = cursor.word == "RENAME"
    cursor.at += 1
    if renames:
        if cursor.word in {"COLUMN", "INDEX", "KEY"}:
            return
        cursor.take_any("TO", "AS", "=")
    try:
        names.append(cursor.table_name())
    except DdlError:
        if _NO_TEXT in cursor.text:
            raise
        cursor.skip()


def _whole_part(statement: str, context: DdlContext) -> str:
    """The text before a quote or a comment that has no end."""
    return statement[: tokens_of(statement, context).torn_at]
