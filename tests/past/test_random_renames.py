"""Tables that get other names, and those of each other, at random: the versions of their rows go through all names.

At each copy's time, the valid versions of a table are the copy that was made under the name of that time; and a range
means the table that has the name at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from strata_cdc.past.query import answer
from tests.past.past_world import SESSION, PastWorld
from tests.past.test_random_queries import drop_kept
from tests.past.test_random_versions import Moment, clock_of, counted, is_valid, valid_in
from tests.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.slow]
NAMES = ("a", "b", "c", "d")
ROUNDS, STEPS = 3, 22


@dataclass
class Tables:
    """The tables by number, with the names that they have."""

    random: Random
    names: dict[int, str] = field(default_factory=dict)
    made: int = 0

    def step(self) -> tuple[list[str], dict[int, str]]:
        """The next statements, and the names after them."""
        random, names = self.random, dict(self.names)
        free = [name for name in NAMES if name not in names.values()]
        pick = random.random()
        if len(names) < 2 or (free and pick < 0.08):
            names[self.made] = random.choice(free)
            self.made += 1
            return [f"CREATE TABLE {names[self.made - 1]} (id INT PRIMARY KEY, n INT, m INT)"], names
        table, other = random.sample(sorted(names), 2)
        name, second = names[table], names[other]
        if free and pick < 0.2:
            names[table] = random.choice(free)
            more = random.choice(["", f", ADD COLUMN x{random.randrange(9)} INT DEFAULT 3", ", MODIFY n BIGINT"])
            if more:
                return [f"ALTER TABLE {name} RENAME TO {names[table]}{more}"], names
            return [f"RENAME TABLE {name} TO {names[table]}"], names
        if pick < 0.3:
            names[table], names[other] = second, name
            return [f"RENAME TABLE {name} TO tmp, {second} TO {name}, tmp TO {second}"], names
        if pick < 0.34:
            del names[table]
            return [f"DROP TABLE {name}"], names
        if pick < 0.37:
            return [f"TRUNCATE TABLE {name}"], names
        return [self._change(name)], names

    def _change(self, name: str) -> str:
        key, value = self.random.randrange(6), self.random.randrange(100)
        return self.random.choice(
            [
                f"REPLACE INTO {name} (id, n, m) VALUES ({key}, {value}, 1)",
                f"INSERT IGNORE INTO {name} (id, n, m) VALUES ({key}, {value}, 1), ({key + 1}, {value}, 2)",
                f"UPDATE {name} SET n = {value} WHERE id = {key}",
                f"UPDATE IGNORE {name} SET id = id + 1 WHERE id = {key}",
                f"DELETE FROM {name} WHERE id = {key}",
                f"SET SESSION binlog_row_image = {self.random.choice(['FULL', 'MINIMAL'])}",
            ]
        )


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds())
def test_versions_go_through_all_names(server: MysqlServer, tmp_path: Path, seed: int) -> None:
    server.run_sql("DROP DATABASE IF EXISTS shop; RESET BINARY LOGS AND GTIDS; CREATE DATABASE shop")
    world, tables = PastWorld(server, tmp_path), Tables(Random(seed))
    moments: list[tuple[Moment, dict[int, str]]] = []
    with server.connect("shop", init_command=SESSION) as connection, connection.cursor() as cursor:
        for _ in range(ROUNDS):
            for _ in range(STEPS):
                statements, names = tables.step()
                try:
                    for statement in statements:
                        cursor.execute(statement)
                except pymysql.err.MySQLError:
                    continue
                tables.names = names
                if tables.random.random() < 0.2:
                    moments.append((Moment(world.keep(len(moments)), {}), names))
            world.publish()
            if tables.random.random() < 0.7:
                world.update()
    moments.append((Moment(world.keep(len(moments)), {}), tables.names))
    world.publish()
    world.update()
    compared = sum(compare(world, moments, number) for number in tables.names)
    ranges = sum(compare_ranges(world, moments, tables, number) for number in tables.names)
    drop_kept(server, len(moments))
    assert compared > len(moments) / 2
    assert ranges > 5


def versions(world: PastWorld, clause: str, name: str) -> list[dict[str, Any]]:
    query = f"SELECT id, n, m, _valid_from, _valid_to FROM shop.{name} FOR SYSTEM_TIME {clause}"
    return answer(world.readable, query, newest(world)).rows.to_pylist()


def newest(world: PastWorld) -> str:
    return world.server.run_sql(world.server.executed_sql).partition("\n")[2].replace("\\n", "").strip()


def compare(world: PastWorld, moments: list[tuple[Moment, dict[int, str]]], number: int) -> int:
    """Compares the versions of a table with the copies."""
    every, compared = versions(world, "ALL", moments[-1][1][number]), 0
    for at, (moment, names) in enumerate(moments):
        time = clock_of(world, moment)
        valid = [[row["id"], row["n"], row["m"]] for row in every if is_valid(row, time)]
        if number in names:
            copied, _ = world.select(f"SELECT id, n, m FROM kept_{at}.{names[number]}")
            assert counted(valid) == counted(copied), f"table {number} at moment {at}"
            compared += 1
        else:
            assert valid == []
    return compared


def compare_ranges(world: PastWorld, moments: list[tuple[Moment, dict[int, str]]], tables: Tables, number: int) -> int:
    """A range gives what filtering all versions gives, under the name that the table had at its end."""
    every, compared = versions(world, "ALL", moments[-1][1][number]), 0
    for _ in range(6):
        first, last = sorted(tables.random.choices(range(len(moments)), k=2))
        (begin, _), (end, names) = moments[first], moments[last]
        if number not in names:
            continue
        found = versions(world, f"BETWEEN GTID '{begin.gtid}' AND GTID '{end.gtid}'", names[number])
        expected = valid_in(every, clock_of(world, begin), clock_of(world, end), includes_end=True)
        assert counted(map(dict.values, found)) == counted(map(dict.values, expected))
        compared += 1
    return compared
