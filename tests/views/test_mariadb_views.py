"""System-versioned tables and sequences on a real MariaDB server: views of changes, views of mirrors, histories and
mirrors have the rows of SELECT, although the changes also have rows of the past."""

from __future__ import annotations

import os
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.errors import Usage
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.tables.convert import state_schema
from strata_cdc.tables.current_rows import NO_SEQUENCE_ROW
from strata_cdc.views.make_histories import make_histories
from strata_cdc.views.make_views import ViewKind, make_views
from tests.accepted import is_accepted
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.mirrors import history_check
from tests.mirrors.world import MirrorWorld, without_mirrors
from tests.quality.compare_rows import compare_rows
from tests.spark_session import spark
from tests.views.test_views import load_delta, of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pymysql

    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from tests.mysql_server import MysqlServer

    Read = Callable[[list[str]], Callable[[str], pa.Table]]

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_VIEW_LIVES", "1"))
ROUNDS, STEPS = (4, 40) if LIVES > 1 else (2, 60)
COLUMNS = "a INT NOT NULL DEFAULT 5, b TEXT, d DECIMAL(6, 2)"
TABLES = {
    "keyed": f"id INT PRIMARY KEY, {COLUMNS}) WITH SYSTEM VERSIONING",
    "pair": "id INT NOT NULL, a INT NOT NULL DEFAULT 5, b TEXT, d INT, UNIQUE KEY u (id, a)) WITH SYSTEM VERSIONING",
    "bag": f"id INT NOT NULL, {COLUMNS}) WITH SYSTEM VERSIONING",
    "period": f"id INT, {COLUMNS}, since TIMESTAMP(6) AS ROW START, `until` TIMESTAMP(6) AS ROW END INVISIBLE, "
    "PERIOD FOR SYSTEM_TIME (since, `until`), PRIMARY KEY (id)) WITH SYSTEM VERSIONING",
    "parted": f"id INT PRIMARY KEY, {COLUMNS}) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 5 PARTITIONS 3",
    "partly": "id INT PRIMARY KEY, a INT NOT NULL DEFAULT 5 WITHOUT SYSTEM VERSIONING, b TEXT, d DECIMAL(6, 2)) "
    "WITH SYSTEM VERSIONING",
    "plain": f"id INT PRIMARY KEY, {COLUMNS})",
    "loose": f"id INT NOT NULL, {COLUMNS})",
}
VERSIONED = ("pair", "period", "parted", "partly")
"""These stay so."""
SEQUENCES = ("q", "r")


class Life:
    """Statements on system-versioned tables, on tables that become ones and cease to be ones, and on sequences."""

    def __init__(self, random: Random, connection: pymysql.Connection, *, is_newest: bool) -> None:
        self._random, self._connection = random, connection
        self._images = ["FULL", "MINIMAL", "NOBLOB", *(["FULL_NODUP"] if is_newest else [])]
        self._altered = 0
        for name, columns in TABLES.items():
            assert self.run(f"CREATE TABLE {name} ({columns}")
        assert self.run("CREATE SEQUENCE q CACHE 3")
        assert self.run("CREATE SEQUENCE r START 7 INCREMENT 5 NOCACHE CYCLE MAXVALUE 60")
        assert self.run("SET system_versioning_alter_history = KEEP")

    def run(self, statement: str) -> bool:
        return is_accepted(self._connection, statement)

    def step(self) -> None:
        random = self._random
        self.run(f"SET binlog_row_image = {random.choice(self._images)}")
        kinds = [self._rows, self._replace, self._group, self._sequence, self._alter]
        random.choices(kinds, [18, 2, 4, 4, 2])[0]()

    def _rows(self) -> None:
        random, name = self._random, self._random.choice(list(TABLES))
        row, other, value = random.randint(1, 6), random.randint(1, 6), random.randint(1, 99)
        where = random.choice([f"id = {row}", f"id IN ({row}, {other})", f"a = {value % 7}"])
        limit = random.choice(["", " LIMIT 1"])
        self.run(
            random.choices(
                [
                    f"INSERT IGNORE INTO {name} (id, a, b) VALUES ({row}, {value % 7}, 'b{value}'), ({other}, 5, '')",
                    f"INSERT IGNORE INTO {name} (id, d) VALUES ({row}, {value})",
                    f"INSERT INTO {name} (id, a) VALUES ({row}, 1) ON DUPLICATE KEY UPDATE d = d + 1",
                    f"UPDATE IGNORE {name} SET a = {value % 7} WHERE {where}{limit}",
                    f"UPDATE IGNORE {name} SET b = REPEAT('x', {value}), d = NULL WHERE {where}{limit}",
                    f"UPDATE IGNORE {name} SET id = {other} WHERE {where}{limit}",
                    f"DELETE FROM {name} WHERE {where}{limit}",
                    f"DELETE HISTORY FROM {name}",
                ],
                [6, 2, 2, 4, 3, 3, 4, 1],
            )[0]
        )

    def _replace(self) -> None:
        """Other images lack what a REPLACE has set to a default: see `docs/mariadb.md`."""
        random, name = self._random, self._random.choice(list(TABLES))
        image = random.choice(["FULL", "MINIMAL"]) if name in VERSIONED else "FULL"
        if self.run(f"SET binlog_row_image = {image}"):
            self.run(f"REPLACE INTO {name} (id, a, d) VALUES ({random.randint(1, 6)}, {random.randint(0, 6)}, 1.5)")

    def _group(self) -> None:
        """Several statements in one transaction, some of which are undone."""
        self.run("BEGIN")
        for _ in range(self._random.randint(2, 4)):
            self._rows()
        if self._random.random() < 0.5:
            self.run("SAVEPOINT s")
            self._rows()
            self._sequence()
            self.run("ROLLBACK TO s")
        self.run(self._random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))

    def _sequence(self) -> None:
        random, name = self._random, self._random.choice(SEQUENCES)
        self.run(
            random.choice(
                [
                    f"SELECT NEXTVAL({name}), NEXTVAL({name}), NEXTVAL({name}), NEXTVAL({name})",
                    f"SELECT NEXTVAL({name})",
                    f"SELECT SETVAL({name}, {random.randint(1, 70)})",
                    f"SELECT SETVAL({name}, {random.randint(1, 70)}, 0)",
                    f"SELECT SETVAL({name}, 7, 1, {random.randint(1, 3)})",
                ]
            )
        )

    def _alter(self) -> None:
        self._altered += 1
        self.run(f"SET binlog_alter_two_phase = {self._random.randrange(2)}")
        random, name, sequence = self._random, self._random.choice(list(TABLES)), self._random.choice(SEQUENCES)
        self.run(
            random.choice(
                [
                    f"ALTER TABLE {name} ADD COLUMN n{self._altered} VARCHAR(9) NOT NULL DEFAULT 'new'",
                    f"ALTER TABLE {name} RENAME COLUMN b TO b2, RENAME COLUMN d TO b",
                    f"ALTER TABLE {name} MODIFY a BIGINT NOT NULL DEFAULT 5",
                    f"ALTER TABLE {name} MODIFY d DECIMAL(6, 1)",
                    f"ALTER TABLE {name} DROP COLUMN d",
                    f"ALTER TABLE {name} DROP PRIMARY KEY",
                    f"ALTER TABLE {name} ADD PRIMARY KEY (id)",
                    "ALTER TABLE parted DROP PARTITION p0",
                    "ALTER TABLE parted ADD PARTITION (PARTITION p9 HISTORY)",
                    f"ALTER TABLE {random.choice(['plain', 'loose'])} ADD SYSTEM VERSIONING",
                    f"ALTER TABLE {random.choice(['plain', 'loose', 'bag', 'keyed'])} DROP SYSTEM VERSIONING",
                    f"ALTER TABLE {sequence} COMMENT 'c{self._altered}'",
                    f"ALTER SEQUENCE {sequence} INCREMENT {random.randint(1, 9)}",
                    f"CREATE OR REPLACE SEQUENCE {sequence} CACHE 2",
                ]
            )
        )


class Judge:
    """What SELECT has, and what is compared with it."""

    def __init__(self, world: MirrorWorld, dialect: Dialect, tables: Sequence[str] = (*TABLES, *SEQUENCES)) -> None:
        self._world, self._dialect, self._tables = world, dialect, tables
        self._selected: dict[str, dict[int, Any]] = {}
        self.looked: dict[str, int] = {}
        self.histories = 0
        self.readable = 0
        self.versions = 0

    def look(self, read: Read, throughs: tuple[Through, ...]) -> None:
        """All tables whose mirrors follow have these rows in every form.

        Args:
            read: Creates views, and returns what gives their rows.
            throughs: How views of mirrors are read.
        """
        world = self._world
        report = world.update()
        assert [one for one in report.mirrors if one.error] == []
        behind = {one.table: one.behind for one in report.mirrors if one.behind}
        assert all(NO_SEQUENCE_ROW in why for why in behind.values()), behind
        names = [name for name in self._tables if f"shop.{name}" not in behind]
        definitions = {name: self._select(name) for name in names}
        rows = self._views(read, without_mirrors(world), Through.FILES)
        for name, (definition, selected) in definitions.items():
            # A table of which nothing was published has no view.
            viewed = rows(name)
            if viewed is not None or selected:
                self._compare(name, "view", definition, viewed, selected)
                self.looked[name] = self.looked.get(name, 0) + 1
        for through in throughs:
            rows = self._views(read, world.lake, through)
            for name, (definition, selected) in definitions.items():
                self._compare(name, f"mirror {through}", definition, rows(name), selected)
        self._histories(read, definitions)

    def _select(self, name: str) -> tuple[TableDefinition, Any]:
        mirror = self._world.mirror(name)
        assert mirror is not None
        columns = ", ".join(f"`{one.name}`" for one in mirror.definition.columns)
        with (
            self._world.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(f"SELECT {columns} FROM {name}")
            return mirror.definition, cursor.fetchall()

    def _views(self, read: Read, lake: str, through: Through) -> Callable[[str], pa.Table | None]:
        made = make_views(lake, "s", self._world.engine, self._dialect, through, self._is_judged)
        now = of_kind(made, ViewKind.NOW)
        rows = read([statement for one in made for statement in one.statements])
        return lambda name: rows(name) if name in now and now[name].statements else None

    def _is_judged(self, table: TableName) -> bool:
        return table.table in self._tables

    def _histories(self, read: Read, definitions: dict[str, tuple[TableDefinition, Any]]) -> None:
        made = make_histories(self._world.lake, "s", self._world.engine, self._dialect, Through.FILES, self._is_judged)
        rows = read([statement for one in made for statement in one.statements])
        for name, (_, selected) in definitions.items():
            history = history_check.opened(self._world, name)
            # A mirror that was made anew begins a new history.
            seen = {seq: then for seq, then in self._selected.get(name, {}).items() if seq >= history.begins_at.seq}
            self._selected[name] = seen | {history.reached.seq: selected}
            found = history_check.reported(history, lambda _, name=name: rows(f"{name}__history"))
            self.histories += 1
            if found is None:
                continue
            self.readable += 1
            history_check.assert_spans(found)
            self.versions += found.num_rows
            for seq, then in self._selected[name].items():
                history_check.assert_valid(history, found, seq, then)

    def _compare(self, name: str, what: str, definition: TableDefinition, rows: Any, selected: Any) -> None:
        assert rows is not None, (what, name)
        schema = state_schema(definition)
        state = TableState(definition, rows.rename_columns(schema.names).cast(schema))
        found = compare_rows(state, selected)
        assert (what, name, found.examples, found.equal) == (what, name, (), True)
        assert rows.num_rows == len(selected), (what, name)


@pytest.fixture(scope="module", params=VERSIONS_OF_LONG_TESTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param) as server:
        yield server


def live(
    world: MirrorWorld,
    judge: Judge,
    random: Random,
    read: Read,
    *throughs: Through,
    rounds: int = ROUNDS,
    steps: int = STEPS,
) -> None:
    """Random statements, and a look at the tables after each round."""
    world.server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    is_newest = "10.11" not in world.server.run_sql("SELECT VERSION()")
    with world.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
        life = Life(random, connection, is_newest=is_newest)
        for _ in range(rounds):
            for _ in range(steps):
                life.step()
            world.publish()
            judge.look(read, throughs)


def by_duckdb(connection: duckdb.DuckDBPyConnection) -> Read:
    connection.execute("SET TimeZone = 'UTC'")

    def read(statements: list[str]) -> Callable[[str], pa.Table]:
        for statement in statements:
            connection.execute(statement)
        return lambda name: pa.table(connection.execute(f"SELECT * FROM shop.{name}").arrow())

    return read


@pytest.mark.parametrize("seed", range(LIVES))
def test_duckdb(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    world = MirrorWorld(server, tmp_path)
    judge = Judge(world, Dialect.DUCKDB)
    with duckdb.connect() as connection:
        load_delta(connection)
        live(world, judge, Random(seed), by_duckdb(connection), *Through)
    assert all(judge.looked[name] >= ROUNDS // 2 for name in TABLES)
    assert all(judge.looked[name] for name in SEQUENCES)
    # The others have a row of a sequence whose MINIMAL images lack what ALTER SEQUENCE may have changed, or values that
    # the type of now does not have.
    assert judge.readable * 3 > judge.histories * 2
    assert judge.versions > judge.histories


ALTERED = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3); UPDATE t SET a = 9",
    "ALTER TABLE t ADD SYSTEM VERSIONING; UPDATE t SET a = 4 WHERE id = 1; DELETE FROM t WHERE id = 2",
    "INSERT INTO t (id, a) VALUES (2, 8); UPDATE t SET id = 5 WHERE id = 3; DELETE HISTORY FROM t",
    "ALTER TABLE t DROP SYSTEM VERSIONING; UPDATE t SET a = 7 WHERE id = 5; DELETE FROM t WHERE id = 2",
    "ALTER TABLE t ADD SYSTEM VERSIONING PARTITION BY SYSTEM_TIME LIMIT 1 PARTITIONS 4; UPDATE t SET a = 6",
    "UPDATE t SET a = 5; ALTER TABLE t DROP PARTITION p0; UPDATE t SET a = 4 WHERE id = 1",
    "SET binlog_alter_two_phase = 1; ALTER TABLE t REMOVE PARTITIONING; ALTER TABLE t DROP SYSTEM VERSIONING;"
    "SET timestamp = 1700000000.25; ALTER TABLE t ADD COLUMN since TIMESTAMP(6) AS ROW START,"
    "ADD COLUMN `until` TIMESTAMP(6) AS ROW END, ADD PERIOD FOR SYSTEM_TIME (since, `until`), ADD SYSTEM VERSIONING",
    "UPDATE t SET a = 3 WHERE id = 1",
)
"""A table that becomes system-versioned and an ordinary table again, in every way."""


@pytest.mark.soak
def test_versioning_is_added_and_dropped(server: MysqlServer, tmp_path: Path) -> None:
    """The rows that are there get the time of the statement, which the log has in microseconds."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    lives: list[tuple[int, tuple[Any, ...]]] = []
    with duckdb.connect() as connection:
        read = by_duckdb(connection)
        for statements in ALTERED:
            server.run_sql(statements, "shop")
            world.publish()
            report = world.update()
            assert [(one.behind, one.error) for one in report.mirrors] == [(None, None)]
            world.assert_equal()
            mirror = world.mirror("t")
            assert mirror is not None
            columns = ", ".join(one.name for one in mirror.definition.columns)
            with server.connect("shop", init_command="SET time_zone = '+00:00'") as select, select.cursor() as cursor:
                cursor.execute(f"SELECT {columns.replace('until', '`until`')} FROM t ORDER BY id")
                selected = cursor.fetchall()
            made = make_views(without_mirrors(world), "s", world.engine, Dialect.DUCKDB, Through.FILES)
            rows = read([statement for one in made for statement in one.statements])("t")
            found = [tuple(row.values()) for row in rows.sort_by("id").to_pylist()]
            assert [tuple(map(_without_zone, row)) for row in found] == list(selected)
            history = history_check.opened(world, "t")
            lives.append((history.reached.seq, selected))
            for reader in (*history_check.READERS, history_check.by_duckdb_views):
                versions = reader(history)
                for seq, then in lives:
                    history_check.assert_valid(history, versions, seq, then)


def _without_zone(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def test_lives_of_rows(server: MysqlServer, tmp_path: Path) -> None:
    """A version for each life of a row, and none for the rows of the past that the server writes beside it."""
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING; INSERT INTO t VALUES (1, 1), (2, 2);"
        "UPDATE t SET a = 5 WHERE id = 1; DELETE FROM t WHERE id = 1; DELETE HISTORY FROM t;"
        "REPLACE INTO t VALUES (2, 3); CREATE SEQUENCE s CACHE 2; SELECT NEXTVAL(s); SELECT SETVAL(s, 70)",
        "shop",
    )
    world.publish()
    world.update()
    versions = history_check.by_duckdb(history_check.opened(world, "t")).select(
        ["id", "a", "_valid_from_gtid", "_valid_to_gtid"]
    )
    assert sorted(map(repr, (tuple(row.values()) for row in versions.to_pylist()))) == [
        "(1, 1, '0-1-3', '0-1-4')",
        "(1, 5, '0-1-4', '0-1-5')",
        "(2, 2, '0-1-3', '0-1-7')",
        "(2, 3, '0-1-7', None)",
    ]
    row = history_check.by_duckdb(history_check.opened(world, "s")).sort_by("_valid_from_seq")
    assert row["next_not_cached_value"].to_pylist() == [3, 71]
    assert row["_valid_to_gtid"].to_pylist() == [row["_valid_from_gtid"][1].as_py(), None]


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("server", ["11.8"], indirect=True)
def test_spark(server: MysqlServer, tmp_path: Path, spark: Any) -> None:
    world = MirrorWorld(server, tmp_path)
    # Of the tables, those that differ for Spark: a query takes a second or two of processor time.
    tables = ("pair", "bag", "partly", "plain", "q") if LIVES == 1 else (*TABLES, *SEQUENCES)
    judge = Judge(world, Dialect.SPARK, tables)

    def read(statements: list[str]) -> Callable[[str], pa.Table]:
        for statement in statements:
            spark.sql(statement)
        return rows

    def rows(name: str) -> pa.Table:
        try:
            return spark.sql(f"SELECT * FROM shop__{name}").toArrow()
        except PySparkException as error:
            raise Usage(str(error)) from error

    live(world, judge, Random(LIVES), read, Through.FILES, rounds=1, steps=80)
    assert all(judge.looked[name] for name in tables if name in TABLES)
