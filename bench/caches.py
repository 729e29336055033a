"""Caches: reads, fills and invalidations a second, and how soon after its commit a change is invalidated.

Run it: `python -m bench caches [SECONDS] [ROUNDS]` (defaults 5 and 3). Beside it what Redis does with a bare GET. CPU
times are of the Redis server alone: that is what limits how many clients share one.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psutil

from bench.writers import make_writer, writing
from strata_cdc.cache.invalidator import Invalidator
from strata_cdc.cache.reader import Cache
from strata_cdc.cache.server import CacheServer
from strata_cdc.cache.shapes import Shape, Shapes
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.token import Token
from tests.mysql_server import MysqlServer, start_server
from tests.redis_server import RedisServer, start_redis
from tests.streams.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Source
    from strata_cdc.position.port import Executed

_SHAPES = Shapes.of("s", [Shape("order", {"d.t": ("a",)})])
_KEYS = 2000
_BATCH = 100
_UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_SAMPLE_SECONDS = 0.02
_PATIENCE_SECONDS = 60


def scripts(redis: RedisServer, rounds: int) -> None:
    """What one client gets, one call after the other, and what the server spends on it."""
    cache = Cache(redis.url, "c", _SHAPES)
    server, client, process = cache.server, redis.client(), psutil.Process(redis.process.pid)
    word = _SHAPES.shapes[0].word("i")
    reached = GtidSet.parse(f"{_UUID}:1-1000000")
    server.run("begin", arguments=["", _SHAPES.history, "epoch", str(reached), _SHAPES.digest, 0])
    server.run("invalidate", arguments=[str(reached), str(reached), _SHAPES.digest, 0, 60_000, 0, 1, "order", word])
    token = Token.of("s", reached)
    value = b"x" * 200
    client.set("bare", value)
    entries = [f"{server.state_key}:order:[{number}]" for number in range(_KEYS)]
    here = [reached]

    def invalidate(number: int) -> None:
        keys = entries[number % 20 * _BATCH :][:_BATCH]
        after = GtidSet.parse(f"{_UUID}:1-{1_000_001 + number}")
        gtid = f"{_UUID}:{1_000_001 + number}"
        arguments: list[str | bytes | int] = [
            str(here[0]),
            str(after),
            _SHAPES.digest,
            0,
            60_000,
            0,
            0,
            *[gtid] * len(keys),
        ]
        server.run("invalidate", keys, arguments)
        here[0] = after

    works: list[tuple[str, int, int, Callable[[int], Any]]] = [
        ("bare GET", 1, 4000, lambda _: client.get("bare")),
        ("fill", 1, _KEYS, lambda number: cache.fill("order", (number,), value, token)),
        ("read, hit", 1, 4000, lambda number: cache.read("order", (number % _KEYS,))),
        ("read, miss", 1, 4000, lambda number: cache.read("order", (number + _KEYS,))),
        (f"invalidate, {_BATCH} cached keys a step", _BATCH, 20, invalidate),
        (f"invalidate, {_BATCH} marks a step", _BATCH, 20, invalidate),
    ]
    print(f"{'':36} {'a second':>9} {'us of the server':>17}")
    for name, each, count, work in works:
        rates, costs = [], []
        for _ in range(1 if "invalidate" in name or name == "fill" else rounds):
            spent, begin = _cpu(process), time.perf_counter()
            for number in range(count):
                work(number if "marks" not in name else number + 20)
            rates.append(each * count / (time.perf_counter() - begin))
            costs.append((_cpu(process) - spent) / count / each * 1e6)
        print(f"{name:36} {statistics.median(rates):>9,.0f} {statistics.median(costs):>17.1f}")
    cache.close()
    client.close()


def _cpu(process: psutil.Process) -> float:
    found = process.cpu_times()
    return float(found.user + found.system)


def delay(redis: RedisServer, seconds: float) -> None:
    """From the commit on the server to the acknowledged invalidation, in one process with the invalidator."""
    with tempfile.TemporaryDirectory() as folder, start_server(Path(folder) / "server") as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b INT)")
        server.run_sql("INSERT INTO d.t VALUES " + ", ".join(f"({number}, 0)" for number in range(_KEYS)))
        # A key with RAND() in it would be drawn for each row: a scan of the table.
        make_writer(server, f"SET @a = FLOOR(RAND() * {_KEYS}); UPDATE t SET b = b + 1 WHERE a = @a")
        world = World(server, Path(folder))
        world.land()
        world.track()
        acknowledged: list[tuple[float, Executed]] = []
        follower = Invalidator(
            # It has all that a stream asks of a source.
            cast("Source", world),
            CacheServer(redis.url, "d"),
            _SHAPES,
            on_acknowledged=lambda found: acknowledged.append((time.time(), found)),
        )
        thread = threading.Thread(target=follower.run)
        thread.start()
        while not acknowledged:
            time.sleep(0.1)
        before = follower.report.transactions
        with writing(server, seconds):
            committed = _committed(server, seconds)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not committed[-1][1] <= acknowledged[-1][1] and time.monotonic() < until:
            time.sleep(0.1)
        follower.stop()
        thread.join()
    delays = []
    at = 0
    for when, gtids in committed:
        while at < len(acknowledged) and not gtids <= acknowledged[at][1]:
            at += 1
        if at < len(acknowledged):
            delays.append(1000 * (acknowledged[at][0] - when))
    delays.sort()
    print(
        f"commit to acknowledged invalidation at {(follower.report.transactions - before) / seconds:,.0f} transactions "
        f"a second: median {statistics.median(delays):.1f} ms, 99th percentile {delays[int(0.99 * len(delays))]:.1f} ms"
    )


def _committed(server: MysqlServer, seconds: float) -> list[tuple[float, Executed]]:
    """What had been committed at some moments."""
    found: list[tuple[float, Executed]] = []
    with server.connect() as connection, connection.cursor() as cursor:
        until = time.time() + seconds
        while time.time() < until:
            cursor.execute("SELECT UNIX_TIMESTAMP(SYSDATE(6)), @@GLOBAL.gtid_executed")
            when, executed = cursor.fetchone()
            found.append((float(when), GtidSet.parse(executed)))
            time.sleep(_SAMPLE_SECONDS)
    return found


def main(arguments: list[str]) -> None:
    """Prints a table of the scripts, and the delay."""
    numbers = [int(one) for one in arguments]
    seconds, rounds = (*numbers, *(5, 3)[len(numbers) :])
    with tempfile.TemporaryDirectory() as folder, start_redis(Path(folder)) as redis:
        scripts(redis, rounds)
        delay(redis, seconds)
