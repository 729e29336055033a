"""The session and the statement that request rows.
Not here: the columns' expressions (`forms.py`), conditions on keys (`keys.py`), what arrives (`rows.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strata_cdc.schema.model.create_sql import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from strata_cdc.changes.select.forms import SelectColumn
    from strata_cdc.schema.model.definition import TableName

SESSION: Final = (
    # No PAD_CHAR_TO_FULL_LENGTH, no NO_UNSIGNED_SUBTRACTION, no ANSI_QUOTES; zero dates and days that no month has are
    # allowed: a condition on a key may have one.
    "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
    # Text arrives in the bytes of its column, as in the binlog.
    "SET SESSION character_set_results = NULL",
    "SET SESSION net_write_timeout = 3600",
)
"""What a session sets in addition to `binlog/protocol/session.py`, so that values do not depend on the server's
settings."""


def prepare_session(connection: pymysql.Connection[Any]) -> None:
    """Sets the session.

    Raises:
        pymysql.err.MySQLError: The server refuses, or does not answer.
    """
    with connection.cursor() as cursor:
        for statement in SESSION:
            cursor.execute(statement)


def select_statement(name: TableName, columns: Sequence[SelectColumn], tail: str = "") -> str:
    """A SELECT of these columns; `tail` is what comes after the table's name: index hint, WHERE, ORDER BY, LIMIT."""
    listed = ", ".join(column.expression for column in columns)
    return f"SELECT {listed} FROM {quoted_table(name)} {tail}".rstrip()  # noqa: S608 - quoted names


def quoted_table(name: TableName) -> str:
    """A table's name in a statement."""
    return f"{quoted(name.database)}.{quoted(name.table)}"
