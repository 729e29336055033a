"""Shapes on tables that no row event is of: they are refused by name, or not served, and never without a word.
Not here: rows (`test_on_server.py`)."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.cache.invalidator import Invalidator
from strata_cdc.cache.live_tables import may_cascade
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.errors import Usage
from tests.cache.scene import PlainWorld, Scene
from tests.cache.snapshots import snapshot
from tests.mariadb_server import FAMILIES, PREFIXES, start_family, start_mariadb
from tests.mysql_server import start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.redis_server import RedisServer
    from tests.streams.world import World

pytestmark = [pytest.mark.mysql, pytest.mark.redis]


def follow(world: World, redis: RedisServer, *tables: str) -> None:
    shapes = Shapes.of("s", [Shape(f"s{number}", {table: ()}) for number, table in enumerate(tables)])
    Invalidator(world, CacheServer(redis.url, "c"), shapes).run(follow=False)


@pytest.mark.parametrize(
    ("table", "outcome"),
    [
        ("d.order", "the server has no d.order, or hides it; there are: d.orders"),
        ("d.ORDERS", "the server has no d.ORDERS"),
        ("d.ord*", "the server has no d.ord*"),
        ("nowhere.orders", "there is no table in nowhere"),
        ("d.paid", "d.paid is a view, which has no rows of its own: name the tables that it is made of"),
        ("mysql.user", "mysql.user is in a database that streams leave out"),
        ("information_schema.tables", "in a database that streams leave out"),
    ],
)
def test_what_is_no_table_is_refused(world: World, redis_server: RedisServer, table: str, outcome: str):
    world.server.run_sql("CREATE OR REPLACE VIEW d.paid AS SELECT * FROM d.orders WHERE state = 'paid'")
    with redis_server.client() as client:
        client.flushall()
        with pytest.raises(Usage) as refused:
            follow(world, redis_server, "d.orders", table)
        assert outcome in str(refused.value)
        assert client.dbsize() == 0


def test_random_misspellings_are_refused(world: World, redis_server: RedisServer):
    drawn = random.Random(1)
    world.server.run_sql("CREATE TABLE IF NOT EXISTS d.`o[rd]ers` (a INT PRIMARY KEY)")
    right = {"d.orders", "d.names", "d.rates", "d.o[rd]ers"}
    for _ in range(25):
        name = drawn.choice(sorted(right))
        at = drawn.randrange(2, len(name))
        wrong = drawn.choice([name[:at] + name[at + 1 :], name[:at] + drawn.choice("x*?") + name[at:], name.upper()])
        if wrong in {*right, "d."}:
            continue
        with pytest.raises(Usage, match="the server has no"):
            follow(world, redis_server, wrong)
    follow(world, redis_server, *right)


@pytest.mark.parametrize("version", PREFIXES)
def test_tables_of_mariadb(tmp_path: Path, redis_server: RedisServer, version: str):
    """A system-versioned table has row events as any other; an ALTER SEQUENCE has none."""
    with start_mariadb(tmp_path / "server", version) as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE orders (id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING;"
            "CREATE TABLE names (a INT); CREATE TABLE rates (a INT); CREATE SEQUENCE numbers"
        )
        world = PlainWorld(server, tmp_path)
        world.land()
        world.track()
        scene = Scene(world, redis_server, Shapes.of("s", [Shape("order", {"d.orders": ("id",)})]))
        scene.sql("INSERT INTO orders VALUES (1, 1), (2, 2)")
        scene.step()
        for change, rows in [
            ("UPDATE orders SET n = 3 WHERE id = 2", b"((1, 1),)"),
            ("UPDATE orders SET n = 3", b"((1, 3),)"),
            ("DELETE HISTORY FROM orders", b"((1, 3),)"),
            ("DELETE FROM orders WHERE id = 1", b"()"),
        ]:
            scene.get("order", 1)
            assert scene.is_hit("order", 1)
            scene.sql(change)
            scene.step()
            assert scene.get("order", 1) == rows
        with pytest.raises(
            Usage, match=r"d\.numbers is a sequence, whose row ALTER SEQUENCE changes without a row event"
        ):
            follow(world, redis_server, "d.numbers")
        scene.close()


def test_a_source_of_which_nothing_has_landed(tmp_path: Path, redis_server: RedisServer):
    """It has no store, and the stream has all that its server has."""
    shapes = Shapes.of("s", [Shape("order", {"d.orders": ("id",)})])
    with redis_server.client() as client:
        client.flushall()
    with start_server(tmp_path / "server") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.orders (id INT PRIMARY KEY)")
        Invalidator(PlainWorld(server, tmp_path), CacheServer(redis_server.url, "c"), shapes).run(follow=False)
    reader = Cache(redis_server.url, "c", shapes)
    assert reader.read("order", (1,)).outcome == "miss"
    reader.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_tables_whose_rows_lie_in_others(tmp_path: Path, redis_server: RedisServer, family: str):
    """What is written to a MERGE table has row events of that table alone, and what is written to those below it, of
    these alone."""
    with start_family(tmp_path / "server", family) as server:
        table = "(id INT PRIMARY KEY, n INT) ENGINE ="
        server.run_sql(
            f"CREATE DATABASE d; USE d; CREATE TABLE orders {table} MyISAM; CREATE TABLE `o``)` {table} MyISAM;"
            f"CREATE TABLE names {table} MyISAM; CREATE TABLE rates {table} InnoDB;"
            f"CREATE DATABASE e; CREATE TABLE e.m {table} MERGE UNION = (d.names, d.`o``)`) INSERT_METHOD = LAST"
        )
        world = PlainWorld(server, tmp_path)
        world.land()
        world.track()
        with pytest.raises(Usage, match=r"e\.m is a table of the engine MERGE, whose rows are those of the tables of"):
            follow(world, redis_server, "e.m")
        for member in ("d.names", "d.o`)"):
            with pytest.raises(Usage, match=re.escape(f"{member} is in the UNION of e.m")):
                follow(world, redis_server, member)
        scene = Scene(world, redis_server, Shapes.of("s", [Shape("order", {"d.orders": ("id",)})]))
        scene.get("order", 1)
        assert scene.is_hit("order", 1)
        scene.sql("ALTER TABLE e.m UNION = (d.names, d.orders)", "ALTER TABLE orders COMMENT 'x'")
        scene.step()
        assert "shape order is not served: d.orders is in the UNION of e.m" in "".join(scene.remarks)
        scene.sql("INSERT INTO e.m VALUES (1, 1)")
        scene.step()
        assert scene.get("order", 1) == b"((1, 1),)"
        scene.close()


@pytest.fixture(params=["ON", "OFF"])
def family(request: Any, tmp_path: Path, redis_server: RedisServer) -> Iterator[tuple[str, Scene]]:
    """A server whose foreign keys are older than what was tracked."""
    options = [] if request.param == "OFF" else ["--innodb-native-foreign-keys=ON"]
    with start_server(tmp_path / "server", *options) as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE parents (id INT PRIMARY KEY, n INT);"
            "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT,"
            " FOREIGN KEY (customer_id) REFERENCES parents (id) ON DELETE SET NULL);"
            "CREATE TABLE names (name VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY, a INT);"
            "CREATE TABLE rates (a INT PRIMARY KEY, p INT);"
            "INSERT INTO parents VALUES (1, 1), (2, 2); FLUSH BINARY LOGS"
        )
        server.run_sql("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
        world = PlainWorld(server, tmp_path)
        snapshot(world)
        shapes = Shapes.of("s", [Shape("order", {"d.orders": ("id",)}), Shape("rated", {"d.rates": ("a",)})])
        made = Scene(world, redis_server, shapes)
        yield request.param, made
        made.close()


def test_tables_that_foreign_keys_change_without_row_events_are_not_served(family: tuple[str, Scene]):
    native, scene = family
    is_logged = native == "OFF"
    scene.sql("INSERT INTO orders VALUES (1, 1)", "INSERT INTO rates VALUES (1, 2)")
    scene.step()
    scene.get("order", 1)
    assert scene.is_hit("order", 1) == is_logged
    assert ("foreign keys change rows of d.orders" in "".join(scene.remarks)) != is_logged
    assert scene.cache.read("rated", (1,)).outcome == "miss"
    scene.sql("DELETE FROM parents WHERE id = 1")
    scene.step()
    assert scene.get("order", 1) == b"((1, None),)"
    # A key that comes and goes before anybody looks; what it does to rows is in no binlog.
    load = lambda: repr(scene.sql("SELECT p FROM rates")).encode()  # noqa: E731
    scene.cache.get("rated", (1,), load, connection=scene.connection)
    scene.sql(
        "ALTER TABLE rates ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES parents (id) ON DELETE /* */ CASCADE",
        "DELETE FROM parents WHERE id = 2",
        "ALTER TABLE rates DROP FOREIGN KEY k",
    )
    scene.step()
    assert scene.cache.get("rated", (1,), load, connection=scene.connection) == b"()"
    assert (scene.cache.read("rated", (1,)).outcome == "shape") != is_logged
    scene.inspect()


def test_statements_that_may_make_such_a_key():
    assert may_cascade("ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES c (d) ON UPDATE SET /* */ NULL")
    assert not may_cascade("ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES c (d) ON DELETE RESTRICT")
    assert not may_cascade("DROP TABLE a CASCADE")
