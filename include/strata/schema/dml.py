"""Statements that change rows: which tables they name. In a binlog of row format there are none.
Not here: DDL (`ddl/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata.errors import DdlError
from strata.schema.ddl.cursor import Cursor

if TYPE_CHECKING:
    from strata.schema.context import DdlContext
    from strata.schema.model import TableName

_STARTS: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH")
_BEFORE_A_TABLE: Final = frozenset({"INTO", "UPDATE", "FROM", "TABLE"})
_MODIFIERS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "CONCURRENT", "LOCAL")
_BLANKS: Final = " \t\n\r\v\f;("


def tables_changed_by(statement: str, context: DdlContext) -> tuple[TableName, ...] | None:
    """The first table that a row-changing statement names; `()` where none can be told, None if it is no such
    statement."""
    start = statement.lstrip(_BLANKS)
    if start[:2] in {"/*", "--"} or start[:1] == "#":
        start = _behind_comments(start)
    if not start[:7].upper().startswith(_STARTS):
        return None
    try:
        cursor = Cursor(statement, context)
        while not cursor.at_end() and cursor.word not in _STARTS:
            cursor.at += 1
        verb = cursor.word
        cursor.skip()
        if verb not in {"INSERT", "REPLACE", "UPDATE"}:
            while not cursor.at_end() and cursor.word not in _BEFORE_A_TABLE:
                cursor.at += 1
            cursor.skip()
        while cursor.take_any(*_MODIFIERS, "INTO", "TABLE"):
            pass
        return (cursor.table_name(),)
    except DdlError:
        return ()


def _behind_comments(text: str) -> str:
    while True:
        if text.startswith("/*") and not text.startswith(("/*!", "/*+")):
            text = text.partition("*/")[2]
        elif text.startswith(("--", "#")):
            text = text.partition("\n")[2]
        else:
            return text
        text = text.lstrip(_BLANKS)
