"""Mirrors of tables that CREATE TABLE ... SELECT made: their first rows, however the server has logged them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.tables.limits import FileLimits
from tests.mirrors.world import MirrorWorld, outcomes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture
def world(server: MysqlServer, tmp_path: Path) -> MirrorWorld:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    server.run_sql("CREATE TABLE a (id INT PRIMARY KEY, n INT); INSERT INTO a VALUES (1, 1), (2, 2), (3, 2)", "shop")
    return MirrorWorld(server, tmp_path)


TABLES = """
CREATE TABLE one_key (UNIQUE KEY (one)) REPLACE AS SELECT 1 AS one, id FROM a;
CREATE TABLE two_keys (id INT PRIMARY KEY, n INT NOT NULL, UNIQUE KEY (n)) REPLACE AS SELECT id, n FROM a;
CREATE TABLE no_key (UNIQUE KEY (n)) REPLACE AS SELECT n, id FROM a;
CREATE TABLE deleted (n INT PRIMARY KEY, UNIQUE KEY (k)) REPLACE AS SELECT n, IF(id = 3, 9, id) AS k FROM a;
CREATE TABLE defaults (id INT AUTO_INCREMENT PRIMARY KEY, x VARCHAR(9) DEFAULT 'd', y INT, UNIQUE KEY (n))
  REPLACE AS SELECT n FROM a;
CREATE TABLE only_inserts (x VARCHAR(9) DEFAULT 'd', y INT DEFAULT 5) AS SELECT n FROM a;
"""


@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_rows_that_the_query_replaced(world: MirrorWorld, image: str) -> None:
    """REPLACE logs updates and deletes of rows that the same statement has inserted."""
    world.server.run_sql(f"SET binlog_row_image = {image}; {TABLES}", "shop")
    world.publish()
    assert {found.behind for found in outcomes(world).values()} == {None}
    world.assert_equal()
    world.server.run_sql("UPDATE one_key SET id = 7; UPDATE two_keys SET id = id + 9; DELETE FROM no_key", "shop")
    world.publish()
    assert {found.behind for found in outcomes(world).values()} == {None}
    world.assert_equal()


def test_replaced_rows_beyond_one_batch_are_refused(world: MirrorWorld) -> None:
    world.limits, world.file_limits = MirrorLimits(batch_rows=8000), FileLimits(row_group_rows=8000)
    numbers = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 20000)"
    world.server.run_sql(
        "SET SESSION cte_max_recursion_depth = 100000;"
        f"CREATE TABLE b (PRIMARY KEY (k)) REPLACE AS {numbers} SELECT n % 19999 AS k, n FROM r;"
        f"CREATE TABLE c (PRIMARY KEY (k)) REPLACE AS {numbers} SELECT n AS k, n FROM r",
        "shop",
    )
    world.publish()
    found = outcomes(world)
    assert "the query that made the table replaced some of its rows" in (found["b"].behind or "")
    assert "strata dump --source s --table shop.b" in (found["b"].behind or "")
    assert world.mirror("b") is None
    assert found["c"].behind is None
    assert found["c"].rows == 20000
