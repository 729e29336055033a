"""Columns that become narrower outside strict mode: the server cuts values, and no event tells of it. What histories
and views from files give is what the mirror has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mirrors.test_exact_lives import check_histories, check_views
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

CHANGES = {
    "shorter": ("VARCHAR(20)", "VARCHAR(3)", "'ab    '"),
    "not_null": ("INT", "INT NOT NULL", "NULL"),
    "longer": ("VARCHAR(3)", "VARCHAR(20)", "'abc'"),
    "wider": ("INT", "BIGINT", "7"),
    "digits": ("INT", "DECIMAL(12, 2)", "7"),
    "labels": ("ENUM('a','b')", "TEXT", "'a'"),
    "added": ("VARCHAR(20) NOT NULL DEFAULT 'ab    '", "VARCHAR(3) NOT NULL DEFAULT 'x'", ""),
}
"""Types before and afterwards, and a value; without a value the column is added when there are rows."""


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> MirrorWorld:
    folder: Path = tmp_path_factory.mktemp("narrowed")
    server.run_sql("CREATE DATABASE shop")
    world = MirrorWorld(server, folder)
    for table, (before, _, value) in CHANGES.items():
        server.run_sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT{value and f', v {before}'})", "shop")
        rows = ", ".join(f"({number}, 1{value and f', {value}'})" for number in (1, 2, 3))
        server.run_sql(f"INSERT INTO {table} VALUES {rows}", "shop")
    world.publish()
    world.update()
    for table, (before, after, value) in CHANGES.items():
        if not value:
            server.run_sql(f"ALTER TABLE {table} ADD COLUMN v {before}", "shop")
        server.run_sql(f"SET SESSION sql_mode = ''; ALTER TABLE {table} MODIFY v {after}", "shop")
    world.publish()
    world.update()
    for table in CHANGES:
        server.run_sql(f"UPDATE {table} SET n = 2 WHERE id = 2", "shop")
    world.publish()
    world.update()
    world.assert_equal()
    return world


@pytest.mark.parametrize("table", CHANGES)
def test_what_is_shown_is_what_the_mirror_has(world: MirrorWorld, table: str) -> None:
    assert (check_histories(world, table), check_views(world, table)) == (2, 1)
