"""Views that change at random: at each moment, a view has the rows, names and types that it had on the server."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest

from tests.past.past_world import SESSION, Pairs, PastWorld
from tests.past.random_queries import RandomQueries
from tests.past.random_shop import RandomShop
from tests.past.random_views import VIEWS, RandomViews
from tests.past.test_random_queries import drop_kept, show
from tests.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
ROUNDS, STEPS, QUERIES = 2, 60, 3


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds())
def test_views_are_what_they_were(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world, random = PastWorld(server, tmp_path), Random(seed)
    shop, views = RandomShop(random), RandomViews(random)
    moments: list[str] = []
    with server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        for statement in shop.begin():
            cursor.execute(statement)
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                is_view = random.random() < 0.3
                try:
                    cursor.execute(views.step(world.columns("shop")) if is_view else shop.step())
                except pymysql.err.MySQLError:
                    continue
                if random.random() < 0.12:
                    moments.append(world.keep(len(moments)))
            world.publish()
            world.update()
    pairs = Pairs()
    for number, at in enumerate(moments):
        columns = world.columns(f"kept_{number}")
        for view in world.views[number]:
            world.compare(f"SELECT * FROM {{db}}.{view}", number, at, pairs)
        kept = {name: columns[name] for name in columns if name in VIEWS}
        queries = RandomQueries(random, columns)
        for query in (queries.query() for _ in range(QUERIES) if kept):
            world.compare(query, number, at, pairs)
    drop_kept(server, len(moments))
    show(pairs)
    assert pairs.wrong == []
    assert pairs.equal > pairs.refused.total()
