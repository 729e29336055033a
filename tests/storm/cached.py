"""Caches of a storm's tables, whose follower runs now and then.
Not here: the tables (`workload.py`), what else must hold (`witnesses.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.cache.invalidator import Invalidator
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from tests.cache.scene import PlainWorld
from tests.storm.source import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.redis_server import RedisServer
    from tests.storm.source import StormSource
    from tests.storm.workload import Workload

SHAPES = Shapes.of(
    NAME, [Shape(table, {f"shop.{table}": ("id",)}) for table in ("ints", "exact", "days", "only_unique")]
)


class Cached:
    """A cache, its follower and a reader."""

    def __init__(self, redis: RedisServer, source: StormSource, workload: Workload) -> None:
        with redis.client() as client:
            client.flushall()
        self._workload = workload
        self._source, self._world = source, PlainWorld(source.server, source.folder, name=NAME)
        self._cache = Cache(redis.url, "c", SHAPES)
        self._follower = Invalidator(self._world, CacheServer(redis.url, "c"), SHAPES, log=10_000)

    def follow(self) -> None:
        """Up to now, from the server that is the primary now."""
        self._world.server = self._source.server
        self._follower.run(follow=False)

    def differences(self) -> Iterator[str]:
        """Keys for which the cache does not serve what SELECT gives."""
        for shape in SHAPES.shapes:
            for (key,) in self._workload.select(f"SELECT id FROM {shape.name}"):

                def load(table: str = shape.name, key: object = key) -> bytes:
                    with self._workload.connection.cursor() as cursor:
                        cursor.execute(f"SELECT * FROM {table} WHERE id = %s", (key,))
                        return repr(cursor.fetchall()).encode()

                served = self._cache.get(shape.name, (key,), load, connection=self._workload.connection)
                if served != load():
                    yield f"{shape.name} {key}: {served!r}, not {load()!r}"

    @property
    def hits(self) -> int:
        return self._cache.counts.hits
