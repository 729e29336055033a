"""A storm, at whose end everything equals everything: random sessions on all kinds of keys, DDL, images of all kinds,
tables older than the stream, foreign traffic, quiet spells, runs that are killed, dumps beside writers.

One with a fixed seed; in `make soak` as many as `STRATA_SEEDS` says, drawn anew.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.cache.conftest import redis_server
from tests.mariadb_server import FAMILIES, start_family
from tests.seeds import seeds
from tests.storm.cached import Cached
from tests.storm.source import WRITES, StormSource
from tests.storm.witnesses import Witnesses
from tests.storm.workload import KEYS, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer
    from tests.redis_server import RedisServer

__all__ = ["redis_server"]

pytestmark = [pytest.mark.mysql, pytest.mark.redis, pytest.mark.slow]

ROUNDS, SPELLS, STEPS = 3, 3, 30


@pytest.fixture(params=FAMILIES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MysqlServer]:
    with start_family(tmp_path / "server", request.param) as server:
        server.run_sql("CREATE DATABASE shop; CREATE DATABASE other")
        yield server


# What a run that dies has open, nobody closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", seeds())
def test_everything_equals_everything(
    server: MysqlServer,
    redis_server: RedisServer,
    tmp_path: Path,
    seed: int,
    record_property: Callable[[str, Any], None],
) -> None:
    random = Random(seed)
    workload, source = Workload(server, random), StormSource(server, tmp_path)
    witnesses = Witnesses(source, workload)
    workload.begin()
    source.run()
    cached = Cached(redis_server, source, workload)
    for number in range(ROUNDS):
        for _ in range(SPELLS):
            spell(random, workload, source)
        # Mirrors are switched on late.
        names = list(KEYS)
        is_last = number == ROUNDS - 1
        source.mirror(*["shop.*"] if is_last else [f"shop.{name}" for name in names[: 4 * (number + 1)]])
        source.run()
        witnesses.ask()
        cached.follow()
        assert [*cached.differences(), *cached.differences()] == []
    said = {
        "rounds": ROUNDS,
        "rows": workload.rows,
        "ddl": workload.ddl,
        "runs": source.runs,
        "kills": source.kills,
        "equal": witnesses.equal,
        "hits": cached.hits,
        "refused": {what: sorted(reasons) for what, reasons in witnesses.refused.items()},
    }
    print(f"storm {seed}: {said}")
    for name, value in said.items():
        record_property(name, value)


def spell(random: Random, workload: Workload, source: StormSource) -> None:
    """Some sessions, and what the product does behind or beside them."""
    workload.steps(STEPS)
    if random.random() < 0.3:
        workload.quiet()
    if random.random() < 0.3:
        source.snapshot()
    work(random, workload, source, lambda: dump_beside(random, workload, source))


def work(random: Random, workload: Workload, source: StormSource, dump: Callable[[], None], *, killed: int = 4) -> None:
    """What the product does: a run, runs that are killed (this often), a run or a dump beside writers, or nothing."""
    happens = random.choices(["run", "killed", "beside", "dump", "nothing"], [2, killed, 2, 2, 1])[0]
    if happens == "run":
        source.run()
    elif happens == "killed":
        for _ in range(random.randint(1, 3)):
            source.run_killed(random.randrange(1, WRITES))
    elif happens == "beside":
        beside(workload, source.run)
    elif happens == "dump":
        dump()


def dump_beside(random: Random, workload: Workload, source: StormSource) -> None:
    """A table is read while somebody writes."""
    table = random.choice(workload.tables())
    beside(workload, lambda: source.dump(f"shop.{table}"))


def beside(workload: Workload, work: Callable[[], Any]) -> None:
    """The work while somebody writes."""
    writer = threading.Thread(target=workload.steps, args=(STEPS,))
    writer.start()
    try:
        work()
    finally:
        writer.join()
