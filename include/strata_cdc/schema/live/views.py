"""The texts of a server's views, as the server prints them.
Not here: which views there are, and of which moment (`engine.py`).

MySQL and MariaDB keep a view as a text with every name in full, and print it so in `information_schema.VIEWS`; it is
empty if the user lacks SHOW VIEW. Names that CREATE VIEW gave to the columns are in the text only on MariaDB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strata_cdc.schema.model.charsets import collation_named
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.view import ViewDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Rows = Callable[[str], Sequence[tuple[Any, ...]]]

_OF_USERS: Final = "v.TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')"
_TEXTS: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION FROM information_schema.VIEWS v "  # noqa: S608 - constants only
    f"WHERE {_OF_USERS}"
)
_COLUMNS: Final = (
    "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME FROM information_schema.VIEWS v "  # noqa: S608 - constants only
    "JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA = v.TABLE_SCHEMA AND c.TABLE_NAME = v.TABLE_NAME "
    f"WHERE {_OF_USERS} ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION"
)


def read_views(rows: Rows, names: Sequence[TableName]) -> dict[TableName, ViewDefinition | None]:
    """The definitions of views.

    Args:
        rows: Runs a query.
        names: The views.

    Returns:
        For each view its definition; None if the user does not see it.
    """
    if not names:
        return {}
    columns: dict[TableName, list[str]] = {}
    for database, view, column in rows(_COLUMNS):
        columns.setdefault(TableName(database, view), []).append(column)
    texts = {
        TableName(database, view): ViewDefinition(
            text,
            tuple(columns.get(TableName(database, view), ())),
            database,
            collation=collation_named(collation),
            is_printed=True,
        )
        for database, view, text, collation in rows(_TEXTS)
        if text
    }
    return {name: texts.get(name) for name in names}
