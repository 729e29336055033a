"""Statements of random lives: a server accepts some of them, and refuses the rest.
Not here: which statements (the lives)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

if TYPE_CHECKING:
    from pymysql.connections import Connection


def is_accepted(connection: Connection, statement: str) -> bool:
    """Executes a statement; whether the server accepted it."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(statement)
        except pymysql.err.MySQLError:
            return False
    return True
