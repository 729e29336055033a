"""Random lives on a real server: at every position where it stops, each mirror has the rows of SELECT."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pymysql
import pytest

from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import Renames
from strata_cdc.mirrors.table import Mirror
from strata_cdc.schema.model.definition import TableName
from tests.mirrors import history_check
from tests.mirrors.random_life import TABLES, RandomLife
from tests.mirrors.world import MirrorWorld, assert_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "1"))
ROUNDS, STEPS = 6, 25


@pytest.mark.parametrize("seed", range(LIVES))
def test_mirrors_equal_select_at_random_positions(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;")
    server.run_sql("RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    mode = list(Mode)[seed % 2]
    renames = list(Renames)
    world = MirrorWorld(
        server, tmp_path, mode=mode, renames=lambda table: renames[(seed + crc32(table.table.encode())) % len(renames)]
    )
    random = Random(seed)
    life = RandomLife(random)
    seen: list[tuple[int, dict[str, Any]]] = []
    with server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
        run(connection, life.begin())
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                run(connection, life.step())
            world.publish()
            # Intervals may wait, so that a batch reaches over several of them.
            if random.random() < 0.7:
                report = world.update()
                assert [one for one in report.mirrors if one.error or one.behind] == []
                world.assert_equal()
                seen.append((reached(report), rows_of(connection)))
    world.update()
    world.assert_equal()
    for seq, rows in seen:
        for table, selected in rows.items():
            mirror = Mirror.open(world.lake, "s", TableName("shop", table), lambda at, seq=seq: at.seq <= seq)
            assert mirror is not None
            assert_rows(mirror, selected)
    checked = [check_history(world, table, seen) for table in TABLES]
    assert sum(checked) > len(seen)


def check_history(world: MirrorWorld, table: str, seen: list[tuple[int, dict[str, Any]]]) -> int:
    """At every position that it reaches the history has the rows of SELECT. Gives how many those are."""
    history = history_check.opened(world, table)
    positions = [(seq, rows[table]) for seq, rows in seen if seq >= history.begins_at.seq]
    count = 0
    for reader in history_check.READERS:
        found = history_check.reported(history, reader)
        if found is not None:
            history_check.assert_spans(found)
            for seq, selected in positions:
                history_check.assert_valid(history, found, seq, selected)
                count += 1
    return count


def run(connection: pymysql.Connection, statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                if "XA" in statement and "1399" in str(error):
                    raise


def reached(report: Any) -> int:
    return max(one.position.seq for one in report.mirrors if one.position is not None)


def rows_of(connection: pymysql.Connection) -> dict[str, Any]:
    found = {}
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table}")
            found[table] = cursor.fetchall()
    return found
