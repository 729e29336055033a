"""Reading MySQL's DDL: statement and context in, typed changes out. A recursive-descent reader.
Not here: what a token is (`schema/ddl/lexer.py`), what the changes make of tables (`schema/replay/catalog.py`)."""

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

# First words of statements that can change a table, or empty it; nothing else is read at all.
_DDL_STARTS = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE")
_LONGEST_START = max(map(len, _DDL_STARTS))
_BLANKS = " \t\n\r\v\f;"


def read_ddl(statement: str, context: DdlContext) -> tuple[Change, ...]:
    """What `statement` asks for; `()` where it cannot change a table's columns or keys, nor a database's charset, and
    removes no rows.

    Args:
        statement: One statement, as `context.statement_text` gives it.
        context: The session that ran it.

    Raises:
        DdlError: It may change tables, and is not understood. `tables` holds those that it names as far as can be
            told, `database` the one whose tables may all be meant where none can.
    """
    if not may_change_tables(statement):
        return ()
    try:
        return read_statement(TokenCursor(statement, context))
    except DdlError as fault:
        fault.tables, fault.database = tables_named_in(statement, context)
        fault.ddl = statement
        raise


def read_ddl_or_gap(statement: str, context: DdlContext) -> tuple[Change, ...]:
    """As `read_ddl`, with an `Unreadable` change in place of an error: to be applied like any other."""
    try:
        return read_ddl(statement, context)
    except DdlError as fault:
        return (Unreadable(fault.message, fault.tables, fault.database),)


def may_change_tables(statement: str) -> bool:
    """Whether the first word leaves it open that the statement changes or empties a table; so do comments."""
    start = statement.lstrip(_BLANKS)
    return (
        start[:_LONGEST_START].upper().startswith(_DDL_STARTS) or start[:2] in {"/*", "--"} or start[:1] in {"#", "("}
    )
