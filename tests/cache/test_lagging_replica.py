"""Readers of a replica that is stopped and started by lot: what they get, of the cache or of the replica, is never
older than what was acknowledged before. Not here: all interleavings, on a model (`machine.py`)."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from strata_cdc import tokens
from strata_cdc.errors import SourceUnavailableError
from tests.cache.scene import Scene, shop
from tests.mysql_server import start_server
from tests.seeds import seeds

if TYPE_CHECKING:
    from tests.redis_server import RedisServer

pytestmark = [pytest.mark.mysql, pytest.mark.redis]
STEPS = 250
KEYS = (1, 2, 3)


@pytest.mark.parametrize("seed", seeds())
def test_what_is_loaded_is_no_older_than_what_was_acknowledged(redis_server: RedisServer, tmp_path, seed: int):
    drawn, late, loaded = random.Random(seed), 0, 0
    with shop(tmp_path / "a") as world, start_server(tmp_path / "b", "--server-id=2") as replica:
        scene = Scene(world, redis_server)
        replica.run_sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={world.server.port},"
            " SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
        )
        with closing(scene), replica.connect() as there, closing(replica.connect()) as control:
            assert tokens.wait(there, tokens.include(scene.connection, source="s"), 120)
            there.select_db("d")
            written = dict.fromkeys(KEYS, 0)
            acknowledged = dict(written)
            for key in KEYS:
                scene.sql(f"INSERT INTO orders VALUES ({key}, 1, '0')")
            scene.step()
            for number in range(1, STEPS):
                key = drawn.choice(KEYS)
                what = drawn.choice(["write", "write", "acknowledge", "replica", *["read"] * 5])
                if what == "write":
                    scene.sql(f"UPDATE orders SET state = '{number}' WHERE id = {key}")
                    written[key] = number
                elif what == "acknowledge":
                    if number % 3 == 0:
                        scene.step()
                        acknowledged = dict(written)
                elif what == "replica":
                    with control.cursor() as cursor:
                        cursor.execute(drawn.choice(["STOP REPLICA SQL_THREAD", "START REPLICA SQL_THREAD"]))
                else:

                    def load(key: int = key) -> bytes:
                        with there.cursor() as cursor:
                            cursor.execute(f"SELECT state FROM orders WHERE id = {key}")
                            return cursor.fetchone()[0].encode()

                    try:
                        value = scene.cache.get("order", (key,), load, connection=there, wait_seconds=0.01)
                    except SourceUnavailableError:
                        late += 1
                        continue
                    loaded += 1
                    assert acknowledged[key] <= int(value) <= written[key], (number, key)
            scene.inspect()
    assert late > 0
    assert loaded > 20
