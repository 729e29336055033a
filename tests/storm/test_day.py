"""A day of two MariaDB servers, at whose end all mirrors are what SELECT gives: random DDL, rows, XA and sequences in
several domains, servers that take over or crash, steps of the product that are killed before any of their writes.

One with a fixed seed; in `make soak` as many as `STRATA_SEEDS` says, drawn anew.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.mariadb_server import PREFIXES
from tests.seeds import seeds
from tests.storm.day import DayWorkload, Pair, start_pair
from tests.storm.day_life import DayLife
from tests.storm.source import StormSource
from tests.storm.test_storm import dump_beside, work
from tests.storm.witnesses import Witnesses

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

ROUNDS, SPELLS, STEPS = 2, 4, 25


# What a run that dies has open, nobody closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", seeds())
@pytest.mark.parametrize("version", PREFIXES)
def test_a_day(tmp_path: Path, version: str, seed: int, record_property: Callable[[str, Any], None]) -> None:
    random = Random(seed)
    has_domains_by_table = random.random() < 0.5
    life = DayLife(random, has_domains_by_table=has_domains_by_table)
    with start_pair(tmp_path / "servers", version, 4 if has_domains_by_table else 0) as pair:
        pair.primary.run_sql("CREATE DATABASE shop; CREATE DATABASE other")
        workload, source = DayWorkload(pair, random, life), StormSource(pair.primary, tmp_path)
        witnesses = Witnesses(source, workload)
        workload.begin()
        workload.settle()
        source.run()
        source.mirror("shop.*")
        for _ in range(ROUNDS):
            for _ in range(SPELLS):
                spell(random, pair, workload, source)
            workload.settle()
            source.run()
            witnesses.mirrors()
            witnesses.lines()
            witnesses.comparisons()
        summary = {
            "rounds": ROUNDS,
            "rows": workload.rows,
            "ddl": workload.ddl,
            "refused by the server": workload.refused,
            "runs": source.runs,
            "kills": source.kills,
            "failovers": pair.failovers,
            "crashes": pair.crashes,
            "equal": witnesses.equal,
            "refused": {what: sorted(reasons) for what, reasons in witnesses.refused.items()},
        }
    print(f"day {version} {seed}: {summary}")
    for name, value in summary.items():
        record_property(name, value)


def spell(random: Random, pair: Pair, workload: DayWorkload, source: StormSource) -> None:
    """Some sessions, what the product does after them or beside them, and what happens to the servers."""
    workload.steps(STEPS)
    if random.random() < 0.3:
        workload.quiet()
    work(random, workload, source, lambda: dump(random, workload, source), killed=5)
    event = random.choices(["failover", "crash", "crash and failover", "nothing"], [3, 1, 1, 3])[0]
    if event == "crash":
        pair.crash()
    elif event != "nothing":
        pair.fail_over(crash=event == "crash and failover")
    source.server = pair.primary
    workload.move()


def dump(random: Random, workload: DayWorkload, source: StormSource) -> None:
    """A table is read while somebody writes, and nobody holds a prepared transaction: reading would wait for it."""
    workload.settle()
    workload.holds = False
    dump_beside(random, workload, source)
    workload.holds = True
