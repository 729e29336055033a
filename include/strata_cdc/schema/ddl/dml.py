"""Statements that change rows: the tables that they name. A binlog in row format has no such statements.
Not here: DDL (`ddl/`), the tables of views (`tracker/written_views.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.cursor import TokenCursor

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import TableName

_VERB: Final = re.compile(r"\s*([A-Za-z]+)")
_STARTS: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH", "SELECT")
"""A SELECT is logged for a function that changes rows (sql/sp_head.cc, `execute_function`). It names no table."""
_MODIFIERS: Final = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "CONCURRENT", "LOCAL")
_ENDS: Final = frozenset({"SET", "WHERE", "ORDER", "LIMIT", "USING", "RETURNING"})
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_BEFORE_A_TABLE: Final = frozenset({",", "JOIN", "STRAIGHT_JOIN"})
_BLANKS: Final = " \t\n\r\v\f;("


def without_values(statement: str) -> str:
    """The kind of a statement, without anything that could be a value."""
    match = _VERB.match(statement)
    return f"{match[1].upper() if match else ''} (sensitive)".strip()


def tables_changed_by(statement: str, context: DdlContext) -> tuple[TableName, ...] | None:
    """The tables that a row-changing statement names as tables that it may change; `()` if they are not known, None if
    it is not such a statement. No text shows what triggers and functions change."""
    start = statement.lstrip(_BLANKS)
    if start[:2] in {"/*", "--"} or start[:1] == "#":
        start = _after_comments(start)
    if start[:3].upper() == "SET":
        return _with_settings(statement, context)
    if not start[:7].upper().startswith(_STARTS):
        return None
    try:
        return tuple(dict.fromkeys(_targets(TokenCursor(statement, context))))
    except DdlError:
        return ()


def tables_of_query(query: str, context: DdlContext) -> tuple[TableName, ...]:
    """The tables and views in the FROM of a view's query, those of subqueries excepted: what is written through the
    view changes one of them. `()` if they are not known."""
    cursor = TokenCursor(query, context)
    try:
        _go_to(cursor, {"FROM"})
        cursor.skip()
        return tuple(dict.fromkeys(_listed(cursor)))
    except DdlError:
        return ()


def _with_settings(statement: str, context: DdlContext) -> tuple[TableName, ...] | None:
    """As `tables_changed_by`, for a statement of MariaDB with settings before it."""
    try:
        cursor = TokenCursor(statement, context)
        if not cursor.skip_settings() or not cursor.word.startswith(_STARTS):
            return None
        return tuple(dict.fromkeys(_targets(cursor)))
    except DdlError:
        return ()


def _targets(cursor: TokenCursor) -> list[TableName]:
    _go_to(cursor, {"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})
    verb = cursor.take_any("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD")
    while cursor.take_any(*_MODIFIERS):
        pass
    match verb:
        case "UPDATE":
            return _listed(cursor)
        case "DELETE":
            # `DELETE a, b FROM ...` and `DELETE FROM a, b USING ...` may name aliases: any table of the join may be
            # meant.
            _go_to(cursor, {"FROM"})
            cursor.skip()
            names = _listed(cursor)
            return _listed(cursor) if cursor.accept("USING") else names
        case "LOAD":
            # Only after INTO, because the file's name may be before the word TABLE.
            _go_to(cursor, {"INTO"})
            cursor.skip()
        case None:
            return []
        case _:
            pass
    cursor.accept("INTO")
    cursor.accept("TABLE")
    return [cursor.table_name()]


def _go_to(cursor: TokenCursor, words: set[str]) -> None:
    """Moves to one of these words, and skips text in parentheses."""
    while not cursor.at_end() and cursor.word not in words:
        cursor.skip_part()


def _listed(cursor: TokenCursor) -> list[TableName]:
    """The tables of a list or a join, without those of subqueries."""
    names: list[TableName] = []
    expected = True
    while not cursor.at_end() and (cursor.word not in _ENDS or cursor.sees("USING", "(")):
        if cursor.word == "(" and (not expected or cursor.ahead(1) in _QUERIES):
            cursor.skip_parentheses()
            expected = False
        elif expected and cursor.word not in {"(", "LATERAL", "JSON_TABLE"}:
            names.append(cursor.table_name())
            expected = False
        else:
            expected = cursor.word in _BEFORE_A_TABLE or (expected and cursor.word != "JSON_TABLE")
            cursor.skip()
    return names


def _after_comments(text: str) -> str:
    while True:
        if text.startswith("/*") and not text.startswith(("/*!", "/*+")):
            text = text.partition("*/")[2]
        elif text.startswith(("--", "#")):
            text = text.partition("\n")[2]
        else:
            return text
        text = text.lstrip(_BLANKS)
