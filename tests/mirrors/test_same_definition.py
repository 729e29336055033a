"""Statements behind which a table is defined as before, and its rows are others: the server is asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mirrors.test_exact_lives import check_histories, check_views
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

ALTERS = {
    "made_again": "DROP COLUMN v, ADD COLUMN v INT AFTER n",
    "with_default": "DROP COLUMN n, ADD COLUMN n INT NOT NULL DEFAULT 7 AFTER id",
    "exchanged": "CHANGE v w INT, CHANGE w v INT AFTER n",
    "exchanged_names": "RENAME COLUMN v TO w, CHANGE COLUMN w v INT AFTER n",
}


def test_rows_behind_it_are_the_servers(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    for table, alter in ALTERS.items():
        columns = "id INT PRIMARY KEY, n INT NOT NULL DEFAULT 7, v INT, w INT"
        server.run_sql(f"CREATE TABLE {table} ({columns}); INSERT INTO {table} VALUES (1, 2, 3, 4)", "shop")
        world.publish()
        world.update()
        made = shown(server, table)
        server.run_sql(f"ALTER TABLE {table} {alter}", "shop")
        assert shown(server, table) == made
        server.run_sql(f"INSERT INTO {table} VALUES (2, 3, 4, 5)", "shop")
        world.publish()
        world.update()
        world.assert_equal()
        assert (table, check_histories(world, table), check_views(world, table)) == (table, 2, 1)


def shown(server: MysqlServer, table: str) -> str:
    with server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW CREATE TABLE {table}")
        return str(cursor.fetchone()[1])
