"""What a statement that is not understood may have touched.
Not here: marking it in the catalog (`catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata.errors import DdlError
from strata.schema.ddl.cursor import Cursor

if TYPE_CHECKING:
    from strata.schema.context import DdlContext
    from strata.schema.model import TableName

_NO_TEXT = "\ufffd"
_BEFORE_A_TABLE = frozenset({"TABLE", "TABLES"})


def tables_named_in(statement: str, context: DdlContext) -> tuple[tuple[TableName, ...], str | None]:
    """The tables that an unreadable statement names as its targets, or else the database that it may concern."""
    try:
        cursor = Cursor(statement, replace(context))
        found = _targets(cursor)
    except DdlError:
        # A name that is not text in the client's charset: the server made another one of it, nobody knows which.
        found = [] if _NO_TEXT in statement else _targets_of_torn(statement, context)
    if found:
        return tuple(dict.fromkeys(found)), None
    return (), context.default_database or None


def _targets(cursor: Cursor) -> list[TableName]:
    verb = cursor.word
    while not cursor.at_end() and cursor.word not in _BEFORE_A_TABLE and cursor.word != "ON":
        cursor.at += 1
    if cursor.at_end():
        return []
    cursor.at += 1
    cursor.take_all("IF", "NOT", "EXISTS") or cursor.take_all("IF", "EXISTS")
    found = [cursor.table_name()]
    many = verb in {"DROP", "RENAME"}
    while not cursor.at_end():
        if (many and cursor.word in {",", "TO"}) or cursor.word == "RENAME":
            _add_following_name(cursor, found)
        else:
            cursor.at += 1
    return found


def _add_following_name(cursor: Cursor, found: list[TableName]) -> None:
    """A further table of a list, or the new name of `RENAME [TO | AS]`."""
    renames = cursor.word == "RENAME"
    cursor.at += 1
    if renames:
        if cursor.word in {"COLUMN", "INDEX", "KEY"}:
            return
        cursor.take_any("TO", "AS", "=")
    try:
        found.append(cursor.table_name())
    except DdlError:
        if _NO_TEXT in cursor.text:
            raise
        cursor.at += 1


def _targets_of_torn(statement: str, context: DdlContext) -> list[TableName]:
    """Of a statement that cannot be tokenized to its end: what its whole part names."""
    for cut in (len(statement) // 2, 200, 80):
        head = statement[:cut]
        for end in range(len(head), 0, -1):
            if head[end - 1 : end].isspace():
                try:
                    return _targets(Cursor(head[:end], context))
                except DdlError:
                    continue
    return []
