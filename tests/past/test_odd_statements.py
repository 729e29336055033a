"""Statements at the edges of MySQL's lexer: `strata sql` has the server's rows and names, or refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.past.past_world import Pairs, PastWorld
from tests.past.test_random_queries import show

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

TABLE = r"""CREATE TABLE t (id INT PRIMARY KEY, a INT, x INT, e1 INT, `1b` INT, `2e3` INT, `$x` INT, `0x` INT,
  `x y` INT, b VARCHAR(9), é INT, n INT, `a.b` INT, `1` INT, `_utf8` INT,
  d3 DECIMAL(3,3));
INSERT INTO t VALUES (1, 10, 20, 30, 40, 50, 60, 70, 80, 'q', 90, 100, 110, 120, 130, 0.125),
  (2, NULL, -1, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0, 0, -0.5)"""
EXPRESSIONS = Path(__file__).with_name("odd_expressions.sql").read_text().splitlines()[1:]
STATEMENTS = Path(__file__).with_name("odd_statements.sql").read_text().splitlines()[1:]


def test_odd_statements_are_the_server_s_or_refused(world: PastWorld) -> None:
    world.server.run_sql(TABLE, "shop")
    world.publish()
    world.update()
    at, pairs = world.keep(0), Pairs()
    for statement in (*STATEMENTS, *(f"SELECT {expression} FROM {{db}}.t" for expression in EXPRESSIONS)):
        world.compare(statement, 0, at, pairs)
    world.server.run_sql("SET sql_log_bin = 0; DROP DATABASE kept_0")
    show(pairs)
    assert pairs.wrong == []
