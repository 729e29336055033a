"""All versions of rows after a random life: at each moment, the valid ones are the rows that the server had."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc.landing.landed import LandedStream
from strata_cdc.past.moment import find_moment
from strata_cdc.past.query import answer
from strata_cdc.position.executed import parse_executed
from tests.past.past_world import SESSION, PastWorld, difference, plain
from tests.seeds import are_drawn, seeds

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]

ROUNDS, STEPS, RANGES = (3, 30, 3) if are_drawn() else (2, 20, 1)
KEYS = {"t": "PRIMARY KEY (id)", "u": "UNIQUE (id, n)", "v": "KEY (id)"}
COLUMNS = "id INT NOT NULL, n INT NOT NULL, name VARCHAR(10), price DECIMAL(8, 2), made DATETIME(3), raw VARBINARY(4)"
WIDER = {
    "id": ["BIGINT NOT NULL", "VARCHAR(20) NOT NULL"],
    "n": ["BIGINT NOT NULL"],
    "name": ["VARCHAR(30)", "TEXT"],
    "price": ["DECIMAL(14, 4)", "DECIMAL(12, 2)"],
    "made": ["DATETIME(6)"],
    "raw": ["VARBINARY(20)"],
}
"""Types that have all values of those that the columns begin with."""
QUERIES = (
    "SELECT {id}, COUNT(*), MIN(_valid_from), MAX(_valid_to) FROM {v} GROUP BY {id}",
    "SELECT _gtid, COUNT(*) AS made FROM {v} GROUP BY _gtid HAVING COUNT(*) > 1",
    "SELECT a.{id}, a._valid_from, b._valid_to FROM {v} a JOIN {v} b ON b.{id} = a.{id} AND "
    "b._valid_from = a._valid_to",
    "SELECT a.{n}, COUNT(*) AS changes FROM {v} a WHERE EXISTS (SELECT 1 FROM {v} b WHERE b.{id} = a.{id} AND "
    "b._valid_to = a._valid_from) GROUP BY a.{n}",
    "SELECT DISTINCT _valid_to IS NULL AS is_now FROM {v}",
    "SELECT YEAR(_valid_from), COUNT(DISTINCT {id}) FROM {v} GROUP BY YEAR(_valid_from)",
    # Only versions under some keys are computed, if the key always had whole numbers.
    "SELECT * FROM {v} WHERE {id} = 3",
    "SELECT * FROM {v} WHERE ({id} IN (1, 5, -2) AND {n} > 0)",
    "SELECT {id}, _valid_to, _gtid FROM {v} WHERE 4 < {id} AND {id} <= 6 AND _valid_to IS NOT NULL",
    "SELECT {id}, {n} FROM {v} WHERE {id} BETWEEN 2 AND 5 OR {n} = 1",
    "SELECT a.{id}, b.{n} FROM {v} a LEFT JOIN {v} b ON b.{id} = a.{id} WHERE b.{id} = 2",
)


@dataclass
class Moment:
    """What is known of a moment."""

    gtid: str
    names: dict[str, dict[str, str]]
    """By table, the name that each column of now had then."""


@dataclass
class Life:
    """Random statements on the tables; renames of columns are written down for all moments."""

    random: Random
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    """By table, the names of now, and which of `COLUMNS` each of them was at first; empty for added ones."""
    moments: list[Moment] = field(default_factory=list)
    added: int = 0

    def begin(self) -> list[str]:
        """The tables, with rows."""
        for table in KEYS:
            self.columns[table] = {name: name for name in WIDER}
        made = [f"CREATE TABLE {table} ({COLUMNS}, {key})" for table, key in KEYS.items()]
        return made + [self.change(table) for table in KEYS for _ in range(8)]

    def change(self, table: str) -> str:
        """A change of rows."""
        random = self.random
        now = {first: name for name, first in self.columns[table].items() if first}
        values = {
            "id": str(random.randrange(6)),
            "n": str(random.randrange(3)),
            "name": random.choice(["NULL", "''", "'a'", "'ä b'", "'0'"]),
            "price": random.choice(["NULL", "0", "1.25", "-3.50", "99999.99"]),
            "made": random.choice(["NULL", "'2024-02-29 01:02:03.004'", "'1999-12-31 23:59:59.999'"]),
            "raw": random.choice(["NULL", "0x00ff", "''", "'ab'"]),
        }
        values = {now[first]: value for first, value in values.items() if first in now}
        where = f"{now['id']} = {random.randrange(6)}" if random.random() < 0.8 else "1"
        pick = random.random()
        if pick < 0.4:
            return f"REPLACE INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})"
        if pick < 0.8:
            name = random.choice(list(values))
            return f"UPDATE IGNORE {table} SET {name} = {values[name]} WHERE {where}"
        if pick < 0.85:
            return f"UPDATE IGNORE {table} SET {now['n']} = 1 - {now['n']}"
        return f"DELETE FROM {table} WHERE {where} LIMIT 2"

    def alter(self, table: str) -> tuple[str, dict[str, str], str | None]:
        """A DDL statement; how it renames columns, and which of them it removes."""
        random, columns = self.random, self.columns[table]
        self.added += 1
        name, other = random.sample(list(columns), 2)
        kinds = WIDER.get(columns[name], ["BIGINT"])
        free = [one for one, first in columns.items() if first not in {"id", "n"}]
        gone = random.choice(free) if len(free) > 2 else None
        choices: list[tuple[str, dict[str, str], str | None]] = [
            (f"ADD COLUMN c{self.added} INT DEFAULT {random.choice(['7', 'NULL'])}", {}, None),
            (f"ADD COLUMN c{self.added} VARCHAR(8) FIRST", {}, None),
            (f"RENAME COLUMN {name} TO r{self.added}", {name: f"r{self.added}"}, None),
            (f"RENAME COLUMN {name} TO {other}, RENAME COLUMN {other} TO {name}", {name: other, other: name}, None),
            (f"MODIFY {name} {random.choice(kinds)}", {}, None),
            (f"MODIFY {name} {random.choice(kinds)}", {}, None),
            ("COMMENT = 'x'", {}, None),
        ]
        if gone is not None:
            choices.append((f"DROP COLUMN {gone}", {}, gone))
        clause, renamed, removed = random.choice(choices)
        if clause.startswith("MODIFY") and not columns[name]:
            clause = "ENGINE = InnoDB"
        return f"ALTER TABLE {table} {clause}", renamed, removed

    def altered(self, table: str, statement: str, renamed: dict[str, str], removed: str | None) -> None:
        """Writes down what a statement has done."""
        for names in (self.columns[table], *(moment.names[table] for moment in self.moments)):
            there = {renamed.get(name, name): then for name, then in names.items() if name != removed}
            names.clear()
            names.update(there)
        if "ADD COLUMN" in statement:
            self.columns[table][f"c{self.added}"] = ""

    def keep(self, world: PastWorld) -> None:
        """Keeps copies of the tables as they are now."""
        names = {table: {name: name for name in columns} for table, columns in self.columns.items()}
        self.moments.append(Moment(world.keep(len(self.moments)), names))


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds())
def test_the_versions_at_each_moment_are_the_rows_of_then(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world, random = PastWorld(server, tmp_path), Random(seed)
    life = Life(random)
    live(world, life)
    try:
        for table in KEYS:
            found = answer(world.readable, f"SELECT * FROM shop.{table} FOR SYSTEM_TIME ALL").rows
            compare_with_copies(world, life, table, found)
            compare_ranges(world, life, table, found)
            compare_queries(world, life, table, found)
    finally:
        drop = "".join(f"SET sql_log_bin = 0; DROP DATABASE kept_{at};" for at in range(len(life.moments)))
        server.run_sql(f"{drop} DROP DATABASE IF EXISTS versions")


def live(world: PastWorld, life: Life) -> None:
    """Runs random statements, and keeps copies; mirrors follow now and then."""
    random = life.random
    with world.server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        for statement in life.begin():
            cursor.execute(statement)
        life.keep(world)
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                step(cursor, life)
                if random.random() < 0.1:
                    connection.commit()
                    life.keep(world)
            world.publish()
            if random.random() < 0.6:
                world.update()
        life.keep(world)
    # A time is a moment only if it is before the end of the stream.
    world.server.run_sql("CREATE TABLE shop.end (a INT)")
    world.publish()
    world.update()


def step(cursor: Any, life: Life) -> None:
    """One transaction or DDL; what the server refuses has not happened."""
    random, table = life.random, life.random.choice(list(KEYS))
    pick = random.random()
    try:
        if pick < 0.15:
            statement, renamed, removed = life.alter(table)
            cursor.execute(statement)
            life.altered(table, statement, renamed, removed)
        elif pick < 0.17:
            cursor.execute(f"TRUNCATE TABLE {table}")
        elif pick < 0.2:
            cursor.execute(f"SET SESSION binlog_row_image = {random.choice(['FULL', 'MINIMAL', 'NOBLOB'])}")
        elif pick < 0.35:
            cursor.execute("BEGIN")
            for _ in range(random.randrange(2, 5)):
                cursor.execute(life.change(random.choice(list(KEYS))))
            cursor.execute(random.choice(["COMMIT", "COMMIT", "ROLLBACK"]))
        else:
            cursor.execute(life.change(table))
    except pymysql.err.MySQLError:
        cursor.execute("COMMIT")


def compare_with_copies(world: PastWorld, life: Life, table: str, found: pa.Table) -> None:
    """At each moment, the valid versions are the copy."""
    for number, moment in enumerate(life.moments):
        names, at = moment.names[table], clock_of(world, moment)
        own = [name for name in found.column_names if name in names]
        copied, _ = world.select(f"SELECT {', '.join(names[name] for name in own)} FROM kept_{number}.{table}")
        valid = [row for row in found.to_pylist() if is_valid(row, at)]
        made = [[row[name] for name in own] for row in valid]
        assert counted(made) == counted(copied), f"{table} at moment {number}, {at}"


def clock_of(world: PastWorld, moment: Moment) -> datetime:
    """The commit time of the last transaction of a moment."""
    stream = LandedStream.open(world.lake, world.name)
    place = find_moment(world.lake, world.name, world.engine, parse_executed(moment.gtid))
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=stream.clock_at(place.seq))


def is_valid(row: dict[str, Any], at: datetime) -> bool:
    """Whether a version is valid at a time."""
    assert row["_valid_from"] is not None
    return bool(row["_valid_from"] <= at) and (row["_valid_to"] is None or bool(row["_valid_to"] > at))


def counted(rows: Any) -> Counter[tuple[str, ...]]:
    """Rows whose values may have had another type: with their texts."""
    return Counter(tuple(str(plain(value)) for value in row) for row in rows)


def compare_ranges(world: PastWorld, life: Life, table: str, found: pa.Table) -> None:
    """BETWEEN and FROM give what filtering all versions gives, by times and by GTID sets."""
    every, clocks = found.to_pylist(), {moment.gtid: clock_of(world, moment) for moment in life.moments}
    times = {*clocks.values(), *(row["_valid_from"] for row in every)}
    for _ in range(RANGES):
        begin, end = sorted(life.random.choices(sorted(times), k=2))
        first, last = sorted(life.random.choices(list(clocks), k=2), key=clocks.__getitem__)
        texts = [one.replace(tzinfo=None).isoformat(" ", "microseconds") for one in (begin, end)]
        for clause, expected in (
            (f"BETWEEN '{texts[0]}' AND '{texts[1]}'", valid_in(every, begin, end, includes_end=True)),
            (f"FROM '{texts[0]}' TO '{texts[1]}'", valid_in(every, begin, end, includes_end=False)),
            (
                f"BETWEEN GTID '{first}' AND GTID '{last}'",
                valid_in(every, clocks[first], clocks[last], includes_end=True),
            ),
            (
                f"FROM GTID '{first}' TO GTID '{last}'",
                valid_in(every, clocks[first], clocks[last], includes_end=False),
            ),
        ):
            some = answer(world.readable, f"SELECT * FROM shop.{table} FOR SYSTEM_TIME {clause}").rows
            assert counted(map(dict.values, some.to_pylist())) == counted(map(dict.values, expected)), clause


def valid_in(rows: list[dict[str, Any]], begin: datetime, end: datetime, *, includes_end: bool) -> list[dict[str, Any]]:
    """The versions that are valid at some time of a range."""
    ended = [row for row in rows if row["_valid_to"] is None or row["_valid_to"] > begin]
    return [row for row in ended if row["_valid_from"] < end or (includes_end and row["_valid_from"] == end)]


def compare_queries(world: PastWorld, life: Life, table: str, found: pa.Table) -> None:
    """Queries over versions give what the server gives over a table with the same rows."""
    names = [f"`{name}`" for name in found.column_names]
    with world.server.connect(init_command=SESSION) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute("CREATE DATABASE IF NOT EXISTS versions")
        cursor.execute(f"CREATE TABLE versions.{table} AS SELECT * FROM shop.{table} LIMIT 0")
        cursor.execute(
            f"ALTER TABLE versions.{table} ADD COLUMN _valid_from DATETIME(6), ADD COLUMN _valid_to DATETIME(6), "
            "ADD COLUMN _gtid VARCHAR(99) COLLATE utf8mb4_bin"
        )
        places = ", ".join(["%s"] * len(names))
        rows = [
            [value.replace(tzinfo=None) if isinstance(value, datetime) else value for value in row.values()]
            for row in found.to_pylist()
        ]
        insert = f"INSERT INTO versions.{table} ({', '.join(names)}) VALUES ({places})"
        cursor.executemany(insert, rows)
        connection.commit()
    now = {first: name for name, first in life.columns[table].items() if first}
    for query in (query.replace("{id}", now["id"]).replace("{n}", now["n"]) for query in QUERIES):
        theirs, description = world.select(query.replace("{v}", f"versions.{table}"))
        mine = answer(world.readable, query.replace("{v}", f"shop.{table} FOR SYSTEM_TIME ALL")).rows
        assert difference(theirs, description, mine, is_ordered=False) is None, query
