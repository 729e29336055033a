"""Columns that an INSERT left to their defaults, in images that do not have them (binlog_row_image=MINIMAL)."""

from __future__ import annotations

import pytest

from tests.mirrors.world import MirrorWorld
from tests.mysql_server import start_server

pytestmark = pytest.mark.mysql


def test_what_an_insert_left_out_has_its_default(tmp_path):
    with start_server(tmp_path / "server") as server:
        server.run_sql("CREATE DATABASE shop")
        world = MirrorWorld(server, tmp_path)
        server.run_sql(
            "SET SESSION binlog_row_image = MINIMAL;"
            "CREATE TABLE k (id INT PRIMARY KEY, a INT DEFAULT 5, b VARCHAR(9) NOT NULL DEFAULT 'x', "
            "c TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3), d INT DEFAULT (1 + 1), e ENUM('p','q') NOT NULL, "
            "f DECIMAL(5,2) DEFAULT '1.50', g DATETIME DEFAULT '2020-02-03 04:05:06', h INT AS (a + 1), n INT);"
            "INSERT INTO k (id, e) VALUES (1, 'q'); INSERT INTO k (id, a, e) VALUES (2, NULL, 'p');"
            "UPDATE k SET n = 3 WHERE id = 1;"
            "CREATE TABLE n (a INT DEFAULT 7, b INT); INSERT INTO n (b) VALUES (1), (2); DELETE FROM n WHERE b = 2",
            "shop",
        )
        world.publish()
        world.update()
        world.assert_equal()
