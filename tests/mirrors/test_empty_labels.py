"""ENUM and SET keys that get a label '' by DDL: the error value 0, and no members, look like it, and stay other rows in
histories, whatever version wrote them."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.accepted import is_accepted
from tests.mirrors import history_check
from tests.mirrors.test_exact_keys import assert_exact, dump
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path

    import pymysql

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_MIRROR_LIVES", "3"))
ROUNDS, STEPS = 6, 8
TABLES = {
    "alone": ("ENUM('a', 'b') NOT NULL", "PRIMARY KEY (k)"),
    "pair": ("ENUM('a', 'b') NOT NULL", "PRIMARY KEY (n, k)"),
    "only": ("SET('a', 'b') NOT NULL", "UNIQUE KEY u (k)"),
    "filled": ("ENUM('b', 'a') NOT NULL", "UNIQUE KEY u (k)"),
}
LABELS = ("'a', 'b'", "'a', 'b', ''", "'a', 'b', '', 'c'")
"""Longer and longer: a row keeps its number."""


class _Life:
    def __init__(self, random: Random, connection: pymysql.Connection) -> None:
        self._random, self._connection = random, connection
        self._labels = dict.fromkeys(TABLES, 0)
        for table, (kind, key) in TABLES.items():
            self.run(f"CREATE TABLE {table} (k {kind}, n INT NOT NULL, v INT, {key})")

    def run(self, statement: str) -> bool:
        return is_accepted(self._connection, statement)

    def step(self) -> None:
        random, table = self._random, self._random.choice(list(TABLES))
        key, number = random.randrange(5), random.randrange(2)
        self.run(f"SET binlog_row_image = {random.choice(['FULL', 'MINIMAL'])}")
        self.run(
            random.choice(
                [
                    f"INSERT INTO {table} VALUES ({key}, {number}, 1)",
                    f"REPLACE INTO {table} VALUES ({key}, {number}, 2)",
                    f"UPDATE {table} SET v = v + 1 WHERE k + 0 = {key}",
                    f"UPDATE {table} SET v = v + 1 WHERE k + 0 = 0",
                    f"DELETE FROM {table} WHERE k + 0 = {key}",
                ]
            )
        )
        if random.random() < 0.2:
            # Of another key MINIMAL images leave out what else the row has.
            self.run("SET binlog_row_image = FULL")
            self.run(f"UPDATE {table} SET k = {key} WHERE k + 0 = {random.randrange(5)}")

    def alter(self) -> None:
        table = self._random.choice([one for one, at in self._labels.items() if at < len(LABELS) - 1] or list(TABLES))
        at = min(self._labels[table] + 1, len(LABELS) - 1)
        kind = TABLES[table][0].partition("(")[0]
        labels = LABELS[at] if table != "filled" else LABELS[at].replace("'a', 'b'", "'b', 'a'")
        self.run(f"INSERT INTO {table} VALUES (0, 0, 0)")
        assert self.run(f"ALTER TABLE {table} MODIFY k {kind}({labels}) NOT NULL")
        self.run(f"INSERT INTO {table} VALUES ({3 if kind == 'ENUM' else 4}, 0, 0)")
        self._labels[table] = at


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(LIVES))
def test_what_looks_alike_is_two_rows(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    world, random = MirrorWorld(server, tmp_path), Random(seed)
    seen: list[tuple[int, dict[str, Any]]] = []
    both = 0
    with server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''") as connection:
        life = _Life(random, connection)
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                life.step()
            life.run("INSERT INTO alone VALUES (0, 0, 0)")
            life.alter()
            for _ in range(STEPS):
                life.step()
            world.publish()
            report = world.update()
            assert [one for one in report.mirrors if one.error or one.behind] == []
            assert_exact(world, connection, *TABLES)
            found = {}
            with connection.cursor() as cursor:
                for table in TABLES:
                    cursor.execute(f"SELECT * FROM {table}")
                    found[table] = cursor.fetchall()
                    cursor.execute(f"SELECT COUNT(DISTINCT k + 0) = 2 FROM {table} WHERE CONCAT(k) = ''")
                    both += cursor.fetchone() == (1,)
            seen.append((max(one.position.seq for one in report.mirrors if one.position is not None), found))
            if random.random() < 0.2:
                dump(world, random.choice(list(TABLES)))
    assert both
    for table in TABLES:
        history = history_check.opened(world, table)
        for reader in (*history_check.READERS, history_check.by_duckdb_views):
            rows = reader(history)
            for seq, selected in seen:
                if seq >= history.begins_at.seq:
                    history_check.assert_valid(history, rows, seq, selected[table])


@pytest.mark.parametrize("taken", ["ENUM('a', 'b') NOT NULL", "ENUM('b', 'a') NOT NULL"])
def test_a_label_that_was_taken_from_a_key_and_given_again(server: MysqlServer, tmp_path: Path, taken: str) -> None:
    """The label and the error value 0 are two rows while there is the label, and afterwards there is no row of either:
    whatever is asked for, no row is taken for another."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    world = MirrorWorld(server, tmp_path)
    seen = []
    with server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''") as connection:
        life = _Life(Random(0), connection)
        created = "CREATE TABLE again (k ENUM('a', 'b', '') NOT NULL PRIMARY KEY, v INT)"
        for step in (
            (created, "INSERT INTO again VALUES (0, 1)"),
            ("INSERT INTO again VALUES (3, 2), (1, 1)", "DELETE FROM again WHERE k + 0 = 0"),
            ("DELETE FROM again WHERE k + 0 = 3", f"ALTER TABLE again MODIFY k {taken}"),
            ("ALTER TABLE again MODIFY k ENUM('a', 'b', '') NOT NULL", "INSERT INTO again VALUES (0, 3)"),
        ):
            assert all(map(life.run, step))
            world.publish()
            report = world.update()
            with connection.cursor() as cursor:
                cursor.execute("SELECT * FROM again")
                seen.append((max(one.position.seq for one in report.mirrors if one.position), cursor.fetchall()))
        assert_exact(world, connection, "again")
    history = history_check.opened(world, "again")
    for reader in (*history_check.READERS, history_check.by_duckdb_views):
        rows = reader(history)
        assert rows.num_rows == 4
        for seq, selected in seen:
            history_check.assert_valid(history, rows, seq, selected)
