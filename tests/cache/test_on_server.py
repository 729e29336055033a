"""Caches on a real MySQL and a real Redis: all interleavings, and one by one what tables, rows and servers do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from strata_cdc import tokens
from strata_cdc.cache.invalidator import Invalidator, Start
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.errors import CacheRefusedError, CacheUnavailableError, StaleCacheError, Usage
from tests.cache.model import RealServer
from tests.cache.scene import SHAPES, Scene, shop
from tests.cache.server_machine import OnServer, ServerDatabase, ServerMachine
from tests.cache.test_interleavings import run
from tests.mysql_server import start_server
from tests.redis_server import RedisServer, launch
from tests.streams.world import World
from tests.waiting import wait_until

pytestmark = pytest.mark.mysql


def test_nothing_stale_is_served_with_a_real_server(world: World, redis_server: RedisServer):
    run(lambda _: OnServer(ServerDatabase(world), RealServer(redis_server)), 4, Adapted, steps=25)


class Adapted(ServerMachine):
    """Its database is the cache's."""

    def __init__(self) -> None:
        super().__init__()
        self.database = self.cache.database


def test_changes_of_rows(scene: Scene):
    assert scene.get("order", 1) == b"()"
    assert scene.is_hit("order", 1)
    scene.get("customer", 7)
    scene.get("customer", 8)
    scene.sql("INSERT INTO orders VALUES (1, 7, 'new'), (2, 7, 'new')")
    scene.step()
    # What was not there is there now.
    assert not scene.is_hit("order", 1)
    assert not scene.is_hit("customer", 7)
    assert scene.is_hit("customer", 8)
    assert scene.get("order", 1) == b"((1, 7, 'new'),)"
    scene.get("order", 2)
    scene.get("customer", 7)
    scene.sql("UPDATE orders SET customer_id = 8 WHERE id = 1")
    scene.step()
    hits = [(shape, key) for shape, key in (("order", 1), ("order", 2), ("customer", 7), ("customer", 8))]
    assert [scene.is_hit(*one) for one in hits] == [False, True, False, False]
    for shape, key in hits:
        scene.get(shape, key)
        assert scene.is_hit(shape, key)
    scene.sql("DELETE FROM orders WHERE id = 1")
    scene.step()
    assert [scene.is_hit(*one) for one in hits] == [False, True, True, False]
    found = scene.inspect()
    assert (found.fills, found.transactions, found.epochs, found.held) == (9, 3, 1, 2)


def test_a_table_without_a_key_is_behind_all_objects(scene: Scene):
    scene.get("rated", 1)
    scene.sql("INSERT INTO orders VALUES (5, 5, '')")
    scene.step()
    assert scene.is_hit("rated", 1)
    scene.sql("INSERT INTO rates VALUES (1)")
    scene.step()
    assert not scene.is_hit("rated", 1)
    scene.inspect()


@pytest.mark.parametrize(
    "statement",
    ["TRUNCATE TABLE orders", "ALTER TABLE orders COMMENT 'x'", "RENAME TABLE orders TO orders2, orders2 TO orders"],
)
def test_ddl_invalidates_the_table(scene: Scene, statement: str):
    scene.sql("INSERT INTO orders VALUES (1, 7, '')")
    scene.step()
    scene.get("order", 1)
    scene.get("name", "x")
    scene.sql(statement)
    scene.step()
    assert not scene.is_hit("order", 1)
    assert scene.is_hit("name", "x")
    scene.get("order", 1)
    assert scene.is_hit("order", 1)
    scene.inspect()


def test_a_shape_is_not_served_while_its_column_makes_no_keys(scene: Scene):
    scene.get("name", "Bob")
    assert scene.is_hit("name", "Bob")
    scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci")
    scene.step()
    assert scene.cache.read("name", ("Bob",)).outcome == "shape"
    assert "names.name is varchar(40) utf8mb4_0900_ai_ci, and makes no keys" in "".join(scene.remarks)
    scene.sql("INSERT INTO names VALUES ('bob', 1)")
    assert scene.get("name", "BOB") == b"(('bob', 1),)"
    assert not scene.is_hit("name", "BOB")
    scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_bin")
    scene.step()
    scene.get("name", "bob")
    assert scene.is_hit("name", "bob")
    scene.inspect()


def test_why_a_shape_is_not_served_is_said_once(scene: Scene):
    """However many statements change its tables, until it is served again."""
    for _ in range(2):
        scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci")
        for number in range(3):
            scene.sql(f"ALTER TABLE names COMMENT '{number}'", f"ALTER TABLE orders COMMENT '{number}'")
            scene.step()
        scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_bin")
        scene.step()
    assert sum("shape name is not served" in remark for remark in scene.remarks) == 2
    scene.get("name", "bob")
    assert scene.is_hit("name", "bob")


def test_keys_are_typed_as_their_columns(scene: Scene):
    assert scene.cache.read("order", ("1",)).outcome == "shape"
    for wrong in (1.5, None, True, "a "):
        with pytest.raises(Usage):
            scene.cache.read("name" if isinstance(wrong, str) else "order", (wrong,))
    with pytest.raises(Usage, match="has 1 values"):
        scene.cache.read("order", (1, 2))


def test_images_that_lack_the_key_invalidate_the_shape(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 7, ''), (2, 8, '')")
    scene.step()
    scene.get("customer", 7)
    scene.get("order", 2)
    scene.sql("SET SESSION binlog_row_image = 'MINIMAL'", "UPDATE orders SET state = 'x' WHERE id = 1")
    scene.step()
    assert not scene.is_hit("customer", 7)
    assert scene.is_hit("order", 2)
    scene.inspect()


def test_a_transaction_with_many_keys(scene: Scene):
    scene.get("order", 5)
    rows = ", ".join(f"({number}, 1, '')" for number in range(10, 2500))
    scene.sql(f"INSERT INTO orders VALUES {rows}")
    scene.step()
    assert not scene.is_hit("order", 5)
    assert scene.follower.report.shapes >= 1
    scene.inspect()


def test_own_writes_are_read(scene: Scene):
    scene.get("order", 1)
    scene.sql("INSERT INTO orders VALUES (1, 1, 'mine')")
    mine = tokens.include(scene.connection, source="s")
    # Nobody has invalidated it yet.
    assert scene.is_hit("order", 1)
    assert not scene.cache.read("order", (1,), at_least=mine).is_hit
    assert scene.get("order", 1, at_least=mine) == b"((1, 1, 'mine'),)"
    assert scene.cache.read("order", (1,), at_least=mine).is_hit
    # It is newer than what is invalidated now, and stays.
    scene.step()
    assert scene.is_hit("order", 1)
    with pytest.raises(Usage, match="not one of GTIDs of s"):
        scene.cache.read("order", (1,), at_least=tokens.include(scene.connection, source="other"))


def test_a_late_fill_does_not_replace_a_newer_value(scene: Scene):
    scene.cache.read("order", (1,))
    early = tokens.include(scene.connection, source="s")
    scene.sql("INSERT INTO orders VALUES (1, 1, 'new')")
    scene.get("order", 1)
    scene.step()
    assert scene.is_hit("order", 1)
    assert scene.cache.fill("order", (1,), None, early) == "older"
    assert scene.get("order", 1) == b"((1, 1, 'new'),)"


def test_a_cache_that_forgets_begins_an_epoch(scene: Scene):
    scene.get("order", 1)
    scene.redis.delete("strata:{c}")
    assert scene.cache.read("order", (1,)).outcome == "cold"
    assert scene.get("order", 1) == b"()"
    scene.step()
    # The entry was there all the time, of an epoch that is no more.
    assert not scene.is_hit("order", 1)
    assert scene.follower.report.epochs == 2


def test_restart_and_replay(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, '')")
    scene.get("order", 1)
    again = scene.invalidator()
    again.run(follow=False)
    assert (again.report.epochs, again.report.transactions) == (0, 1)
    assert scene.is_hit("order", 1)
    again.run(follow=False, back=timedelta(hours=1))
    assert again.report.epochs == 0
    scene.get("order", 1)
    again.run(follow=False, begin=Start.EPOCH)
    assert not scene.is_hit("order", 1)
    scene.inspect()


def test_a_position_that_was_purged(scene: Scene):
    scene.get("order", 1)
    state = scene.redis.hget("strata:{c}", "checkpoint").decode()
    uuid = state.split(":")[0]
    # As of a cache that nobody has followed for long; the first transactions are in no file that has landed.
    other = World(scene.world.server, scene.world.folder / "purged")
    (scene.world.folder / "purged").mkdir()
    scene.sql("FLUSH BINARY LOGS", "INSERT INTO orders VALUES (3, 3, '')", "FLUSH BINARY LOGS")
    scene.world.land()
    scene.world.track()
    [[last]] = [row[:1] for row in scene.sql("SHOW BINARY LOGS")[-1:]]
    scene.sql(f"PURGE BINARY LOGS TO '{last}'")
    from tests.cache.snapshots import snapshot  # noqa: PLC0415  what only this needs

    snapshot(other)
    scene.redis.hset("strata:{c}", "checkpoint", f"{uuid}:1-2")
    scene.world, old = other, scene.world
    follower = scene.invalidator()
    follower.run(follow=False)
    scene.world = old
    assert follower.report.epochs == 1
    assert "no longer stored anywhere" in "".join(scene.remarks)
    assert not scene.is_hit("order", 1)


def test_other_sources_and_other_shapes_are_refused(scene: Scene):
    other = Shapes.of("s", [Shape("order", {"d.orders": ("id",)})])
    Invalidator(scene.world, CacheServer(scene.url, "c"), other).run(follow=False)
    assert scene.cache.read("customer", (1,)).outcome == "shape"
    with pytest.raises(Usage, match="the shapes are of x"):
        Invalidator(scene.world, CacheServer(scene.url, "c"), Shapes.of("x", other.shapes))
    scene.redis.hset("strata:{c}", "history", '["x",""]')
    with pytest.raises(CacheRefusedError, match="the cache is of"):
        scene.step()
    assert scene.cache.read("order", (1,)).outcome == "history"


def test_a_cache_of_an_older_form_begins_an_epoch(scene: Scene):
    scene.get("order", 1)
    scene.redis.hset("strata:{c}", "format", "1")
    assert scene.cache.read("order", (1,)).outcome == "format"
    scene.step()
    assert scene.follower.report.epochs == 2
    assert not scene.is_hit("order", 1)
    scene.redis.hset("strata:{c}", "format", "3")
    with pytest.raises(CacheRefusedError, match="newer version"):
        scene.step()


def test_where_the_cache_cannot_say_what_was_invalidated(scene: Scene):
    """It is asked for what is proven, or MySQL for what it has."""
    proven = Cache(scene.url, "c", SHAPES, only_proven=True)

    def get() -> bytes | None:
        return proven.get("order", (1,), lambda: b"loaded", connection=scene.connection)

    assert get() == b"loaded"
    scene.redis.hset("strata:{c}", "server", "another")
    for outcome in ("moved", "cold"):
        with pytest.raises(CacheUnavailableError, match=f"cannot say what has been invalidated: {outcome}"):
            get()
        assert scene.get("order", 1) == b"()"
        scene.redis.delete("strata:{c}")
    scene.step()
    assert get() == b"loaded"
    proven.close()


def test_the_inspector_finds_what_is_wrong(scene: Scene):
    scene.sql("INSERT INTO orders VALUES (1, 1, '')")
    scene.step()
    scene.get("order", 1)
    key = "strata:{c}:order:[1]"
    kept = scene.redis.dump(key)
    scene.sql("UPDATE orders SET state = 'x'")
    scene.step()
    scene.inspect()
    scene.redis.restore(key, 0, kept, replace=True)
    with pytest.raises(StaleCacheError, match="is in the cache without"):
        scene.inspect()


def test_a_replica_of_the_cache_that_lacks_writes_takes_over(world: World, tmp_path):
    main = launch(tmp_path / "main")
    replica = launch(tmp_path / "replica", "--replicaof", f"127.0.0.1 {main.port}")
    with replica.client() as there:
        wait_until(lambda: there.info("replication")["master_link_status"] == "up")
    scene = Scene(world, main)
    scene.sql("INSERT INTO orders VALUES (1, 1, 'old')")
    scene.step()
    scene.get("order", 1)
    scene.get("order", 2)
    with main.client() as here:
        assert here.wait(1, 60_000) == 1
    # As a primary that was demoted, until the name leads to the new one: readers query MySQL meanwhile.
    demoted = Cache(replica.url, "c", SHAPES)
    with pytest.raises(CacheUnavailableError, match=r"is a replica: .*primary"):
        demoted.read("order", (1,))
    assert demoted.get("order", (1,), lambda: b"of MySQL", connection=scene.connection) == b"of MySQL"
    demoted.close()
    # From here on the replica gets nothing more.
    with replica.client() as there:
        there.execute_command("REPLICAOF", "127.0.0.1", "1")
    scene.sql("UPDATE orders SET state = 'new' WHERE id = 1")
    scene.step()
    assert not scene.is_hit("order", 1)
    main.kill()
    with replica.client() as there:
        there.execute_command("REPLICAOF", "NO", "ONE")
        assert there.hget("strata:{c}:order:[1]", "value") == b"V((1, 1, 'old'),)"
    moved = Cache(replica.url, "c", SHAPES)
    assert moved.read("order", (1,)).outcome == "moved"
    follower = Invalidator(world, CacheServer(replica.url, "c"), SHAPES, on_remark=scene.remarks.append)
    follower.run(follow=False)
    assert follower.report.epochs == 0
    assert not moved.read("order", (1,)).is_hit
    # What nobody has changed is still there.
    assert moved.read("order", (2,)).is_hit
    moved.close()
    scene.close()
    replica.kill()


def test_the_first_heartbeat_sees_the_table_as_it_is_then(scene: Scene):
    """What a stream reads to track it, before where it begins, is after the heartbeat."""
    scene.follower = scene.invalidator(heartbeat_seconds=0.0)
    scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_0900_ai_ci")
    scene.step()
    scene.sql("INSERT INTO names VALUES ('bob', 1)")
    scene.step()
    assert scene.cache.read("name", ("bob",)).outcome == "shape"
    scene.sql("ALTER TABLE names MODIFY name VARCHAR(40) COLLATE utf8mb4_bin")
    scene.step()
    scene.inspect()


def test_another_mysql_of_the_same_gtid_set_takes_over(redis_server: RedisServer, tmp_path):
    with shop(tmp_path / "a") as world, start_server(tmp_path / "b", "--server-id=2") as replica:
        scene = Scene(world, redis_server)
        replica.run_sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={world.server.port},"
            " SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
        )
        scene.sql("INSERT INTO orders VALUES (1, 1, 'old')")
        scene.get("order", 1)
        scene.get("order", 2)
        with replica.connect() as there:
            # The database, too, comes by replication.
            assert tokens.wait(there, tokens.include(scene.connection, source="s"), 120)
            there.select_db("d")
            scene.step()
            replica.run_sql("STOP REPLICA; RESET REPLICA ALL")
            world.server.stop()
            there.cursor().execute("UPDATE orders SET state = 'new' WHERE id = 1")
            scene.connection, old = there, scene.connection
            world.server = replica
            # It numbers with its own UUID; what the cache holds is of the same history.
            assert scene.is_hit("order", 1)
            scene.step()
            assert scene.follower.report.epochs == 1
            assert (scene.is_hit("order", 1), scene.is_hit("order", 2)) == (False, True)
            assert scene.get("order", 1) == b"((1, 1, 'new'),)"
            scene.inspect()
            old.close()
        scene.redis.close()
        scene.cache.close()
