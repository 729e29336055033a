"""A Redis and a MySQL that the tests of caches share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cache.scene import Scene, shop
from tests.redis_server import RedisServer, start_redis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.streams.world import World


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for the whole run; a test empties it first."""
    # Another replication ID without a replica, as after a promotion.
    with start_redis(tmp_path_factory.mktemp("redis"), "--enable-debug-command", "local") as server:
        yield server


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A MySQL with a shop, for the whole run."""
    with shop(tmp_path_factory.mktemp("caches")) as made:
        yield made


@pytest.fixture
def scene(world: World, redis_server: RedisServer) -> Iterator[Scene]:
    made = Scene(world, redis_server)
    yield made
    made.close()
