"""Versions that speak of several tables at once: a snapshot, and statements that touch more than one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.config.settings import Settings, load_settings
from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.store.database import open_store
from tests.pipeline.test_unnumbered_source import run_all
from tests.quality.compare_rows import compare_rows
from tests.spark_session import spark

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]
__all__ = ["spark"]

BEFORE = """
CREATE DATABASE shop; USE shop;
CREATE TABLE a (id INT PRIMARY KEY, note VARCHAR(20));
CREATE TABLE b (k BIGINT PRIMARY KEY, price DECIMAL(8, 2), state ENUM('new', 'old'));
CREATE TABLE c (x INT, y INT, z INT, PRIMARY KEY (z));
CREATE TABLE `odd.name` (id INT PRIMARY KEY, `_op` INT);
CREATE TABLE `жжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжж`
  (id INT PRIMARY KEY);
CREATE DATABASE strata; CREATE TABLE strata.mine (id INT PRIMARY KEY);
FLUSH BINARY LOGS;
"""
ROWS = """
INSERT INTO a VALUES (1, 'x'); INSERT INTO b VALUES (1, 2.50, 'new'); INSERT INTO c VALUES (1, 2, 3);
INSERT INTO `odd.name` VALUES (1, 2); INSERT INTO strata.mine VALUES (1);
INSERT INTO `жжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжж` VALUES (7);
"""
SEVERAL = """
RENAME TABLE a TO a2, b TO b2; INSERT INTO a2 VALUES (2, 'y'); INSERT INTO b2 VALUES (2, 3, 'old');
RENAME TABLE a2 TO tmp, c TO a2, tmp TO c; INSERT INTO a2 VALUES (4, 5, 6); INSERT INTO c VALUES (3, 'z');
CREATE TABLE d LIKE b2; CREATE TABLE e LIKE a2; INSERT INTO d VALUES (9, 1, 'new'); INSERT INTO e VALUES (1, 1, 1);
DELETE FROM e; DELETE FROM d; DROP TABLE d, e; CREATE TABLE d (other INT PRIMARY KEY); INSERT INTO d VALUES (5);
"""


@pytest.fixture(scope="module")
def server(server: MysqlServer) -> MysqlServer:
    """A server whose first binlogs are purged."""
    server.run_sql(BEFORE)
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    return server


@pytest.fixture
def settings(server: MysqlServer, tmp_path: Path) -> Settings:
    (tmp_path / "strata.toml").write_text(
        f'lake = "lake"\n[sources.shop]\nconnection = "it"\nstore = "sqlite:///{tmp_path}/s.db"\n'
    )
    return load_settings({"STRATA_SETTINGS": str(tmp_path / "strata.toml"), "AIRFLOW_CONN_IT": server.url})


def test_every_table_of_a_snapshot_and_of_a_statement_is_checked_by_its_own_definition(
    server: MysqlServer, settings: Settings, spark: Any
) -> None:
    assert run_all(settings, spark).rows == 0
    for sql, rows in ((ROWS, 6), (SEVERAL, 9)):
        server.run_sql(sql, "shop")
        planned = run_all(settings, spark)
        assert (planned.rows, planned.refused) == (rows, 0)
    source = settings.source("shop")
    states = replay_source(source.lake, "shop", open_store(source.store_url))
    assert len(states) == 7
    with server.connect() as connection, connection.cursor() as cursor:
        for name, state in states.items():
            cursor.execute(f"SELECT * FROM `{name.database}`.`{name.table}`")
            found = compare_rows(state, cursor.fetchall())
            assert (str(name), found.equal, found.selected > 0) == (str(name), True, True)
