"""Rows of partitions that go or change places without row events: mirrors are what SELECT gives."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest

from strata_cdc.mirrors.modes import Mode
from strata_cdc.schema.history.table_changes import removals_of
from strata_cdc.schema.model.row_effects import EffectKind
from tests.mirrors.random_partitions import TABLES, PartitionLife
from tests.mirrors.test_random_lives import run
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "1"))
ROUNDS, STEPS = 4, 40


@pytest.mark.parametrize("seed", range(LIVES))
def test_mirrors_equal_select(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path, mode=list(Mode)[seed % 2])
    life = PartitionLife(Random(seed))
    with server.connect("shop", init_command="SET time_zone = '+02:00', sql_mode = ''") as connection:
        run(connection, life.begin())
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                run(connection, life.step())
            world.publish()
            report = world.update()
            assert [(one.table, one.behind) for one in report.mirrors if one.error or one.behind] == []
            world.assert_equal()
    held = {(one.name.table, one.effect.kind) for one in removals_of(world.engine, "s") if one.effect.held}
    seen = {kind: len(held & {(table, kind) for table in TABLES}) for kind in (EffectKind.REMOVE, EffectKind.EXCHANGE)}
    assert min(seen.values()) > 2, seen


UNKNOWN = {
    "PARTITION BY HASH (id) PARTITIONS 3": ("", "TRUNCATE PARTITION p1", "not known here"),
    "PARTITION BY RANGE (id + 1) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))": (
        "",
        "DROP PARTITION p1",
        "not known here",
    ),
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9))": (
        "CREATE TABLE x LIKE t; ALTER TABLE x REMOVE PARTITIONING; INSERT INTO x VALUES (2, 2);"
        "ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE x WITHOUT VALIDATION",
        "DROP PARTITION p0",
        "WITHOUT VALIDATION",
    ),
    "PARTITION BY LIST (n + 1) (PARTITION p0 VALUES IN (2), PARTITION p1 VALUES IN (6, 7))": (
        "",
        "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES IN (6))",
        "fit into no partition",
    ),
}


@pytest.mark.parametrize("clause", UNKNOWN)
def test_a_mirror_stands_where_nobody_can_tell_which_rows_go(server: MysqlServer, tmp_path: Path, clause: str) -> None:
    before, alter, reason = UNKNOWN[clause]
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    key = "" if "LIST" in clause else " PRIMARY KEY"
    server.run_sql(
        f"CREATE TABLE t (id INT{key}, n INT) {clause}; INSERT INTO t VALUES (1, 1), (5, 5), (6, 6); {before}",
        "shop",
    )
    world.publish()
    assert [one.behind for one in world.update().mirrors if one.behind] == []
    world.assert_equal()
    server.run_sql(f"ALTER TABLE t {alter}", "shop")
    world.publish()
    [waits] = [one for one in world.update().mirrors if one.behind]
    assert (waits.table, waits.needs_dump) == ("shop.t", True)
    assert reason in (waits.behind or "")


LISTS = {
    "LIST (n) (PARTITION p0 VALUES IN (1), PARTITION p1 VALUES IN (5, 6), PARTITION p2 VALUES IN (7, NULL))": (
        "p1 INTO (PARTITION p1 VALUES IN (5))",
        "p1, p2 INTO (PARTITION q VALUES IN (5, 9, NULL))",
    ),
    "LIST COLUMNS (c) (PARTITION p0 VALUES IN ('a', 'b'), PARTITION p1 VALUES IN ('x', 'y'))": (
        "p0 INTO (PARTITION p0 VALUES IN ('b'))",
        "p1 INTO (PARTITION q VALUES IN ('y'), PARTITION r VALUES IN ('x'))",
    ),
}


@pytest.mark.parametrize("clause", LISTS)
def test_rows_whose_values_are_in_no_list_any_more(server: MysqlServer, tmp_path: Path, clause: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    rows = "(1, 1, 'a'), (2, 5, 'b'), (3, 6, 'X'), (4, NULL, 'A'), (5, 7, 'y')"
    server.run_sql(
        f"CREATE TABLE t (id INT, n INT, c CHAR(1)) PARTITION BY {clause}; INSERT INTO t VALUES {rows}", "shop"
    )
    for reorganized in LISTS[clause]:
        server.run_sql(f"ALTER TABLE t REORGANIZE PARTITION {reorganized}", "shop")
        world.publish()
        assert [one.behind for one in world.update().mirrors] == [None]
        world.assert_equal()
    first = removals_of(world.engine, "s")[0].effect
    assert first.text == f"those of partition {first.partitions[0]} whose values no partition takes are removed"


@pytest.mark.parametrize(
    "alter", ["REBUILD PARTITION ALL", "REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (9))"]
)
def test_a_row_that_fits_into_no_range(server: MysqlServer, tmp_path: Path, alter: str) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        "CREATE TABLE t (n INT) PARTITION BY RANGE (n) (PARTITION p VALUES LESS THAN (9)); CREATE TABLE x (n INT);"
        "INSERT INTO x VALUES (5), (50); ALTER TABLE t EXCHANGE PARTITION p WITH TABLE x WITHOUT VALIDATION",
        "shop",
    )
    world.publish()
    assert [one.behind for one in world.update().mirrors if one.behind] == []
    world.assert_equal()
    server.run_sql(f"ALTER TABLE t {alter}", "shop")
    assert server.run_sql("SELECT n FROM t", "shop").split() == ["n", "5"]
    world.publish()
    [waits] = [one for one in world.update().mirrors if one.behind]
    assert (waits.table, waits.needs_dump) == ("shop.t", True)
    assert "WITHOUT VALIDATION" in (waits.behind or "")


def test_rows_with_null_stay_where_no_list_has_it_any_more(server: MysqlServer, tmp_path: Path) -> None:
    """In a partition that nobody can name: which rows go with one later, is not known either."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    lists = "PARTITION BY LIST (n) (PARTITION p VALUES IN (2, 5, NULL), PARTITION q VALUES IN (0))"
    alter = "REORGANIZE PARTITION p INTO (PARTITION p VALUES IN (5))"
    server.run_sql(
        f"CREATE TABLE t (n INT) {lists}; INSERT INTO t VALUES (2), (5), (NULL); ALTER TABLE t {alter};"
        f"CREATE TABLE u (n INT) {lists}; ALTER TABLE u {alter}; INSERT INTO u VALUES (5), (0);"
        "ALTER TABLE u DROP PARTITION p",
        "shop",
    )
    assert server.run_sql("SELECT n FROM t", "shop").split() == ["n", "5", "NULL"]
    world.publish()
    waits = {one.table: one.behind or "" for one in world.update().mirrors}
    assert "no list has NULL any more" in waits["shop.t"]
    assert "no list has NULL any more" in waits["shop.u"]


def test_a_text_that_may_equal_another_one_in_a_new_list(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        "CREATE TABLE t (c CHAR(1)) PARTITION BY LIST COLUMNS (c) (PARTITION p VALUES IN ('a', 'b'));"
        "INSERT INTO t VALUES ('a'), ('b'); ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION p VALUES IN ('A'))",
        "shop",
    )
    world.publish()
    [waits] = world.update().mirrors
    assert "only the server knows which of the new values" in (waits.behind or "")


def test_an_exchange_with_a_table_without_a_mirror_is_read_again(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        "CREATE DATABASE IF NOT EXISTS beside; DROP TABLE IF EXISTS beside.x;"
        "CREATE TABLE beside.x (id INT PRIMARY KEY);"
        "CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 "
        "VALUES LESS THAN MAXVALUE); INSERT INTO t VALUES (1), (7); INSERT INTO beside.x VALUES (2);"
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE beside.x",
        "shop",
    )
    world.publish()
    [waits] = world.update().mirrors
    assert waits.needs_dump or waits.behind is None
    if waits.behind is None:
        world.assert_equal()


@pytest.mark.parametrize(
    "clause",
    [
        "RANGE COLUMNS (at) (PARTITION p0 VALUES LESS THAN ('2020-01-01 00:00:00+05:00'),"
        " PARTITION p1 VALUES LESS THAN (MAXVALUE))",
        "RANGE (TO_DAYS(at)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-01-01 00:00:00+05:00')),"
        " PARTITION p1 VALUES LESS THAN MAXVALUE)",
    ],
)
def test_a_bound_in_another_time_zone(server: MysqlServer, tmp_path: Path, clause: str) -> None:
    """The server converts it to the session's."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        f"SET time_zone = '+02:00'; CREATE TABLE t (at DATETIME PRIMARY KEY) PARTITION BY {clause};"
        "INSERT INTO t VALUES ('2019-12-30'), ('2019-12-31 20:30:00'), ('2019-12-31 21:30:00'), ('2020-01-02')",
        "shop",
    )
    world.publish()
    world.update()
    server.run_sql("ALTER TABLE t TRUNCATE PARTITION p0", "shop")
    world.publish()
    [waits] = [one for one in world.update().mirrors if one.behind]
    assert (waits.table, waits.needs_dump) == ("shop.t", True)
