"""Queries at random moments of a random life: `strata sql` has the server's rows, types and names, or refuses."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.past.duckdb_engine import run_in_duckdb
from tests.past.past_world import SESSION, Pairs, PastWorld
from tests.past.random_queries import WRITTEN, RandomQueries
from tests.past.random_shop import RandomShop
from tests.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.past.query import QueryEngine
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

ROUNDS, STEPS = 2, 30
WRITTEN_ASKED = int(os.environ.get("STRATA_PAST_WRITTEN", "8"))
RANDOM_ASKED = int(os.environ.get("STRATA_PAST_QUERIES", "8"))


@pytest.mark.parametrize("seed", seeds())
def test_sql_answers_as_the_server_did(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    # Small files: a condition on whole numbers leaves some of them out.
    world, random = PastWorld(server, tmp_path, limits=MirrorLimits(file_rows=4)), Random(seed)
    moments = live(world, random)
    pairs = ask(world, moments, random)
    drop_kept(server, len(moments))
    show(pairs)
    assert pairs.wrong == []
    assert pairs.equal > pairs.refused.total()


def live(world: PastWorld, random: Random) -> list[str]:
    """Random statements on a new shop; gives the moments at which its tables are kept."""
    server, shop = world.server, RandomShop(random)
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    moments: list[str] = []
    with server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        for statement in shop.begin():
            cursor.execute(statement)
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                try:
                    cursor.execute(shop.step())
                except pymysql.err.MySQLError:
                    continue
                if random.random() < 0.1:
                    moments.append(world.keep(len(moments)))
            world.publish()
            if random.random() < 0.6:
                world.update()
    world.update()
    return moments


def show(pairs: Pairs) -> None:
    """Prints what became of the queries."""
    print(f"\n{pairs}")
    for why, count in pairs.refused.most_common(40):
        print(f"  {count} {why}")
    print("\n".join(pairs.wrong))


def ask(world: PastWorld, moments: list[str], random: Random, engine: QueryEngine = run_in_duckdb) -> Pairs:
    """Asks written and random queries at each moment."""
    pairs = Pairs()
    for number, at in enumerate(moments):
        queries = RandomQueries(random, world.columns(f"kept_{number}"))
        written = random.sample(WRITTEN, min(WRITTEN_ASKED, len(WRITTEN)))
        for query in (*written, *(queries.query() for _ in range(RANDOM_ASKED))):
            world.compare(query, number, at, pairs, engine)
    return pairs


def drop_kept(server: MysqlServer, count: int) -> None:
    """The copies, of which the log knows nothing."""
    server.run_sql("".join(f"SET sql_log_bin = 0; DROP DATABASE kept_{number};" for number in range(count)))
