"""A cache of a shop on a real MySQL and a real Redis: its tables, an invalidator in steps, a reader.
Not here: tests."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.connection import ServerAddress, TlsMode
from strata_cdc.cache.inspector import Inspector, require_proof
from strata_cdc.cache.invalidator import Invalidator
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.position.sets import GtidSet
from tests.mysql_server import start_server
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.redis_server import RedisServer

SHAPES = Shapes.of(
    "s",
    [
        Shape("order", {"d.orders": ("id",)}),
        Shape("customer", {"d.orders": ("customer_id",)}),
        Shape("name", {"d.names": ("name",)}),
        Shape("rated", {"d.orders": ("id",), "d.rates": ()}),
    ],
)


class PlainWorld(World):
    """Without TLS, whose preparation takes longer than all else."""

    @property
    def address(self) -> ServerAddress:
        return replace(super().address, tls=TlsMode.DISABLED)


@contextmanager
def shop(folder: Path) -> Iterator[World]:
    """A server with the tables, landed and tracked."""
    with start_server(folder / "server") as server:
        server.run_sql(
            "CREATE DATABASE d; USE d; CREATE TABLE o (id INT PRIMARY KEY, customer INT, n INT);"
            "CREATE TABLE c (id INT PRIMARY KEY, n INT);"
            "CREATE TABLE x (id INT PRIMARY KEY, n INT); CREATE TABLE rates (a INT PRIMARY KEY);"
            "CREATE TABLE names (name VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY, a INT);"
            "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, customer_id INT, state VARCHAR(10));"
        )
        made = PlainWorld(server, folder)
        made.land()
        made.track()
        yield made


class Scene:
    """A cache, its invalidator in steps, and a reader of it."""

    def __init__(self, world: World, redis: RedisServer, shapes: Shapes = SHAPES, **options: Any) -> None:
        self.world, self.shapes, self.url = world, shapes, redis.url
        self.redis = redis.client()
        self.redis.flushall()
        self.remarks: list[str] = []
        self.acknowledged = GtidSet()
        self.cache = Cache(redis.url, "c", shapes)
        self.connection = world.server.connect("d")
        for table in ("orders", "names", "rates"):
            self.sql(f"DELETE FROM {table}")
        self.follower = self.invalidator(**options)
        self.step()

    def invalidator(self, **options: Any) -> Invalidator:
        def acknowledge(found: GtidSet) -> None:
            self.acknowledged |= found

        server = CacheServer(self.url, "c")
        return Invalidator(
            self.world,
            server,
            self.shapes,
            log=10_000,
            on_remark=self.remarks.append,
            on_acknowledged=acknowledge,
            **options,
        )

    def step(self) -> None:
        self.follower.run(follow=False)

    def sql(self, *statements: str) -> Any:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def get(self, shape: str, *key: Any, **options: Any) -> bytes | None:
        column, table = {
            "order": ("id", "orders"),
            "customer": ("customer_id", "orders"),
            "name": ("name", "names"),
        }.get(shape, ("id", "orders"))

        def load() -> bytes | None:
            with self.connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table} WHERE {column} = %s ORDER BY 1", key)
                return repr(cursor.fetchall()).encode() or None

        return self.cache.get(shape, key, load, connection=self.connection, **options)

    def is_hit(self, shape: str, *key: Any) -> bool:
        return self.cache.read(shape, key).is_hit

    def inspect(self) -> Any:
        found = Inspector(self.world, CacheServer(self.url, "c"), self.shapes).inspect()
        require_proof(found)
        return found

    def close(self) -> None:
        self.connection.close()
        self.redis.close()
        self.cache.close()
