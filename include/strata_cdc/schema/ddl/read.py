"""Reading MySQL's DDL: statement and context in, typed changes out. A recursive-descent parser.
Not here: splitting into tokens (`schema/ddl/lexer.py`), the effect on tables (`schema/replay/catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import Unreadable
from strata_cdc.schema.ddl.cursor import TokenCursor
from strata_cdc.schema.ddl.damage import tables_named_in
from strata_cdc.schema.ddl.statements import read_statement

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.ddl.context import DdlContext

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
