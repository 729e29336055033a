"""Times in the format of MariaDB 5.3, whose lengths no TABLE_MAP has: they cost at most the rows of their own table."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.changes.plan import cut_slices
from strata_cdc.changes.port import ChangeBatch, Hole
from strata_cdc.errors import UnsupportedEventError
from strata_cdc.schema.model.definition import TableDefinition, TableName
from tests.changes.live import Live, changes, replayed, steps
from tests.changes.test_plan import Versions, records_of, rows_of
from tests.mariadb_server import VERSIONS_OF_LONG_TESTS, start_mariadb
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql

SEQUENCES = 6


@pytest.fixture(scope="module", params=VERSIONS_OF_LONG_TESTS)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    options = ("--mysql56-temporal-format=OFF", "--character-set-server=utf8mb4")
    with start_mariadb(tmp_path_factory.mktemp("mariadb"), request.param, *options) as server:
        yield Live(server)


class OldTable:
    """A table with random columns, some of them times with fractions."""

    def __init__(self, random: Random, live: Live, name: str) -> None:
        self.random, self.live, self.name = random, live, name
        kinds = [f"{random.choice(['DATETIME', 'TIMESTAMP', 'TIME'])}({random.randint(0, 6)}) NULL" for _ in range(3)]
        kinds += random.choices(["INT", "VARCHAR(40)", "DATE", "DECIMAL(9,3)", "TEXT"], k=random.randint(0, 4))
        random.shuffle(kinds)
        self.kinds = kinds
        live.run(f"DROP TABLE IF EXISTS {name}")
        columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
        live.run(f"CREATE TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, {columns})")

    def change(self) -> int:
        """Changes some rows by a few events; returns how many."""
        count = self.random.randint(1, 20)
        names = ", ".join(f"c{at}" for at in range(len(self.kinds)))
        rows = ", ".join(f"({', '.join(map(self._value, self.kinds))})" for _ in range(count))
        self.live.run(f"INSERT INTO {self.name} ({names}) VALUES {rows}")
        column = self.random.randrange(len(self.kinds))
        with self.live.connection.cursor() as cursor:
            value = self._value(self.kinds[column])
            count += cursor.execute(f"UPDATE {self.name} SET c{column} = {value} WHERE id % 2 = 0")
            count += cursor.execute(f"DELETE FROM {self.name} WHERE id % 5 = 0")
        return count

    def _value(self, kind: str) -> str:
        random = self.random
        if random.random() < 0.1:
            return "NULL"
        clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
        clock += f".{random.randint(0, 999999):06}"
        if kind.startswith("TIME("):
            return f"'{clock}'"
        if kind.startswith(("DATE", "TIMESTAMP")):
            return f"'{random.randint(1971, 2037)}-0{random.randint(1, 9)}-1{random.randint(0, 9)} {clock}'"
        return str(random.randint(-9999, 9999))


def counted(path: Path) -> Counter[str]:
    """Rows by table, as the index of a file counts them."""
    with open_binlog(path) as binlog:
        found: Counter[str] = Counter()
        for record in read_transactions(binlog):
            for table in record.tables:
                found[table.table] += table.rows
    return found


def rows_of_slices(path: Path, definitions: dict[TableName, TableDefinition], size: int) -> list[dict[str, Any]]:
    """All rows, from slices of about `size` bytes, which may begin in the middle of a transaction."""
    with open_binlog(path) as binlog:
        records, versions = records_of(binlog, size), Versions(definitions)
        plan = cut_slices(records, versions, source="s", segment=str(path), target_bytes=size)
        assert (len(plan.slices) > 1) == (size == 1)
        return rows_of(plan, binlog)


@pytest.mark.parametrize("compressed", ["OFF", "ON"])
@pytest.mark.parametrize("seed", seeds(SEQUENCES))
def test_other_tables_keep_all_rows(live: Live, seed: int, compressed: str):
    random = Random(seed)
    live.run(f"SET GLOBAL log_bin_compress = {compressed}")
    live.run("SET GLOBAL log_bin_compress_min_len = 10")
    live.run("DROP TABLE IF EXISTS plain")
    live.run("CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))")
    tables = [OldTable(random, live, name) for name in ("a", "b")]
    made: Counter[str] = Counter()
    with live.recorded() as files:
        for _ in range(6):
            live.run("BEGIN")
            for table in random.sample(tables, k=2):
                made[table.name] += table.change()
                live.run(f"INSERT INTO plain (v) VALUES ('{random.random()}')")
                made["plain"] += 1
            live.run("COMMIT")
    index = counted(files[0])
    assert index["plain"] == made["plain"]
    # Of the others, the index has the events.
    assert all(0 < index[name] <= made[name] for name in ("a", "b"))
    definitions = {TableName(live.database, name): live.definition(name) for name in ("plain", "a", "b")}
    found = changes(files[0], definitions)
    for name, definition in definitions.items():
        rows = replayed([change for change in found if change["table"] == name.table])
        assert rows == live.truth(name.table, definition)
    assert rows_of_slices(files[0], definitions, 1) == rows_of_slices(files[0], definitions, 1 << 30)
    del definitions[TableName(live.database, "a")]
    only = {change: found[change] for change in range(len(found)) if found[change]["table"] != "a"}
    # Rows keep their numbers in the transaction, whether the other table has a version or not.
    assert changes(files[0], definitions) == list(only.values())


def test_a_table_that_differs_from_its_version_costs_only_its_rows(live: Live):
    live.run("DROP TABLE IF EXISTS a, plain")
    live.run("CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))")
    live.run("CREATE TABLE a (id INT PRIMARY KEY, t DATETIME(3), u TIME(6))")
    with live.recorded() as files:
        live.run("BEGIN")
        live.run("INSERT INTO a VALUES (1, '2001-02-03 04:05:06.789', '01:02:03'), (2, NULL, '01:02:03.000001')")
        live.run("INSERT INTO plain (v) VALUES ('x')")
        live.run("COMMIT")
    definition = live.definition("a")
    wrong = TableDefinition((*definition.columns, *live.definition("plain").columns[1:]))
    definitions = {TableName(live.database, "a"): wrong, TableName(live.database, "plain"): live.definition("plain")}
    assert [change["table"] for change in changes(files[0], definitions)] == ["plain"]
    [hole] = _holes(files[0], definitions)
    assert hole.table == f"{live.database}.a"
    assert "columns in the schema" in hole.message


def test_without_versions_only_such_tables_have_no_rows(live: Live):
    live.run("DROP TABLE IF EXISTS a, plain")
    live.run("CREATE TABLE plain (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))")
    live.run("CREATE TABLE a (id INT PRIMARY KEY, t DATETIME(3))")
    with live.recorded() as files:
        live.run("INSERT INTO a VALUES (1, '2001-02-03 04:05:06.789')")
        live.run("INSERT INTO plain (v) VALUES ('x')")
    assert [step.table.table for step in steps(files[0], None) if isinstance(step, ChangeBatch)] == ["plain"]
    [hole] = _holes(files[0], None)
    assert isinstance(hole, UnsupportedEventError)
    assert hole.table == f"{live.database}.a"


def _holes(path: Path, definitions: dict[TableName, TableDefinition] | None) -> list[Any]:
    return [step.error for step in steps(path, definitions) if isinstance(step, Hole)]
