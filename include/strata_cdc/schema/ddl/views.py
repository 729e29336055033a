"""CREATE VIEW and ALTER VIEW: the name, and the text of the query, which nothing reads here.
Not here: what the query means (`dialects/queries/`), DROP VIEW and RENAME (`statements.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import CreateView, Existing
from strata_cdc.schema.ddl.ill_formed import has_kept_bytes
from strata_cdc.schema.ddl.lexer import END
from strata_cdc.schema.model.view import ViewDefinition

if TYPE_CHECKING:
    from strata_cdc.schema.ddl.cursor import TokenCursor

_NO_VIEW: Final = frozenset(
    {"TRIGGER", "PROCEDURE", "FUNCTION", "LIBRARY", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE", "AS",
     "PACKAGE"}
)  # fmt: skip
_NO_CHARACTER: Final = "\ufffd"


def read_create_view(cursor: TokenCursor) -> tuple[CreateView, ...]:
    """[ALGORITHM = x] [DEFINER = user] [SQL SECURITY x] VIEW name [(names)] AS query; no change for triggers, routines
    and others."""
    while not cursor.at_end() and cursor.word not in {"VIEW", *_NO_VIEW}:
        if cursor.word == "(":
            cursor.skip_parentheses()
        else:
            cursor.at += 1
    if not cursor.accept("VIEW"):
        return ()
    existing = Existing.KEEP if cursor.take_all("IF", "NOT", "EXISTS") else Existing.REPLACE
    name = cursor.table_name()
    try:
        definition = _definition(cursor)
    except DdlError:
        # A query about it is refused; no table depends on it.
        definition = None
    return (CreateView(cursor.context, name, definition, existing),)


def _definition(cursor: TokenCursor) -> ViewDefinition | None:
    columns = []
    if cursor.accept("("):
        columns.append(cursor.name())
        while cursor.accept(","):
            columns.append(cursor.name())
        cursor.expect(")")
    cursor.expect("AS")
    begin = cursor.offset
    end = cursor.tokens.spans[_last_token(cursor)][1]
    query = cursor.tokens.opened(begin, end)
    if has_kept_bytes(query) or _NO_CHARACTER in query:
        return None
    context = cursor.context
    return ViewDefinition(
        query, tuple(columns), context.default_database, context.sql_mode, context.connection_collation
    )


def _last_token(cursor: TokenCursor) -> int:
    """The number of the last token of the query: `WITH [CASCADED | LOCAL] CHECK OPTION` is none of it."""
    end = len(cursor.words)
    while cursor.words[end - 1] in {END, ";"}:
        end -= 1
    if cursor.words[end - 2 : end] == ["CHECK", "OPTION"]:
        end -= 2
        end -= cursor.words[end - 1] in {"CASCADED", "LOCAL"}
        end -= cursor.words[end - 1] == "WITH"
    return end - 1
