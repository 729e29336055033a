"""What a storm does to its server: the life of its tables, and transactions that are nothing to them.
Not here: the product's steps (`source.py`), what must hold (`witnesses.py`)."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pymysql

from tests.mirrors.random_life import ODD, TABLES, RandomLife

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from tests.mysql_server import MysqlServer

KEYS = TABLES | ODD
DDL = ("CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE")
FOREIGN = (
    ("REPLACE INTO other.t VALUES (1, {n}), ({n}, 1)",),
    ("ALTER TABLE other.t COMMENT '{n}'",),
    ("CREATE TABLE other.u (a INT)", "INSERT INTO other.u VALUES ({n})", "DROP TABLE other.u"),
    ("XA START 'f'", "REPLACE INTO other.t VALUES (2, {n})", "XA END 'f'", "XA PREPARE 'f'", "XA COMMIT 'f'"),
    ("XA START 'f'", "REPLACE INTO other.t VALUES (3, {n})", "XA END 'f'", "XA PREPARE 'f'", "XA ROLLBACK 'f'"),
    ("SET binlog_format = STATEMENT", "UPDATE other.t SET n = {n}", "SET binlog_format = ROW"),
    ("SET GTID_NEXT = '{uuid}:{n}'", "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC"),
    ("CREATE USER IF NOT EXISTS somebody", "DROP USER somebody"),
    ("CREATE VIEW other.v AS SELECT * FROM shop.ints", "DROP VIEW other.v"),
    ("BEGIN", "UPDATE shop.ints SET n = {n}", "ROLLBACK"),
    ("ANALYZE TABLE shop.ints",),
)
"""Transactions of others, and those that change nothing."""
OTHER_HISTORY = "11111111-2222-3333-4444-555555555555"
"""The server whose transactions are empty here."""


class Workload:
    """Sessions of a shop, drawn from a seed, and counts of what they did."""

    def __init__(self, server: MysqlServer, random: Random, life: RandomLife | None = None) -> None:
        self._random, self.life = random, life or RandomLife(random, KEYS)
        self.rows = self.ddl = self.refused = self._number = 0
        self.connect(server)

    def connect(self, server: MysqlServer) -> None:
        """From now on the sessions are on this server."""
        self._server = server
        self.connection = server.connect("shop", init_command="SET time_zone = '+00:00'")
        self._do(["SET sql_mode = 'ALLOW_INVALID_DATES'"])

    def begin(self) -> None:
        """The tables, filled in the past: of the binlogs that tell of it, none is left."""
        self._do(["CREATE TABLE other.t (id INT PRIMARY KEY, n INT)", *self.life.begin()])
        self.steps(40)
        self._do(["FLUSH BINARY LOGS"])
        self._do([f"PURGE BINARY LOGS TO '{self._server.binlogs()[-1].name}'"])

    def steps(self, count: int) -> None:
        """So many steps of sessions, with those of others between them."""
        for _ in range(count):
            self._do(self._foreign() if self._random.random() < 0.2 else self.life.step())

    def settle(self) -> None:
        """Ends what is prepared."""

    @contextmanager
    def settled(self) -> Iterator[None]:
        """While this lasts, no transaction is prepared and waits for its end."""
        yield

    def quiet(self) -> None:
        """Nothing but new binlogs."""
        for _ in range(self._random.randint(1, 3)):
            self._do(["FLUSH BINARY LOGS"])

    def select(self, statement: str) -> tuple[Any, ...]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return tuple(cursor.fetchall())

    def tables(self) -> list[str]:
        """Those that the shop has now."""
        return [name for (name,) in self.select("SHOW TABLES")]

    def _foreign(self) -> list[str]:
        self._number += 1
        chosen = self._random.choice(FOREIGN)
        return [statement.format(n=self._number, uuid=OTHER_HISTORY) for statement in chosen]

    def _do(self, statements: list[str]) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.err.MySQLError:
                    self.refused += 1
                    with suppress(pymysql.err.MySQLError):
                        cursor.execute("XA ROLLBACK 'f'")
                else:
                    is_ddl = statement.startswith(DDL)
                    self.ddl += is_ddl
                    self.rows += 0 if is_ddl else max(cursor.rowcount, 0)
