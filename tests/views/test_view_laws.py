"""Random DDL, images and types on a real server: views of changes, views of mirrors, histories and mirrors have the
rows of SELECT, and change tables agree with themselves."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from strata_cdc.dialects.engines import Dialect
from strata_cdc.dialects.relations import Through
from strata_cdc.quality.proof.replay import TableState
from strata_cdc.quality.reconcile.reading import ComparisonRequest
from strata_cdc.quality.reconcile.verify_changes import verify_changes
from strata_cdc.tables.convert import state_schema
from strata_cdc.views.make_views import make_views
from tests.mirrors import history_check
from tests.mirrors.test_random_lives import run
from tests.mirrors.world import MirrorWorld, without_mirrors
from tests.quality.compare_rows import compare_rows
from tests.spark_session import spark
from tests.views.added_columns import ADDED
from tests.views.test_views import ViewKind, load_delta, of_kind

if TYPE_CHECKING:
    from pathlib import Path

    from strata_cdc.schema.model.definition import TableDefinition
    from tests.mysql_server import MysqlServer

__all__ = ["spark"]

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

LIVES = int(os.environ.get("STRATA_VIEW_LIVES", "1"))
ROUNDS, STEPS = 2, 20
VALUES = {
    "TINYINT": "-5", "SMALLINT UNSIGNED": "65535", "MEDIUMINT": "70000", "INT": "7",
    "BIGINT UNSIGNED": "18446744073709551615", "DECIMAL(9, 3)": "-1.250", "FLOAT": "0.5", "DOUBLE": "1.5e200",
    "INT UNSIGNED": "12", "BIGINT": "-70000", "VARCHAR(12)": "'12'", "VARCHAR(30)": "'it''s'",
    "DECIMAL(7, 1)": "-1.3", "DATETIME(3)": "'1999-12-31 23:59:59.5'", "DECIMAL(20, 2)": "5",
    "ENUM('b', 'more', 'first')": "'b'",
    "DECIMAL(45, 10)": "12345678901234567890123456789012345.5", "BIT(1)": "1", "BIT(9)": "257",
    "DATE": "'2024-02-29'", "TIME": "'-10:00:01'", "TIME(3)": "'11:00:00.125'", "DATETIME": "'2024-01-01 10:00:00'",
    "DATETIME(6)": "'1999-12-31 23:59:59.999999'", "YEAR": "1999", "TIMESTAMP": "'2024-01-01 10:00:00'",
    "CHAR(5)": "'c'", "VARCHAR(9)": "'it''s'", "TEXT": "'long'", "BLOB": "0x00ff", "BINARY(3)": "0x61",
    "VARBINARY(5)": "0x0061", "ENUM('a', '', 'b', 'b')": "4", "ENUM('', 'b')": "0", "SET('x', '', 'x')": "4",
    "SET('x', 'y', '')": "4", "ENUM('first', 'b')": "'b'", "SET('x', 'y')": "'x,y'", "JSON": "'{\"a\": 1}'",
    "POINT": "ST_GeomFromText('POINT(1 2)')",
}  # fmt: skip
LABELLED_TWICE = ("ENUM('a', '', 'b', 'b')", "ENUM('', 'b')", "SET('x', '', 'x')", "SET('x', 'y', '')")
"""Their values are numbers here."""
NO_DEFAULT = ("TEXT", "BLOB", "JSON", "POINT", "TIMESTAMP", *LABELLED_TWICE)
"""They have none, or one that depends on a session or is not the value here."""
KEYS = {
    "k1": ("a INT NOT NULL DEFAULT 5, b VARCHAR(5) NOT NULL DEFAULT 'b', PRIMARY KEY (a, b)", ("a", "b")),
    "k2": ("a BIGINT NOT NULL DEFAULT -1 PRIMARY KEY", ("a",)),
    "k3": ("a SMALLINT NOT NULL, b ENUM('p', 'q') NOT NULL DEFAULT 'q', UNIQUE KEY (b, a)", ("a", "b")),
    "k4": ("a INT", ()),
}
KEY_VALUES = {"a": ("1", "5", "-1"), "b": ("'p'", "'q'", "'b'")}
LEFT_OUT = (
    "CREATE TABLE left_out (a INT NOT NULL DEFAULT 5 PRIMARY KEY, n INT NOT NULL,"
    " b BINARY(2) NOT NULL DEFAULT 'b', v VARBINARY(2) NOT NULL DEFAULT 0xff61)",
    "SET SESSION binlog_row_image = MINIMAL",
    "INSERT INTO left_out () VALUES ()",
    "UPDATE left_out SET n = 1 WHERE a = 5",
    "DELETE FROM left_out WHERE a = 5",
    "INSERT INTO left_out (n) VALUES (2)",
    "UPDATE left_out SET n = 3 WHERE a = 5",
)
"""A key that is left to its default, and its row."""
ALWAYS = ("added", "left_out", "changed")
"""Tables whose mirrors follow whatever is drawn."""
CHANGED = (
    "SET SESSION binlog_row_image = FULL",
    "CREATE TABLE changed (a INT NOT NULL PRIMARY KEY, n INT, m SMALLINT NOT NULL DEFAULT 3, d DECIMAL(9, 3), t TEXT)",
    "INSERT INTO changed VALUES (1, 7, 1, 1.005, 'kept'), (2, -5, 2, -2.555, NULL), (3, 999999, 3, 0, 'x')",
    "SET SESSION binlog_row_image = MINIMAL",
    "UPDATE changed SET a = 20 WHERE a = 2",
    "ALTER TABLE changed MODIFY n VARCHAR(20), MODIFY d DECIMAL(5, 1), MODIFY m BIGINT NOT NULL",
    "UPDATE changed SET a = 21, t = 'moved' WHERE a = 20",
    "INSERT INTO changed (a, n) VALUES (2, 'new'), (5, '12')",
    "UPDATE changed SET a = a + 100 ORDER BY a DESC",
    "ALTER TABLE changed MODIFY m VARCHAR(9), MODIFY a BIGINT NOT NULL AUTO_INCREMENT, MODIFY d INT",
    "UPDATE changed SET a = 1 WHERE a = 102",
    "DELETE FROM changed WHERE a = 103",
    "UPDATE changed SET d = 9 WHERE a = 121",
    "SET SESSION binlog_row_image = FULL",
)
"""Keys that change under images that lack the rest of the row, several times, before and after other types."""
WIDER = {"TINYINT": "INT", "INT": "VARCHAR(12)", "DECIMAL(9, 3)": "DECIMAL(7, 1)", "DATETIME(6)": "DATETIME(3)",
         "VARCHAR(9)": "VARCHAR(30)", "SMALLINT UNSIGNED": "DOUBLE", "DATETIME": "DATE", "DATE": "DATETIME",
         "MEDIUMINT": "BIGINT", "YEAR": "INT", "ENUM('first', 'b')": "ENUM('b', 'more', 'first')", "CHAR(5)": "TEXT",
         "BIT(9)": "INT UNSIGNED", "FLOAT": "VARCHAR(30)", "TIME(3)": "TIME", "JSON": "TEXT", "VARBINARY(5)": "BLOB",
         "ENUM('a', '', 'b', 'b')": "VARCHAR(9)", "ENUM('', 'b')": "ENUM('first', 'b')",
         "SET('x', '', 'x')": "BIGINT", "SET('x', 'y', '')": "SET('x', 'y')", "TEXT": "ENUM('', 'b')",
         "VARCHAR(30)": "TEXT", "DOUBLE": "DOUBLE", "BIGINT": "DECIMAL(20, 2)"}  # fmt: skip
"""Types that a MODIFY gives to columns of others."""
NOT_FOR_VERIFY = ("were published of it", "nothing of it is published")


class Life:
    """Statements on tables whose columns INSERTs leave out."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._columns: dict[str, dict[str, str]] = {}
        self._new = 0

    def begin(self) -> list[str]:
        added = [f"ALTER TABLE added ADD COLUMN c{at} {one}" for at, one in enumerate(ADDED)]
        first = "CREATE TABLE added (id INT NOT NULL DEFAULT 3 PRIMARY KEY)"
        return [
            "SET SESSION sql_mode = ''",
            *map(self._create, KEYS),
            first,
            "INSERT INTO added VALUES (1), (2)",
            *added,
        ]

    def step(self) -> list[str]:
        table = self._random.choice(list(KEYS))
        kinds = [self._insert, self._update, self._move, self._delete, self._alter, self._modify, self._image]
        return self._random.choices(kinds, [6, 4, 3, 2, 1, 2, 1])[0](table)

    def _create(self, table: str) -> str:
        some = self._random.sample(list(VALUES), 6)
        self._columns[table] = {f"v{at}": kind for at, kind in enumerate(some)}
        columns = ", ".join(f"{name} {self._column(kind)}" for name, kind in self._columns[table].items())
        return f"CREATE TABLE {table} ({KEYS[table][0]}, {columns})"

    def _column(self, kind: str) -> str:
        has_default = kind not in NO_DEFAULT and self._random.random() < 0.4
        null = self._random.choice(["NOT NULL", "NULL"])
        return f"{kind} {null}" + (f" DEFAULT {VALUES[kind]}" if has_default else "")

    def _insert(self, table: str) -> list[str]:
        values = {name: self._random.choice(KEY_VALUES[name]) for name in KEYS[table][1]}
        values |= {name: VALUES[kind] for name, kind in self._columns[table].items()}
        # Of these an INSERT always has the value: what the server gives them otherwise is no constant.
        must = {name for name, kind in self._columns[table].items() if kind in ("POINT", "JSON", "TIMESTAMP")}
        some = [name for name in values if name in must or self._random.random() < 0.5]
        verb = self._random.choice(["INSERT IGNORE", "REPLACE"])
        return [f"{verb} INTO {table} ({', '.join(some)}) VALUES ({', '.join(values[name] for name in some)})"]

    def _update(self, table: str) -> list[str]:
        name, kind = self._random.choice(list(self._columns[table].items()))
        value = self._random.choice([VALUES[kind], "DEFAULT"])
        return [f"UPDATE IGNORE {table} SET {name} = {value} WHERE {self._where(table)}"]

    def _move(self, table: str) -> list[str]:
        keys = KEYS[table][1]
        if not keys:
            return self._update(table)
        name = self._random.choice(keys)
        value = self._random.choice(KEY_VALUES[name])
        return [f"UPDATE IGNORE {table} SET {name} = {value} WHERE {self._where(table)}"]

    def _modify(self, table: str) -> list[str]:
        columns = self._columns[table]
        some = [name for name, kind in columns.items() if kind in WIDER]
        if not some:
            return self._alter(table)
        name = self._random.choice(some)
        columns[name] = WIDER[columns[name]]
        return [f"ALTER TABLE {table} MODIFY {name} {self._column(columns[name])}"]

    def _delete(self, table: str) -> list[str]:
        return [f"DELETE FROM {table} WHERE {self._where(table)} LIMIT 1"]

    def _where(self, table: str) -> str:
        key = [f"{name} = {self._random.choice(KEY_VALUES[name])}" for name in KEYS[table][1]]
        return self._random.choice([" AND ".join(key) or "a IS NULL", "1"])

    def _alter(self, table: str) -> list[str]:
        self._new += 1
        kind = self._random.choice(list(VALUES))
        name, new = self._random.choice(list(self._columns[table])), f"n{self._new}"
        columns = self._columns[table]
        if self._random.random() < 0.7:
            columns[new] = kind
            return [f"ALTER TABLE {table} ADD COLUMN {new} {self._column(kind)}"]
        columns[new] = columns.pop(name)
        return [f"ALTER TABLE {table} RENAME COLUMN {name} TO {new}"]

    def _image(self, table: str) -> list[str]:
        image = self._random.choice(["FULL", "MINIMAL", "MINIMAL", "NOBLOB"])
        return [f"SET SESSION binlog_row_image = {image}", *self._insert(table)]


class Judge:
    """What SELECT says, and who is held against it."""

    def __init__(self, world: MirrorWorld) -> None:
        self._world = world
        self._definitions: dict[str, TableDefinition] = {}
        self._selected: dict[str, Any] = {}
        self.looked = 0
        self.histories = 0
        self.readable = 0

    def look(self) -> None:
        """All tables whose mirrors follow have these rows in every form."""
        world = self._world
        report = world.update()
        behind = {one.table for one in report.mirrors if one.behind or one.error}
        assert not {f"shop.{name}" for name in ALWAYS} & behind
        names = [name for name in [*KEYS, *ALWAYS] if f"shop.{name}" not in behind]
        with world.server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
            for name in names:
                mirror = world.mirror(name)
                assert mirror is not None
                with connection.cursor() as cursor:
                    cursor.execute(f"SELECT {', '.join(one.name for one in mirror.definition.columns)} FROM {name}")
                    self._definitions[name], self._selected[name] = mirror.definition, cursor.fetchall()
                self.compare(name, "mirror", mirror.to_arrow().select(state_schema(mirror.definition).names))
        self.by_duckdb(names, Through.DELTA)
        self.by_duckdb(names, Through.FILES)
        # A table of which nothing was published has no view.
        there = [name for name in names if self._selected[name]]
        self.by_duckdb(there, Through.FILES, lake=without_mirrors(world))
        for name in names:
            history = history_check.opened(world, name)
            for reader in history_check.READERS:
                found = history_check.reported(history, reader)
                seq = history.reached.seq
                self.histories += 1
                self.readable += found is not None
                if found is not None:
                    history_check.assert_valid(history, found, seq, self._selected[name])
        verified = verify_changes(
            world.source, world.engine, ComparisonRequest(tuple(f"shop.{name}" for name in names))
        )
        for one in verified.tables:
            # This world has no ledger of what was published.
            told = [reason for reason in one.reasons if not any(text in reason for text in NOT_FOR_VERIFY)]
            assert (one.table, told, one.differences) == (one.table, [], ())
        self.looked += len(names)

    def by_duckdb(self, names: list[str], through: Through, lake: str = "") -> None:
        made = make_views(lake or self._world.lake, "s", self._world.engine, Dialect.DUCKDB, through)
        now = of_kind(made, ViewKind.NOW)
        with duckdb.connect() as connection:
            load_delta(connection)
            connection.execute("SET TimeZone = 'UTC'")
            for name in names:
                assert now[name].statements, now[name].notes
                of_table = [one for one in made if one.table.table == name]
                for statement in [statement for one in of_table for statement in one.statements]:
                    connection.execute(statement)
                rows = pa.table(connection.execute(f"SELECT * FROM shop.{name}").arrow())
                self.compare(name, f"view {through}", rows)

    def compare(self, name: str, what: str, rows: pa.Table) -> None:
        schema = state_schema(self._definitions[name])
        state = TableState(self._definitions[name], rows.rename_columns(schema.names).cast(schema))
        found = compare_rows(state, self._selected[name])
        assert (what, name, found.examples, found.equal) == (what, name, (), True)
        assert rows.num_rows == len(self._selected[name]), (what, name)


@pytest.mark.parametrize("seed", range(LIVES))
def test_views_are_what_mirrors_and_select_are(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop;")
    server.run_sql("RESET BINARY LOGS AND GTIDS;")
    server.run_sql("DROP DATABASE shop; CREATE DATABASE shop;")
    world = MirrorWorld(server, tmp_path)
    life, judge = Life(Random(seed)), Judge(world)
    with server.connect("shop", init_command="SET time_zone = '+00:00'") as connection:
        run(connection, life.begin())
        run(connection, list(LEFT_OUT))
        run(connection, list(CHANGED))
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                run(connection, life.step())
            world.publish()
            judge.look()
    assert judge.looked > 3 * ROUNDS
    # The rest had values that the type of now does not have.
    assert judge.readable * 2 > judge.histories
