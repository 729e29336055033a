"""Keys that get other types or other columns on a real server, or that are dropped, so that rows which were never there
together may have equal keys, and rows may be equal: views without mirrors and histories have the rows of SELECT
wherever the mirror has them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.tables.convert import state_schema
from strata_cdc.views.make_views import ViewKind, make_views
from tests.accepted import is_accepted
from tests.mirrors import history_check
from tests.mirrors.world import MirrorWorld, without_mirrors
from tests.quality.compare_rows import compare_rows
from tests.spark_session import spark
from tests.views.test_views import of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pymysql

    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_VIEW_LIVES", "1"))
TABLES, ROUNDS, STEPS, ALTERS = 6, 2, 8, 2
LEAST = 4
"""Looks at tables whose key was converted while the mirror followed, in a lifetime of two rounds."""
KEYS = (
    (
        ("DECIMAL(6, 2)", "DECIMAL(6, 1)", "DECIMAL(5, 0)", "SMALLINT", "VARCHAR(9)", "DOUBLE", "INT"),
        ("1", "1.04", "1.26", "0.96", "-3.5", "12"),
    ),
    (
        ("VARCHAR(9)", "CHAR(5)", "VARBINARY(9)", "VARCHAR(4)", "VARCHAR(9) CHARACTER SET latin1", "VARCHAR(12)",
         "ENUM('a', 'ab', '')", "VARCHAR(9) CHARACTER SET cp932"),
        ("'a'", "'a '", "'b  '", "'ab'", "'A'", "'ö'", "'ж'"),
    ),
    (
        ("ENUM('p', 'q', '')", "ENUM('p', 'q')", "ENUM('q', 'p', '')", "ENUM('q', '', 'p', 'p')", "VARCHAR(5)",
         "ENUM('q', 'p')", "SET('p', 'q', '')", "TINYINT"),
        ("0", "1", "2", "3", "4", "'p'", "''"),
    ),
    (
        ("SET('x', 'y', '')", "SET('x', 'y')", "SET('x', '', 'y')", "SET('y', 'x')", "SET('x', 'x', 'y')",
         "VARCHAR(9)"),
        ("0", "1", "2", "3", "4", "'x'"),
    ),
    (
        ("DATETIME(3)", "DATETIME", "DATETIME(6)", "DATE", "VARCHAR(30)"),
        ("'2024-01-01 10:00:00.4'", "'2024-01-01 10:00:00'", "0", "'0000-00-00'", "'2024-02-30'", "'2024-02-29'"),
    ),
    (
        ("INT", "SMALLINT", "TINYINT", "VARCHAR(2)", "BIGINT UNSIGNED", "VARCHAR(20)", "DECIMAL(3, 0)", "BIGINT"),
        ("1", "2", "300", "-5", "70000", "12"),
    ),
)  # fmt: skip
"""Types that a key gets one after the other, in any order, and values that some of them make equal. An ALTER succeeds
if the rows that are there then keep different keys."""


MOVING = (1, 4)
"""Tables whose keys get other columns most of the time."""
MOVED = ("PRIMARY KEY (k)", "PRIMARY KEY (n, k)", "PRIMARY KEY (n)", "UNIQUE KEY u (k)", "UNIQUE KEY u (n, k)", "")
"""Keys that a table gets instead of another, or none."""


class Life:
    """Statements on tables with a column `k`, most of the time in their key."""

    def __init__(self, random: Random, connection: pymysql.Connection) -> None:
        self._random, self._connection = random, connection
        self._kinds = [KEYS[at % len(KEYS)] for at in range(TABLES)]
        self._keys = [
            random.choice(["PRIMARY KEY (k)", "PRIMARY KEY (n, k)", "UNIQUE KEY u (k)", ""]) for _ in self._kinds
        ]
        self.converted: set[str] = set()
        self.moved: set[str] = set()
        for at, (kinds, _) in enumerate(self._kinds):
            columns = f"k {random.choice(kinds[:2])} NOT NULL, n INT NOT NULL, v TEXT, w INT, d DOUBLE"
            key = self._keys[at] and f", {self._keys[at]}"
            # All of these charsets have the same texts for the values above.
            self.run(f"CREATE TABLE t{at} ({columns}{key}) COLLATE utf8mb4_bin")

    def run(self, statement: str) -> bool:
        return is_accepted(self._connection, statement)

    def rows(self, at: int) -> None:
        random = self._random
        key, other = (random.choice(self._kinds[at][1]) for _ in range(2))
        number, value = random.randrange(2), random.randrange(100)
        self.run(f"SET binlog_row_image = {random.choice(['FULL', 'MINIMAL', 'NOBLOB'])}")
        where = random.choice([f"k = {key}", f"k = {key} AND n = {number}", f"k + 0 = {random.randrange(5)}", "1"])
        limit = random.choice(["", " LIMIT 1"])
        self.run(
            random.choices(
                [
                    f"INSERT INTO t{at} (k, n, v) VALUES ({key}, {number}, '{value}')",
                    f"INSERT INTO t{at} (k, n, d) VALUES ({key}, {number}, 0e0), ({key}, {number} + 1, -0e0)",
                    f"REPLACE INTO t{at} (k, n) VALUES ({key}, {number})",
                    f"UPDATE IGNORE t{at} SET v = {value} WHERE {where}{limit}",
                    f"UPDATE IGNORE t{at} SET k = {other} WHERE {where}{limit}",
                    f"UPDATE IGNORE t{at} SET n = n + 1 WHERE {where}{limit}",
                    f"DELETE FROM t{at} WHERE {where}{limit}",
                ],
                [5, 1, 2, 3, 3, 2, 4],
            )[0]
        )

    def alter(self, at: int) -> None:
        random = self._random
        kind = random.choice(self._kinds[at][0])
        if random.random() < 0.4:
            self.run(f"DELETE FROM t{at} WHERE {random.choice(['1', 'k + 0 IN (0, 3, 4)', 'n = 0'])}")
        # Mirrors do not follow most values that the server cuts or replaces.
        self.run(f"SET sql_mode = '{random.choice(['', 'STRICT_ALL_TABLES', 'STRICT_ALL_TABLES'])}'")
        what = random.choices(["type", "key", "both", "column"], [1, 5, 2, 1] if at in MOVING else [5, 3, 2, 1])[0]
        if what in {"type", "both"} and self.run(f"ALTER TABLE t{at} MODIFY k {kind} NOT NULL"):
            self.converted.add(f"t{at}")
        if what in {"key", "both"}:
            self._move(at)
        if what == "column":
            self.run(f"ALTER TABLE t{at} DROP COLUMN w, ADD COLUMN w {random.choice(['INT DEFAULT 7', 'CHAR(3)'])}")
        self.run("SET sql_mode = ''")

    def _move(self, at: int) -> None:
        """Other columns become the key, or none; the server refuses it if rows would be equal."""
        key, former = self._random.choice(MOVED), self._keys[at]
        drops = {"P": ["DROP PRIMARY KEY"], "U": ["DROP KEY u"]}.get(former[:1], [])
        clauses = [*drops, *([f"ADD {key}"] if key else [])]
        if key != former and self.run(f"ALTER TABLE t{at} {', '.join(clauses)}"):
            self._keys[at] = key
            self.moved.add(f"t{at}")


class Judge:
    """What SELECT has, and what is compared with it."""

    def __init__(self, world: MirrorWorld, dialect: Dialect) -> None:
        self._world, self._dialect = world, dialect
        self._selected: dict[str, dict[int, Any]] = {}
        self.looked = 0
        self.moved = 0
        self.histories = 0
        self.readable = 0

    def look(self, read: Callable[[list[str]], Callable[[str], pa.Table]], life: Life) -> None:
        """All tables whose mirrors follow.

        Args:
            read: Creates views, and returns what gives their rows.
            life: The statements until now.
        """
        world = self._world
        report = world.update()
        behind = {one.table for one in report.mirrors if one.behind or one.error}
        names = [f"t{at}" for at in range(TABLES) if f"shop.t{at}" not in behind]
        made = make_views(without_mirrors(world), "s", world.engine, self._dialect, Through.FILES)
        now = of_kind(made, ViewKind.NOW)
        rows = read([statement for one in made for statement in one.statements])
        for name in [name for name in names if name in now]:
            mirror = world.mirror(name)
            assert mirror is not None
            with world.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
                cursor = connection.cursor()
                cursor.execute(f"SELECT {', '.join(one.name for one in mirror.definition.columns)} FROM {name}")
                selected = cursor.fetchall()
            assert now[name].statements, (name, now[name].notes)
            schema = state_schema(mirror.definition)
            found = rows(name).rename_columns(schema.names).cast(schema)
            compared = compare_rows(TableState(mirror.definition, found), selected)
            assert (name, compared.examples, compared.equal) == (name, (), True), now[name].statements[-1]
            assert found.num_rows == len(selected), name
            self.looked += name in life.converted
            self.moved += name in life.moved
            self._history(name, selected)

    def _history(self, name: str, selected: Any) -> None:
        history = history_check.opened(self._world, name)
        self._selected.setdefault(name, {})[history.reached.seq] = selected
        found = history_check.reported(history, history_check.by_duckdb)
        self.histories += 1
        if found is None:
            return
        self.readable += 1
        for seq, then in self._selected[name].items():
            if seq >= history.begins_at.seq:
                history_check.assert_valid(history, found, seq, then)


def live(world: MirrorWorld, judge: Judge, random: Random, read: Any, rounds: int = ROUNDS) -> None:
    """Random statements, and a look at the tables after each round."""
    world.server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    world.server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    with world.server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''") as connection:
        life = Life(random, connection)
        for _ in range(rounds):
            for at in range(TABLES):
                for _ in range(random.randint(1, ALTERS)):
                    for _ in range(STEPS):
                        life.rows(at)
                    life.alter(at)
                for _ in range(STEPS // 2):
                    life.rows(at)
            world.publish()
            judge.look(read, life)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(LIVES))
def test_duckdb(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    world = MirrorWorld(server, tmp_path)
    judge = Judge(world, Dialect.DUCKDB)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def read(statements: list[str]) -> Callable[[str], pa.Table]:
            for statement in statements:
                connection.execute(statement)
            return lambda name: pa.table(connection.execute(f"SELECT * FROM shop.{name}").arrow())

        live(world, judge, Random(seed), read)
    assert (judge.looked >= LEAST, judge.moved > 0) == (True, True)
    # The others had values that the type of now does not have.
    assert judge.readable * 3 > judge.histories


HISTORIES = {
    "labels": (
        "CREATE TABLE labels (k ENUM('p', 'q', '') NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO labels VALUES (0, 1), (1, 2), (2, 3), (3, 4)",
        "DELETE FROM labels WHERE k + 0 IN (0, 3)",
        "ALTER TABLE labels MODIFY k ENUM('q', 'p') NOT NULL",
        "UPDATE labels SET v = 5 WHERE k = 'q'",
        "ALTER TABLE labels MODIFY k ENUM('q', 'z', '', 'p') NOT NULL",
        "INSERT INTO labels VALUES (0, 6), (3, 7)",
    ),
    "members": (
        "CREATE TABLE members (k SET('x', 'y', '') NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO members VALUES (0, 1), (1, 2), (4, 3)",
        "DELETE FROM members WHERE k + 0 = 0",
        "ALTER TABLE members MODIFY k SET('x', 'y') NOT NULL",
        "UPDATE members SET v = 5 WHERE k = ''",
        "DELETE FROM members WHERE k = 'x'",
    ),
    "cut": (
        "CREATE TABLE cut (k VARCHAR(9) NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO cut VALUES ('a', 1), ('abcd ', 2), ('abcd', 3)",
        "DELETE FROM cut WHERE v = 2",
        "ALTER TABLE cut MODIFY k VARCHAR(4) NOT NULL",
        "UPDATE cut SET v = 4",
        "INSERT INTO cut VALUES ('b', 5)",
    ),
    "rounded": (
        "CREATE TABLE rounded (k DECIMAL(6, 1) NOT NULL, v INT)",
        "INSERT INTO rounded VALUES (1.3, 1), (2.6, 2)",
        "ALTER TABLE rounded MODIFY k DECIMAL(5, 0) NOT NULL",
        "UPDATE rounded SET v = 3 WHERE k = 1",
        "ALTER TABLE rounded MODIFY k VARCHAR(9) NOT NULL",
        "ALTER TABLE rounded ADD PRIMARY KEY (k)",
        "UPDATE rounded SET k = 'a' WHERE v = 2",
    ),
    "moments": (
        "CREATE TABLE moments (k DATETIME NOT NULL PRIMARY KEY, v INT)",
        "INSERT INTO moments VALUES (0, 1), ('2024-00-15', 2), ('2024-02-29', 3)",
        "UPDATE moments SET v = 7 WHERE v = 3",
        "ALTER TABLE moments MODIFY k DATETIME(6) NOT NULL",
        "UPDATE moments SET v = v + 10",
        "DELETE FROM moments WHERE v = 12",
    ),
}
"""Tables whose histories have every version, whatever became of their keys."""


@contextmanager
def views_without_mirrors(server: MysqlServer, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the views of all that the server has logged."""
    world = MirrorWorld(server, folder)
    world.publish()
    made = make_views(without_mirrors(world), "s", world.engine, Dialect.DUCKDB, Through.FILES)
    with duckdb.connect() as connection:
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        yield connection


def test_keys_of_rows_that_are_gone(server: MysqlServer, tmp_path: Path) -> None:
    """Their keys would have no room in the new type, or are no texts of the new charset."""
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;"
        "DROP DATABASE shop; CREATE DATABASE shop; USE shop;"
        "CREATE TABLE t0 (k INT PRIMARY KEY); CREATE TABLE t1 (k INT PRIMARY KEY);"
        "CREATE TABLE t2 (k VARCHAR(9) PRIMARY KEY); CREATE TABLE t3 (k DECIMAL(5, 1) PRIMARY KEY);"
        "INSERT INTO t0 VALUES (1), (300); INSERT INTO t1 VALUES (1), (300); INSERT INTO t2 VALUES ('a'), ('ж');"
        "INSERT INTO t3 VALUES (1), (3000); DELETE FROM t0 WHERE k > 1; DELETE FROM t1 WHERE k > 1;"
        "DELETE FROM t2 WHERE k > 'b'; DELETE FROM t3 WHERE k > 1;"
        "ALTER TABLE t0 MODIFY k TINYINT; ALTER TABLE t1 MODIFY k VARCHAR(2);"
        "ALTER TABLE t2 MODIFY k VARCHAR(9) CHARACTER SET latin1; ALTER TABLE t3 MODIFY k DECIMAL(5, 2);"
    )
    with views_without_mirrors(server, tmp_path) as connection:
        found = [connection.execute(f"SELECT k FROM shop.t{at}").fetchall() for at in range(4)]
    assert found == [[(1,)], [("1",)], [("a",)], [(1,)]]


def test_only_what_is_asked_for_is_an_error(server: MysqlServer, tmp_path: Path) -> None:
    """Also of a table whose key has stages."""
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;"
        "DROP DATABASE shop; CREATE DATABASE shop; USE shop;"
        "CREATE TABLE t (k DECIMAL(6, 2) PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2);"
        "ALTER TABLE t MODIFY k DECIMAL(6, 1), ADD made DATETIME DEFAULT CURRENT_TIMESTAMP;"
        "SET binlog_row_image = MINIMAL; UPDATE t SET k = 3 WHERE k = 2;"
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (n), MODIFY k DECIMAL(6, 0)"
    )
    with views_without_mirrors(server, tmp_path) as connection:
        assert connection.execute("SELECT n, k FROM shop.t ORDER BY n").fetchall() == [(1, 1), (2, 3)]
        with pytest.raises(duckdb.InvalidInputException, match="which values existing rows got in the new column made"):
            connection.execute("SELECT made FROM shop.t").fetchall()


def test_equal_rows_that_are_older_than_the_log(server: MysqlServer, tmp_path: Path) -> None:
    """Those are there that must be: how many equal rows there were before, no log tells."""
    server.run_sql(
        "DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; USE shop; CREATE TABLE t (a INT, b INT);"
        "INSERT INTO t VALUES (1, 1), (1, 1), (1, 2), (2, 1); RESET BINARY LOGS AND GTIDS"
    )
    world = MirrorWorld(server, tmp_path)
    world.snapshot()
    server.run_sql(
        "DELETE FROM t WHERE b = 1 LIMIT 1; INSERT INTO t VALUES (1, 1), (1, 1); DELETE FROM t WHERE a = 1 AND b = 2;"
        "INSERT INTO t VALUES (1, 3), (4, 4); ALTER TABLE t DROP COLUMN b; DELETE FROM t WHERE a = 4;"
        "INSERT INTO t VALUES (2)",
        "shop",
    )
    world.publish()
    made = make_views(without_mirrors(world), "s", world.engine, Dialect.DUCKDB, Through.FILES)
    with duckdb.connect() as connection:
        for statement in [statement for one in made for statement in one.statements]:
            connection.execute(statement)
        assert connection.execute("SELECT a FROM shop.t ORDER BY a").fetchall() == [(1,), (1,), (1,), (2,)]


def test_histories(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop; RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    world = MirrorWorld(server, tmp_path)
    seen: dict[str, list[tuple[int, Any]]] = {name: [] for name in HISTORIES}
    with (
        server.connect("shop", init_command="SET sql_mode = '', time_zone = '+00:00'") as connection,
        connection.cursor() as cursor,
    ):
        for at in range(max(map(len, HISTORIES.values()))):
            for statements in HISTORIES.values():
                if at < len(statements):
                    cursor.execute(statements[at])
            world.publish()
            report = world.update()
            assert [one for one in report.mirrors if one.behind or one.error] == []
            reached = max(one.position.seq for one in report.mirrors if one.position is not None)
            for name, rows in seen.items():
                cursor.execute(f"SELECT * FROM {name}")
                rows.append((reached, cursor.fetchall()))
    for name, rows in seen.items():
        history = history_check.opened(world, name)
        assert history.key == (() if name == "rounded" else ("k",))
        for reader in (*history_check.READERS, history_check.by_duckdb_views):
            found = reader(history)
            for seq, selected in rows:
                history_check.assert_valid(history, found, seq, selected)


@pytest.mark.soak
@pytest.mark.spark
def test_spark(server: MysqlServer, tmp_path: Path, spark: Any) -> None:
    world = MirrorWorld(server, tmp_path)
    judge = Judge(world, Dialect.SPARK)

    def read(statements: list[str]) -> Callable[[str], pa.Table]:
        for statement in statements:
            spark.sql(statement)
        return lambda name: spark.sql(f"SELECT * FROM shop__{name}").toArrow()

    # A query takes Spark half a second of processor time.
    live(world, judge, Random(LIVES), read, rounds=1)
    assert (judge.looked >= LEAST // 2, judge.moved > 0) == (True, True)
    # The others had values that the type of now does not have.
    assert judge.readable * 3 > judge.histories
