"""Small transactions at a steady rate, written by procedures of the server: no client is slow. Not here: what is
measured meanwhile."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

RATE = 2000
"""Transactions a second, if the machine can."""
_WRITERS = 5
_STATEMENT_SECONDS = 0.0004


def make_writer(server: MysqlServer, statement: str) -> None:
    """A procedure of database `d` that does a statement again and again."""
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE PROCEDURE p (pause DOUBLE, until DOUBLE) BEGIN WHILE UNIX_TIMESTAMP(SYSDATE(6)) < until DO"
            f" {statement}; DO SLEEP(pause); END WHILE; END"
        )


@contextmanager
def writing(server: MysqlServer, seconds: float) -> Iterator[None]:
    """Writes while the block is done, and to the end."""
    writers = [threading.Thread(target=_write, args=(server, seconds)) for _ in range(_WRITERS)]
    for writer in writers:
        writer.start()
    yield
    for writer in writers:
        writer.join()


def _write(server: MysqlServer, seconds: float) -> None:
    with server.connect("d") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION max_execution_time = 0")
        pause = _WRITERS / RATE - _STATEMENT_SECONDS
        cursor.execute(f"CALL p({pause}, UNIX_TIMESTAMP(SYSDATE(6)) + {seconds})")
