"""A follower among transactions that are nothing to it, by lot: other tables and databases, DDL, XA, statements, empty
ones, keys that are no dates. It keeps up, with a bounded number of connections, and what is served is what SELECT says.
Not here: which values may be served meanwhile (`machine.py`)."""

from __future__ import annotations

import random
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc import tokens
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.errors import StaleCacheError
from tests.cache.scene import SHAPES, Scene, shop
from tests.seeds import seeds
from tests.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis_server import RedisServer
    from tests.streams.world import World

pytestmark = [pytest.mark.mysql, pytest.mark.redis]
ALL = Shapes.of(
    "s",
    [
        *SHAPES.shapes,
        Shape("day", {"d.days": ("day",)}),
        Shape("odd", {"d.a[b]*": ("a",)}),
        Shape("part", {"d.parts": ("a",)}),
        Shape("gone", {"g.t": ("a",)}),
    ],
)
ROUNDS = 10
DATES = ("0000-00-00", "2024-00-15", "2024-02-31", "2024-01-01", "2024-01-02")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One of its own: statements in the binlog are in the way of who reads it again."""
    with shop(tmp_path_factory.mktemp("traffic")) as made:
        yield made


@pytest.fixture
def scene(world: World, redis_server: RedisServer) -> Iterator[Scene]:
    world.server.run_sql(
        "CREATE DATABASE IF NOT EXISTS e; CREATE TABLE IF NOT EXISTS e.t (id INT PRIMARY KEY, n INT);"
        "CREATE TABLE IF NOT EXISTS d.days (day DATE PRIMARY KEY, n INT); TRUNCATE TABLE d.days;"
        "CREATE TABLE IF NOT EXISTS d.`a[b]*` (a INT PRIMARY KEY, n INT); TRUNCATE TABLE d.`a[b]*`;"
        "DROP TABLE IF EXISTS d.parts; DROP DATABASE IF EXISTS g; CREATE DATABASE g;"
        "CREATE TABLE d.parts (a INT PRIMARY KEY, n INT) PARTITION BY HASH (a) PARTITIONS 2;"
        "CREATE TABLE g.t (a INT PRIMARY KEY, n INT)"
    )
    made = Scene(world, redis_server, ALL)
    yield made
    made.close()


class Traffic:
    """What somebody does to the server, by lot."""

    def __init__(self, scene: Scene, drawn: random.Random) -> None:
        self.scene, self.drawn = scene, drawn
        self.number = 0
        scene.sql("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        scene.sql("REPLACE INTO e.t VALUES (1, 0), (2, 0)")

    def do(self) -> str:
        self.number += 1
        what = self.drawn.choice(
            ["own"] * 4 + ["own_ddl"] * 2 + ["foreign"] * 4 + ["ddl", "xa", "statement", "empty", "account", "rollback"]
        )
        getattr(self, what)()
        return what

    def key(self) -> int:
        return self.drawn.randint(1, 4)

    def own(self) -> None:
        key, number = self.key(), self.number
        statement = self.drawn.choice([
            f"REPLACE INTO orders VALUES ({key}, {self.key()}, '{number}')",
            f"DELETE FROM orders WHERE customer_id = {key}",
            f"REPLACE INTO names VALUES ('n{key}', {number})",
            f"REPLACE INTO days VALUES ('{self.drawn.choice(DATES)}', {number})",
            f"UPDATE days SET n = {number}",
            f"REPLACE INTO `a[b]*` VALUES ({key}, {number})",
            f"REPLACE INTO parts VALUES ({key}, {number})",
            f"REPLACE INTO g.t VALUES ({key}, {number})",
        ])  # fmt: skip
        self.scene.sql(statement)

    def foreign(self) -> None:
        table = self.drawn.choice(["x", "c", "e.t"])
        for _ in range(self.drawn.randint(1, 5)):
            self.scene.sql(f"REPLACE INTO {table} VALUES ({self.key()}, {self.number})")

    def ddl(self) -> None:
        statements = [
            ("ALTER TABLE e.t COMMENT 'x'",),
            ("CREATE TABLE e.u (a INT)", "DROP TABLE e.u"),
            ("TRUNCATE TABLE x",),
            ("CREATE VIEW e.v AS SELECT * FROM d.orders", "DROP VIEW e.v"),
            ("ANALYZE TABLE orders",),
            ("CREATE DATABASE f", "CREATE TABLE f.orders (id INT PRIMARY KEY)", "DROP DATABASE f"),
            ("RENAME TABLE orders TO e.orders", "DELETE FROM e.orders LIMIT 1", "RENAME TABLE e.orders TO orders"),
        ]
        self.scene.sql(*self.drawn.choice(statements))

    def own_ddl(self) -> None:
        number, key = self.number, self.key()
        filled = f"INSERT INTO e.w VALUES ({2 * key}, {number})"
        statements = [
            ("CREATE TABLE e.w (a INT PRIMARY KEY, n INT)", filled,
             "ALTER TABLE parts EXCHANGE PARTITION p0 WITH TABLE e.w", "DROP TABLE e.w"),
            ("ALTER TABLE parts TRUNCATE PARTITION p1",),
            ("TRUNCATE TABLE days",),
            ("DROP DATABASE g", "CREATE DATABASE g", "CREATE TABLE g.t (a INT PRIMARY KEY, n INT)",
             f"INSERT INTO g.t VALUES ({key}, {number})"),
            ("CREATE TABLE e.w LIKE g.t", filled, "RENAME TABLE g.t TO e.v, e.w TO g.t", "DROP TABLE e.v"),
            (f"ALTER TABLE g.t COMMENT '{number}'",),
            ("DROP TABLE g.t, `a[b]*`", "CREATE TABLE `a[b]*` (a INT PRIMARY KEY, n INT)",
             f"CREATE TABLE g.t (a INT PRIMARY KEY) SELECT {key} a, {number} n"),
        ]  # fmt: skip
        self.scene.sql(*self.drawn.choice(statements))

    def xa(self) -> None:
        with closing(self.scene.world.server.connect("d")) as connection, connection.cursor() as cursor:
            tables = ("x", "e.t", "names") if self.drawn.random() < 0.5 else ("x", "e.t")
            table = self.drawn.choice(tables)
            key = f"'n{self.key()}'" if table == "names" else self.key()
            cursor.execute("XA START 'x'")
            cursor.execute(f"REPLACE INTO {table} VALUES ({key}, {self.number})")
            cursor.execute("XA END 'x'")
            cursor.execute("XA PREPARE 'x'")
            cursor.execute(self.drawn.choice(["XA COMMIT 'x'", "XA ROLLBACK 'x'"]))

    def statement(self) -> None:
        table = self.drawn.choice(["e.t", "e.t", "x", "orders"])
        what = f"state = '{self.number}'" if table == "orders" else f"n = {self.number}"
        self.scene.sql(
            "SET SESSION binlog_format = STATEMENT", f"UPDATE {table} SET {what}", "SET SESSION binlog_format = ROW"
        )

    def empty(self) -> None:
        [[uuid]] = self.scene.sql("SELECT UUID()")
        self.scene.sql(f"SET GTID_NEXT = '{uuid}:1'", "BEGIN", "COMMIT", "SET GTID_NEXT = AUTOMATIC")

    def account(self) -> None:
        self.scene.sql("CREATE USER IF NOT EXISTS somebody", "DROP USER somebody")

    def rollback(self) -> None:
        self.scene.sql("BEGIN", "UPDATE orders SET state = 'no'", "ROLLBACK")


def served(scene: Scene) -> Iterator[tuple[Any, Any]]:
    """What is read through the cache, and what SELECT says."""
    keys = [("order", ("orders", "id"), number) for number in range(1, 5)]
    keys += [("customer", ("orders", "customer_id"), number) for number in range(1, 5)]
    keys += [("name", ("names", "name"), f"n{number}") for number in range(1, 5)]
    keys += [("odd", ("`a[b]*`", "a"), number) for number in range(1, 5)]
    keys += [
        (shape, (table, "a"), number) for shape, table in (("part", "parts"), ("gone", "g.t")) for number in range(1, 9)
    ]
    [days] = [scene.sql("SELECT day FROM days WHERE day LIKE '2024-01%'")]
    keys += [("day", ("days", "day"), day) for (day,) in days]
    for shape, (table, column), key in keys:

        def load(table: str = table, column: str = column, key: Any = key) -> bytes:
            with scene.connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table} WHERE {column} = %s ORDER BY 1", (key,))
                return repr(cursor.fetchall()).encode()

        yield scene.cache.get(shape, (key,), load, connection=scene.connection), load()


def connections(scene: Scene) -> int:
    return int(scene.sql("SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])


@pytest.mark.parametrize("seed", seeds())
def test_a_follower_keeps_up_among_foreign_traffic(scene: Scene, seed: int):
    drawn = random.Random(seed)
    traffic = Traffic(scene, drawn)
    thread = threading.Thread(target=scene.follower.run)
    thread.start()
    before, began, asked = connections(scene), time.monotonic(), 0
    try:
        for _ in range(ROUNDS):
            done = [traffic.do() for _ in range(drawn.randint(1, 8))]
            asked += done.count("xa")
            executed = tokens.include(scene.connection, source="s").positions[0].position
            wait_until(lambda executed=executed: executed <= scene.acknowledged or not thread.is_alive())
            assert executed <= scene.acknowledged, done
            for value, wanted in served(scene):
                assert value == wanted, done
        # Statements on its tables cost an epoch each, with a connection or ten.
        most = asked + 15 * (scene.follower.report.epochs + 2) + 2 * (time.monotonic() - began)
        assert connections(scene) - before < most
    finally:
        scene.follower.stop()
        thread.join(PATIENCE_SECONDS)
        with suppress(pymysql.MySQLError):
            scene.sql("XA ROLLBACK 'x'")
    assert scene.cache.counts.hits > 0
    scene.inspect()


def test_the_inspector_goes_on_behind_a_statement(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, 'new')")
    scene.step()
    scene.get("order", 1)
    scene.sql("SET SESSION binlog_format = STATEMENT", "UPDATE orders SET state = 'paid'")
    scene.sql("SET SESSION binlog_format = ROW")
    scene.step()
    assert not scene.is_hit("order", 1)
    scene.get("order", 1)
    scene.sql("UPDATE orders SET state = 'sent'")
    kept = scene.redis.dump("strata:{c}:order:[1]")
    scene.step()
    found = scene.inspect()
    assert (found.unreadable, found.epochs) == (1, 2)
    # It still sees what is wrong behind the statement.
    scene.redis.restore("strata:{c}:order:[1]", 0, kept, replace=True)
    with pytest.raises(StaleCacheError, match="is in the cache without"):
        scene.inspect()
