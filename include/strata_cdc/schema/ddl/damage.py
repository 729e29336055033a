"""The tables that a statement that is not understood may have changed.
Not here: marking it in the catalog (`catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.cursor import TokenCursor, tokens_of

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.context import DdlContext
    from strata_cdc.schema.model.definition import TableName

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
