"""Views in FROM: the text of a view as MySQL would read it, with the names of its columns.
Not here: reading its query (`selects.py`), which text it had (`schema/history/view_history.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from strata_cdc.dialects.queries.statement_text import MomentDialect, PipesDialect, StatementText
from strata_cdc.errors import QueryError
from strata_cdc.schema.ddl.context import ORACLE, REAL_AS_FLOAT
from strata_cdc.schema.ddl.lexer import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.schema.model.view import ViewDefinition

_PIPES_AS_CONCAT: Final = 0x2
_HIGH_NOT_PRECEDENCE: Final = 0x20000000
_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|"((?:[^"]|"")*)\"""", re.DOTALL)
_UNREAD: Final = (
    (NO_BACKSLASH_ESCAPES, re.compile(r"\\"), "NO_BACKSLASH_ESCAPES"),
    (_HIGH_NOT_PRECEDENCE, re.compile(r"\bNOT\b", re.IGNORECASE), "HIGH_NOT_PRECEDENCE"),
    (REAL_AS_FLOAT, re.compile(r"\bREAL\b", re.IGNORECASE), "REAL_AS_FLOAT"),
    (MSSQL, re.compile(r"\["), "MSSQL"),
    (ORACLE, re.compile(""), "ORACLE"),
)
"""Modes under which these parts of a text mean something else than here."""
_LONGEST_NAME: Final = 64


def view_text(view: ViewDefinition) -> StatementText:
    """The query of a view.

    Raises:
        QueryError: It is not read here.
    """
    for mode, part, name in _UNREAD:
        if view.sql_mode & mode and part.search(view.query):
            raise QueryError(f"its query was written with the sql_mode {name}, and is not read here")
    query = _QUOTED.sub(_as_name, view.query) if view.sql_mode & ANSI_QUOTES else view.query
    return StatementText(query, PipesDialect if view.sql_mode & _PIPES_AS_CONCAT else MomentDialect)


def _as_name(quoted: re.Match[str]) -> str:
    """A name in double quotes as a name in backticks; other quoted texts as they are."""
    name = quoted.group(1)
    if name is None:
        return quoted.group()
    if '"' in name or "`" in name:
        raise QueryError(f"its query has a name with quotes in it, which is not read here: {name}")
    return f"`{name}`"


def tables_in(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that a query names; names of WITH may be among them if they are written with a database."""
    known = {one.alias for one in tree.find_all(exp.CTE)}
    yield from (table for table in tree.find_all(exp.Table) if table.args.get("db") or table.name not in known)


def column_names(view: ViewDefinition, shown: Sequence[str]) -> list[str]:
    """The names of a view's columns.

    Args:
        view: The view.
        shown: The names of the columns of its query.

    Raises:
        QueryError: They are not known here.
    """
    if view.columns:
        if len(view.columns) != len(shown):
            raise QueryError(f"it has {len(view.columns)} columns, and its query {len(shown)}")
        return list(view.columns)
    # The server renames what cannot be the name of a column (sql/sql_view.cc, `make_valid_column_names`).
    return [
        f"Name_exp_{number}" if len(name) > _LONGEST_NAME or name.endswith(" ") else name
        for number, name in enumerate(shown, 1)
    ]
