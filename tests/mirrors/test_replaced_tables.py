"""Tables that MariaDB makes from others, where the log says less than of a plain CREATE TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.mirrors.history_check import assert_valid, by_duckdb, by_duckdb_views, opened, reported
from tests.mirrors.world import MirrorWorld, assert_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mariadb_server import MariadbServer

pytestmark = pytest.mark.mysql

LIKE_A_TABLE = """
CREATE TABLE model (id INT PRIMARY KEY, v INT);
CREATE TABLE made LIKE model;
CREATE OR REPLACE TABLE made LIKE model;
INSERT INTO made VALUES (1, 2);
ALTER TABLE made ADD w INT DEFAULT 3;
UPDATE made SET v = 4;
"""
"""The event of the third statement has the flag of statements that use temporary tables."""

LIKE_A_TEMPORARY_TABLE = """
CREATE TEMPORARY TABLE model (id INT);
CREATE TABLE made LIKE model;
INSERT INTO made VALUES (1), (2);
DELETE FROM made WHERE id = 1;
"""
"""The log has the table without its charset, which a snapshot adds at the same transaction."""


@pytest.mark.parametrize("statements", [LIKE_A_TABLE, LIKE_A_TEMPORARY_TABLE])
def test_it_is_known_from_its_first_row(mariadb_server: MariadbServer, tmp_path: Path, statements: str) -> None:
    mariadb_server.run_sql("RESET MASTER; DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    mariadb_server.run_sql(statements, "shop")
    world = MirrorWorld(mariadb_server, tmp_path)
    world.snapshot()
    world.publish()
    assert [one.error or one.behind for one in world.update().mirrors] in ([None], [None, None])
    with mariadb_server.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM made")
        selected = cursor.fetchall()
    assert_rows(world.mirror("made"), selected)
    history = opened(world, "made")
    for reader in (by_duckdb, by_duckdb_views):
        assert_valid(history, reported(history, reader), 2**62, selected)
