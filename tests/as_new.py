"""A server that tests have used, made as it was when it had started: one for all files takes less than one for each.
Not here: its start (`mysql_server.py`), who gets it (`conftest.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pymysql

from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.mysql_server import MysqlServer

    Cursor = pymysql.cursors.Cursor

_OWN_DATABASES = {"information_schema", "mysql", "performance_schema", "sys"}
_HISTORY = {"gtid_executed", "gtid_purged"}
"""Variables that no SET brings back; the RESET does."""


def global_variables(server: MysqlServer) -> dict[str, str]:
    """All of them, as text."""
    with server.connect() as connection, connection.cursor() as cursor:
        return _variables(cursor)


def make_as_new(server: MysqlServer) -> None:
    """Ends sessions and prepared transactions; removes databases, accounts and binlogs; sets variables back.

    Args:
        server: One that answers, with the variables that it had at its start.

    Raises:
        pymysql.err.OperationalError: A variable cannot be set back: the file that sets it needs a server of its own.
    """
    with server.connect() as connection, connection.cursor() as cursor:
        _end_sessions(cursor)
        for xid in _prepared(cursor):
            cursor.execute(f"XA ROLLBACK {xid}")
        for name in _changed(cursor, server.variables):
            cursor.execute(f"SET GLOBAL {name} = {_literal(server.variables[name])}")
        for (name,) in _rows(cursor, "SHOW DATABASES"):
            if name not in _OWN_DATABASES:
                cursor.execute("DROP DATABASE `{}`".format(name.replace("`", "``")))
        accounts = "SELECT User, Host FROM mysql.user WHERE User <> 'root' AND User NOT LIKE 'mysql.%'"
        for account in _rows(cursor, accounts):
            cursor.execute("DROP USER %s@%s", account)
        cursor.execute("RESET BINARY LOGS AND GTIDS")


def _rows(cursor: Cursor, query: str) -> list[tuple[Any, ...]]:
    cursor.execute(query)
    return list(cursor.fetchall())


def _variables(cursor: Cursor) -> dict[str, str]:
    return {name: value for name, value in _rows(cursor, "SHOW GLOBAL VARIABLES") if name not in _HISTORY}


def _changed(cursor: Cursor, variables: Mapping[str, str]) -> list[str]:
    return [name for name, value in _variables(cursor).items() if variables[name] != value]


def _end_sessions(cursor: Cursor) -> None:
    """Those that are there; one that a thread of an earlier file opens anew may come."""
    query = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND USER <> 'event_scheduler'"
    found = _rows(cursor, query)
    for number in found:
        with suppress(pymysql.err.OperationalError):  # it has gone by itself
            cursor.execute("KILL %s", number)
    wait_until(lambda: not {*found}.intersection(_rows(cursor, query)))


def _prepared(cursor: Cursor) -> list[str]:
    """Transactions, as XA statements name them."""
    found = _rows(cursor, "XA RECOVER CONVERT XID")
    return [f"X'{data[2:][: 2 * size]}', X'{data[2:][2 * size :]}', {number}" for number, size, _, data in found]


def _literal(value: str) -> str:
    return value if value.lstrip("-").replace(".", "", 1).isdigit() else f"'{value}'"
