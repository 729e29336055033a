"""The example application, on a real MySQL, a real Redis, and an invalidator."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from demo.cached_shop import SHAPES, Shop
from strata_cdc.cache.invalidator import Invalidator
from strata_cdc.cache.server import CacheServer

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.streams.world import World

pytestmark = pytest.mark.mysql


def test_it_reads_through_the_cache_and_sees_its_own_writes(world: World, redis_server: RedisServer):
    world.server.run_sql(
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, customer_id INT, state VARCHAR(10));"
        "INSERT INTO shop.orders VALUES (1, 7, 'new'), (2, 7, 'new'), (3, 8, 'new')"
    )
    with redis_server.client() as client:
        client.flushall()
    follower = Invalidator(replace(world, name="shop"), CacheServer(redis_server.url, "strata"), SHAPES)
    follower.run(follow=False)
    shop = Shop(world.server.url, redis_server.url)
    assert shop.orders(7) == [[1, "new"], [2, "new"]]
    assert shop.orders(9) == []
    assert shop.orders(9) == []
    assert (shop.cache.counts.hits, shop.cache.counts.filled) == (1, 2)
    mine = shop.pay(1)
    # Others see what has been invalidated; who has the token sees what was paid.
    assert shop.orders(7) == [[1, "new"], [2, "new"]]
    assert shop.orders(7, at_least=mine) == [[1, "paid"], [2, "new"]]
    assert shop.orders(7) == [[1, "paid"], [2, "new"]]
    follower.run(follow=False)
    hits = shop.cache.counts.hits
    assert shop.orders(7) == [[1, "paid"], [2, "new"]]
    assert shop.cache.counts.hits == hits + 1
    command = [sys.executable, "-m", "demo.cached_shop", world.server.url, redis_server.url, "orders", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"orders": [[1, "paid"], [2, "new"]], "hits": 1}
    shop.connection.close()
    shop.cache.close()
