"""Tables with times in the format of MariaDB 5.3, from the server's stream to mirrors: no TABLE_MAP has the lengths of
such cells, and rows that are read or counted wrongly must not be published."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.repair import repair_landing
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.read import read_changes
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.mirrors.world import MirrorWorld
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

OTHERS = {
    "tinyint": lambda dice: dice.choice([0, -1, dice.randrange(-128, 128)]),
    "int": lambda dice: dice.choice([0, -1, dice.randrange(-(2**31), 2**31)]),
    "bigint": lambda dice: dice.choice([0, -1, dice.randrange(-(2**63), 2**63)]),
    "varbinary(20)": lambda dice: dice.choice([b"", bytes(5), b"\xff" * 8, dice.randbytes(dice.randrange(21))]),
    "varbinary(300)": lambda dice: dice.choice([b"", bytes(5), dice.randbytes(dice.randrange(21))]),
    "blob": lambda dice: dice.randbytes(dice.randrange(12)),
    "binary(5)": lambda dice: dice.randbytes(5),
    "double": lambda dice: dice.choice([0.0, dice.random()]),
}
"""Columns whose bytes may look like times, or like null bits, and their values."""
STATEMENTS = 12


@pytest.fixture(scope="module", params=VERSIONS_OF_LONG_TESTS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    options = ("--mysql56-temporal-format=OFF", "--sql-mode=")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param, *options) as server:
        yield server


def a_time(dice: Random, kind: str, digits: int) -> str:
    """A value that has many zeros, or is one of the first or last ones, or any."""
    fraction = f".{dice.choice([0, 1, 999_999, dice.randrange(1_000_000)]):06}"[: digits + 1] if digits else ""
    clock = f"{dice.choice([0, 23]):02}:{dice.choice([0, 59, dice.randrange(60)]):02}:{dice.choice([0, 59]):02}"
    if kind == "time":
        hours = dice.choice([0, 838, dice.randrange(839)])
        return f"{dice.choice(['', '-'])}{hours:02}{clock[2:]}{fraction}"
    if dice.random() < 0.15:
        return "0000-00-00 00:00:00"
    years = (1, 1000, 9999, 2026) if kind == "datetime" else (1971, 2026, 2037)
    return f"{dice.choice(years):04}-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02} {clock}{fraction}"


class Statements:
    """Random statements on one table with such columns, and others."""

    def __init__(self, dice: Random, table: str, *, is_modified: bool) -> None:
        self.dice = dice
        self.table = table
        self.is_modified = is_modified
        self.columns: list[tuple[str, int]] = [self.a_type() for _ in range(dice.choice([1, 2, 4, 7, 20]))]
        """Types, and digits of fractions."""

    def a_type(self) -> tuple[str, int]:
        if self.dice.random() < 0.3:
            return self.dice.choice(list(OTHERS)), 0
        return self.dice.choice(["time", "datetime", "timestamp"]), self.dice.randrange(7)

    def declared(self, number: int) -> str:
        kind, digits = self.columns[number]
        null = "NULL" if self.dice.random() < 0.5 else "NOT NULL"
        return f"c{number} {kind}{f'({digits})' if digits else ''} {null} DEFAULT {self.default(kind)}"

    @staticmethod
    def default(kind: str) -> str:
        return "''" if "b" in kind and kind not in {"bigint", "double"} else "0"

    def created(self) -> str:
        key = self.dice.choice(["id INT PRIMARY KEY AUTO_INCREMENT", "id SMALLINT PRIMARY KEY AUTO_INCREMENT"])
        return f"CREATE TABLE {self.table} ({', '.join([key, *map(self.declared, range(len(self.columns)))])})"

    def value(self, number: int) -> Any:
        kind, digits = self.columns[number]
        return OTHERS[kind](self.dice) if kind in OTHERS else a_time(self.dice, kind, digits)

    def any(self) -> tuple[str, tuple[Any, ...]]:
        """One statement and its values. What the server refuses, or cannot do, logs nothing."""
        number, roll = self.dice.randrange(len(self.columns)), self.dice.random()
        if roll < 0.5:
            names = self.dice.sample(range(len(self.columns)), self.dice.randint(1, len(self.columns)))
            rows = self.dice.choice([1, 1, 2, 3, 6])
            marks = ", ".join([f"({', '.join(['%s'] * len(names))})"] * rows)
            values = tuple(self.value(name) for _ in range(rows) for name in names)
            return f"INSERT INTO {self.table} ({', '.join(f'c{name}' for name in names)}) VALUES {marks}", values
        if roll < 0.75:
            limit = self.dice.choice([1, 2, 5])
            return f"UPDATE {self.table} SET c{number} = %s ORDER BY RAND() LIMIT {limit}", (self.value(number),)
        if roll < 0.85:
            return f"DELETE FROM {self.table} ORDER BY RAND() LIMIT {self.dice.choice([1, 2])}", ()
        if roll < 0.93 and self.is_modified and self.columns[number][0] not in OTHERS:
            # The TABLE_MAP stays the same, and the lengths of cells change.
            self.columns[number] = (self.columns[number][0], self.dice.randrange(7))
            return f"ALTER TABLE {self.table} MODIFY {self.declared(number)}", ()
        self.columns.append(self.a_type())
        return f"ALTER TABLE {self.table} ADD {self.declared(len(self.columns) - 1)}", ()


def take_over(world: MirrorWorld) -> dict[str, str]:
    """Publishes and mirrors; why mirrors are behind. The rows that are published are those that were counted."""
    world.publish()
    counted: Counter[TableName] = Counter()
    for piece in TableIntervalLedger(world.engine).select(world.name, list(IntervalState)):
        counted[TableName(piece.database, piece.table)] += piece.rows
    assert counted
    for name, rows in counted.items():
        assert read_changes(world.lake, world.name, name, columns=["_seq"]).num_rows == rows, name
    report = world.update()
    assert [mirror.error for mirror in report.mirrors if mirror.error] == []
    return {mirror.table: mirror.behind for mirror in report.mirrors if mirror.behind}


def test_an_index_that_is_made_again_has_the_same_tables(server: MysqlServer, tmp_path: Path):
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    server.run_sql(
        "CREATE TABLE t (a TIME(3)); CREATE TABLE u (a INT); INSERT INTO t VALUES ('1:2:3.5'), (NULL)", "shop"
    )
    assert take_over(world) == {}
    folder = landing_folder(world.lake, world.name)
    [segment] = LandedStream.open(world.lake, world.name).segments
    assert segment.summary.uncounted == (("shop", "t"),)
    folder.delete(f"{segment.summary.segment}{SUFFIX}")
    repair_landing(folder)
    [again] = LandedStream.open(world.lake, world.name).segments
    assert again.summary.uncounted == segment.summary.uncounted


@pytest.mark.parametrize("seed", seeds(soaked=3))
def test_mirrors_of_random_tables_are_what_select_gives(server: MysqlServer, tmp_path: Path, seed: int):
    dice = Random(seed)
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET MASTER; CREATE DATABASE shop")
    world = MirrorWorld(server, tmp_path)
    tables = [Statements(dice, f"t{number}", is_modified=number < 3) for number in range(8)]
    created = ["CREATE TABLE other (id INT PRIMARY KEY AUTO_INCREMENT)", *map(Statements.created, tables)]
    server.run_sql("; ".join(created), "shop")
    for _ in range(3):
        with server.connect("shop") as connection, connection.cursor() as cursor:
            for image in ("FULL", "MINIMAL", "NOBLOB"):
                cursor.execute(f"SET binlog_row_image = {image}, time_zone = '+00:00'")
                for table in dice.choices(tables, k=STATEMENTS):
                    cursor.execute("BEGIN")
                    for _ in range(dice.choice([1, 1, 3])):
                        cursor.execute(*table.any())
                        cursor.execute("INSERT INTO other VALUES ()")
                    cursor.execute(dice.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        # What a MODIFY made of some values is not in the log: such a mirror says so, and takes no more rows.
        behind = take_over(world)
        assert all("is not known here" in why for why in behind.values())
        tables = [table for table in tables if f"shop.{table.table}" not in behind]
        assert len(tables) >= 5
        for name in behind:
            server.run_sql(f"DROP TABLE {name}")
        assert take_over(world) == {}
        world.assert_equal()
