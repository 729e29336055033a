"""A storm, at whose end everything equals everything: random sessions on all kinds of keys, DDL, images of all kinds,
tables older than the stream, foreign traffic, quiet spells, runs that are killed, dumps beside writers. On MariaDB, in
several domains, with XA transactions that stay prepared, on two servers that take over from each other and crash.

One of each scenario with a fixed seed; in `make soak` as many as `STRATA_SEEDS` says, drawn anew.
"""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.errors import Usage
from tests.cache.conftest import redis_server
from tests.seeds import are_drawn, seeds
from tests.storm.cached import Cached
from tests.storm.scenarios import SCENARIOS
from tests.storm.source import WRITES, StormSource
from tests.storm.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.redis_server import RedisServer
    from tests.storm.scenarios import Scenario
    from tests.storm.workload import Workload

__all__ = ["redis_server"]

pytestmark = [pytest.mark.mysql, pytest.mark.redis, pytest.mark.slow]

ROUNDS, SPELLS, STEPS = (3, 3, 30) if are_drawn() else (2, 2, 30)


# What a run that dies has open, nobody closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_everything_equals_everything(
    scenario: Scenario,
    redis_server: RedisServer,
    tmp_path: Path,
    seed: int,
    record_property: Callable[[str, Any], None],
) -> None:
    random = Random(seed)
    with scenario.start(tmp_path / "servers", random) as servers:
        servers.primary.run_sql("CREATE DATABASE shop; CREATE DATABASE other")
        workload, source = servers.workload(random), StormSource(servers.primary, tmp_path)
        witnesses = Witnesses(source, workload)
        workload.begin()
        with workload.settled():
            source.run()
        cached = Cached(redis_server, source, workload)
        for number in range(ROUNDS):
            for _ in range(SPELLS):
                spell(random, workload, source)
                servers.happen(random, workload)
                source.server = servers.primary
            # Mirrors are switched on late.
            names = list(workload.life.tables)
            is_last = number == ROUNDS - 1
            source.mirror(*["shop.*"] if is_last else [f"shop.{name}" for name in names[: 4 * (number + 1)]])
            with workload.settled():
                source.run()
                witnesses.ask()
                cached.follow()
                assert [*cached.differences(), *cached.differences()] == []
    summary = {
        "rounds": ROUNDS,
        "rows": workload.rows,
        "ddl": workload.ddl,
        "refused by the server": workload.refused,
        "runs": source.runs,
        "kills": source.kills,
        **servers.counts,
        "equal": witnesses.equal,
        "hits": cached.hits,
        "refused": {what: sorted(reasons) for what, reasons in witnesses.refused.items()},
    }
    print(f"storm {scenario} {seed}: {summary}")
    for name, value in summary.items():
        record_property(name, value)


def spell(random: Random, workload: Workload, source: StormSource) -> None:
    """Some sessions, and what the product does after them or beside them."""
    workload.steps(STEPS)
    if random.random() < 0.3:
        workload.quiet()
    if random.random() < 0.3:
        source.snapshot()
    work(random, workload, source)


def work(random: Random, workload: Workload, source: StormSource) -> None:
    """What the product does: a run, runs that are killed, a run or a dump beside writers, or nothing."""
    happens = random.choices(["run", "killed", "beside", "dump", "nothing"], [2, 4, 2, 2, 1])[0]
    if happens == "run":
        source.run()
    elif happens == "killed":
        for _ in range(random.randint(1, 3)):
            source.run_killed(random.randrange(1, WRITES))
    elif happens == "beside":
        beside(workload, source.run)
    elif happens == "dump":
        dump_beside(random, workload, source)


def dump_beside(random: Random, workload: Workload, source: StormSource) -> None:
    """A table is read while somebody writes, and may drop it."""
    table = random.choice(workload.tables())
    with workload.settled():
        try:
            beside(workload, lambda: source.dump(f"shop.{table}"))
        except Usage as error:
            if "no table that is there now" not in str(error):
                raise


def beside(workload: Workload, work: Callable[[], Any]) -> None:
    """The work while somebody writes."""
    writer = threading.Thread(target=workload.steps, args=(STEPS,))
    writer.start()
    try:
        work()
    finally:
        writer.join()
