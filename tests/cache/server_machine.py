"""The machine on a real MySQL and a real Redis: transactions, DDL and queries are the server's own, and invalidators
read its stream. Not here: the machine (`machine.py`)."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from pymysql.constants import CLIENT

from strata_cdc import tokens
from strata_cdc.cache.invalidator import Invalidator, Start
from strata_cdc.position.sets import GtidSet
from tests.cache.database import SHAPES, Key
from tests.cache.machine import OwnWrites, Strata

if TYPE_CHECKING:
    from strata_cdc.position.sets import Gtid
    from strata_cdc.position.token import Token
    from tests.cache.model import RealServer
    from tests.streams.world import World

Rows = frozenset[tuple[str, int, int, int]]
"""Table, id, customer (of table c: the id again), number of the write."""


class ServerDatabase:
    """What `Database` is, on a server: each state that a key has had is known, so that a value's age can be told."""

    primary = 0

    def __init__(self, world: World) -> None:
        self.world = world
        self.connection = world.server.connect("d", client_flag=CLIENT.SESSION_TRACK)
        self.connection.cursor().execute("DELETE FROM o")
        self.connection.cursor().execute("DELETE FROM c")
        tokens.remember(self.connection)
        self.rows: Rows = frozenset()
        self.past: list[tuple[Gtid | None, Rows]] = [(None, self.rows)]
        """The rows behind each write."""

    stream = ()

    def _do(self, statement: str, rows: set[tuple[str, int, int, int]]) -> None:
        self.connection.cursor().execute(statement)
        executed = tokens.own(self.connection).positions[0].position
        [(sid, [(number, _)])] = executed.items()
        self.rows = frozenset(rows)
        self.past.append((type(self)._gtid(sid, number), self.rows))

    @staticmethod
    def _gtid(sid: Any, number: int) -> Any:
        return GtidSet.from_spans({sid: [(number, number)]})

    def write(self, table: str, row: int, customer: int | None) -> None:
        if table == "x":
            self._do(f"REPLACE INTO x VALUES ({row}, {len(self.past)})", set(self.rows))
            return
        others = {one for one in self.rows if one[:2] != (table, row)}
        if customer is None:
            if len(others) < len(self.rows):
                self._do(f"DELETE FROM {table} WHERE id = {row}", others)
            return
        number = len(self.past)
        owner = row if table == "c" else customer
        values = f"({row}, {customer}, {number})" if table == "o" else f"({row}, {number})"
        self._do(f"REPLACE INTO {table} VALUES {values}", {*others, (table, row, owner, number)})

    def ddl(self, what: str) -> None:
        if what == "truncate":
            self._do("TRUNCATE TABLE o", {one for one in self.rows if one[0] != "o"})
        else:
            self._do(f"ALTER TABLE o COMMENT '{len(self.past)}'", set(self.rows))

    def commit(self) -> None:
        """All is."""

    replicate = fail_over = commit

    def token(self, server: int) -> Token:
        return tokens.include(self.connection, source=self.world.name)

    @staticmethod
    def of(rows: Rows, key: Key) -> list[list[Any]]:
        shape, value = key
        wanted = [one for one in rows if (one[:2] == ("o", value) if shape == "order" else one[2] == value)]
        return sorted(map(list, wanted))

    def session(self, server: int) -> Session:
        return Session(self)

    def query(self, server: int, key: Key, connection: Any = None) -> bytes | None:
        cursor = (connection or self.connection).cursor()
        condition = "id" if key[0] == "order" else "customer"
        cursor.execute(f"SELECT 'o', id, customer, n FROM o WHERE {condition} = {key[1]}")
        found = list(cursor.fetchall())
        if key[0] == "of":
            cursor.execute(f"SELECT 'c', id, id, n FROM c WHERE id = {key[1]}")
            found += cursor.fetchall()
        return json.dumps(sorted(map(list, found))).encode() if found else None

    def lacks(self, value: bytes | None, key: Key, wanted: GtidSet) -> list[str]:
        states = [self.of(rows, key) for _, rows in self.past]
        oldest = 0
        for number, (gtid, _) in enumerate(self.past):
            if gtid is not None and gtid <= wanted and states[number] != states[number - 1]:
                oldest = number
        found = json.loads(value) if value is not None else []
        return [] if found in states[oldest:] else [f"{found} is not among {states[oldest:]}"]


class Session:
    """A connection that does not commit by itself, as drivers make them."""

    catches_up = True

    def __init__(self, database: ServerDatabase) -> None:
        self._database = database
        self.connection = database.world.server.connect("d")
        self.connection.autocommit(False)

    def open_snapshot(self) -> None:
        self.query(("order", 1))

    def query(self, key: Key) -> bytes | None:
        return self._database.query(0, key, self.connection)

    def close(self) -> None:
        self.connection.close()


class OnServer(Strata):
    """Invalidators that read the server's stream, all there is in one step."""

    def __init__(self, database: ServerDatabase, server: RealServer) -> None:
        super().__init__(database, server)
        self.read_again = 0

    def follower(self, number: int) -> Any:
        found = self._followers[number]
        if found is None:
            found = Invalidator(self.database.world, self.server, SHAPES, log=1000, on_acknowledged=self._acknowledge)
            self._followers[number] = found
        return found

    def step(self, number: int) -> None:
        self.follower(number).run(follow=False)

    def replay(self, number: int, count: int) -> None:
        self.follower(number).run(follow=False, back=timedelta(milliseconds=count * 20))

    def fault(self, number: int) -> None:
        self.follower(number).run(follow=False, begin=Start.EPOCH)


class ServerMachine(OwnWrites):
    """With DDL."""

    @rule(what=st.sampled_from(["alter", "truncate"]))
    def ddl(self, what: str) -> None:
        # It would wait for who has begun to read the table.
        while self.sessions:
            self.sessions.pop().close()
        self.database.ddl(what)

    @rule()
    def invalidate_all(self) -> None:
        self.cache.step(0)
        self.check_caught_up(self.database.token(0).positions[0].position)

    def teardown(self) -> None:
        super().teardown()
        self.database.connection.close()
