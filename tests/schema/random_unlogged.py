"""Random tables that are altered once without a trace in the binlog, and what a late reader makes of their rows.
Not here: what must hold (`test_random_unlogged.py`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pymysql

from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.lost import open_changes
from tests.mirrors.world import MirrorWorld

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from tests.mysql_server import MysqlServer

TEXTS = ["VARCHAR(20) CHARACTER SET latin1", "VARCHAR(5) CHARACTER SET utf8mb4", "CHAR(4) CHARACTER SET latin1", "TEXT"]
LABELS = ["'x','y'", "'y','x'", "'x','y','z'", "'x','q','y'"]
TYPES = [
    *("INT", "INT UNSIGNED", "BIGINT", "SMALLINT", "DECIMAL(8,2)", "DECIMAL(8,3)", "DOUBLE", "DATE", "DATETIME(3)"),
    *("DATETIME", "TIMESTAMP", "TIME", "YEAR", "BINARY(4)", "VARBINARY(20)", "BLOB", *TEXTS),
    *(f"{kind}({labels})" for kind in ("ENUM", "SET") for labels in LABELS),
]
VALUES = {
    "INT": "7",
    "BIG": "7000000000",
    "SMA": "3",
    "DEC": "1.25",
    "DOU": "0.5",
    "DAT": "'2026-02-03 04:05:06'",
    "TIM": "'2026-02-03 04:05:06'",
    "YEA": "2001",
    "ENU": "2",
    "SET": "2",
}
"""By the first letters of a type; of all others a text."""


def value_of(kind: str, random: Random) -> str:
    """A literal that a column of a type takes."""
    if kind == "TIME":
        return "'12:13:14'"
    if kind.startswith(("ENUM", "SET")):
        return str(random.choice([1, 2]))
    return VALUES.get(kind[:3], f"'{random.choice(['ab', 'z', 'é'])}'")


@dataclass
class Tally:
    """What became of the rows."""

    equal: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class UnloggedWorld:
    """Tables of one database, each altered once by a session that logs nothing."""

    server: MysqlServer
    folder: Path
    random: Random
    types: list[str]
    truth: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    columns: dict[str, dict[str, str]] = field(default_factory=dict)

    def run(self, tables: int) -> Tally:
        """Makes the tables and their rows, reads all late, and compares."""
        self.server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
        world = MirrorWorld(self.server, self.folder)
        with self.server.connect("shop", init_command="SET time_zone = '+00:00', sql_mode = ''") as session:
            cursor = session.cursor()
            for number in range(tables):
                self.make(cursor, f"t{number}")
            cursor.execute("SET sql_log_bin = 0")
            for name in self.columns:
                self.alter(cursor, name)
            cursor.execute("SET sql_log_bin = 1")
            for name in self.columns:
                self.insert(cursor, name, 3)
            for name in self.random.sample(list(self.columns), k=tables // 2):
                cursor.execute(f"ALTER TABLE {name} ADD COLUMN later INT")
                self.columns[name]["later"] = "INT"
                self.insert(cursor, name, 7)
            world.snapshot()
            for name in self.columns:
                self.insert(cursor, name, 5)
        world.publish()
        return self.compare(world)

    def make(self, cursor: pymysql.cursors.Cursor, name: str) -> None:
        """A table with rows."""
        self.columns[name] = {f"c{at}": self.random.choice(self.types) for at in range(self.random.randint(1, 4))}
        listed = "".join(f", {column} {kind}" for column, kind in self.columns[name].items())
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY{listed})")
        self.insert(cursor, name, 1)

    def insert(self, cursor: pymysql.cursors.Cursor, name: str, first: int) -> None:
        """Two rows, and what the server has of them now."""
        for key in (first, first + 1):
            given = {column: value_of(kind, self.random) for column, kind in self.columns[name].items()}
            names, values = "".join(f", {column}" for column in given), "".join(f", {one}" for one in given.values())
            cursor.execute(f"INSERT INTO {name} (id{names}) VALUES ({key}{values})")
            cursor.execute(f"SELECT * FROM {name} WHERE id = {key}")
            self.truth[name, key] = dict(
                zip([column[0] for column in cursor.description], cursor.fetchone(), strict=True)
            )

    def alter(self, cursor: pymysql.cursors.Cursor, name: str) -> None:
        """One statement of one or two clauses; one that the server refuses is passed over."""
        columns = self.columns[name]
        for _ in range(5):
            after, chosen = dict(columns), min(len(columns), self.random.randint(1, 2))
            clauses = [self.clause(column, after, columns) for column in self.random.sample(list(columns), k=chosen)]
            text = f"ALTER TABLE {name} {', '.join(clauses)}"
            try:
                cursor.execute(text)
            except pymysql.err.MySQLError:
                continue
            self.altered[name], self.columns[name] = text, after
            return

    def clause(self, column: str, after: dict[str, str], before: dict[str, str]) -> str:
        """A clause for one column; `after` becomes what the table has then."""
        random, kind = self.random, after[column]
        match random.choice(["rename", "retype", "move", "drop", "add", "swap"]):
            case "rename":
                after[f"n_{column}"] = after.pop(column)
                return f"CHANGE {column} n_{column} {kind}"
            case "retype":
                after[column] = random.choice(self.types)
                return f"MODIFY {column} {after[column]}"
            case "move":
                return f"MODIFY {column} {kind} FIRST"
            case "drop" if len(after) > 1:
                del after[column]
                return f"DROP COLUMN {column}"
            case "swap" if [other for other in before if other != column and other in after]:
                other = random.choice([other for other in before if other != column and other in after])
                after[column], after[other] = after[other], after[column]
                return f"CHANGE {column} {other} {after[other]}, CHANGE {other} {column} {after[column]}"
        after[f"a_{column}"] = random.choice(self.types)
        return f"ADD COLUMN a_{column} {after[f'a_{column}']} {random.choice(['FIRST', 'AFTER id', ''])}"

    def compare(self, world: MirrorWorld) -> Tally:
        """Each published row with what the server had when it was written."""
        tally = Tally()
        for name in self.columns:
            changes = open_changes(world.lake, world.name, TableName("shop", name))
            rows = [] if changes is None else changes.read_rows(None, None, None).to_pylist()
            published = {row["id"]: row for row in rows}
            for (table, key), truth in self.truth.items():
                if table != name:
                    continue
                row = published.get(key)
                if row is None:
                    tally.refused += 1
                elif all(shown(published_value(row, column)) == shown(value) for column, value in truth.items()):
                    tally.equal += 1
                else:
                    has = {column: published_value(row, column) for column in truth}
                    tally.wrong.append(f"{name} {key}: {has} and not {truth}; {self.altered.get(name)}")
        return tally


def published_value(row: dict[str, Any], column: str) -> Any:
    """A value of a column, which goes on under another name after a change of its type."""
    values = [value for name, value in row.items() if name.partition("__")[0] == column and value is not None]
    return values[0] if values else None


def shown(value: object) -> str:
    """A value as a text that does not depend on who read it."""
    if isinstance(value, bytes):
        return value.rstrip(b"\0").hex()
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    if isinstance(value, (list, set, frozenset)):
        return ",".join(sorted(value))
    return str(value).removesuffix("+00:00")
