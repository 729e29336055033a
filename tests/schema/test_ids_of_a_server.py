"""A law about ids of columns, judged by a real server: each column holds its own id as its only value, whatever random
DDL does to columns, tables and copies, and where the value goes the id has to go."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pymysql
import pytest
import sqlalchemy as sa

from strata_cdc.schema.history.identified_tables import stored_table
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store, writing
from strata_cdc.store.tables import table_version, tracked_position
from tests.schema.streams import Stream, track
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.schema.history.identified_tables import IdentifiedTable
    from tests.mysql_server import MysqlServer

DATABASES = ("ids_a", "ids_b")
TABLES = ("t", "u", "_v", "w_new")
COLUMNS = ("a", "b", "c", "A", "B", "`x y`", "É", "é")
TYPES = ("VARCHAR(20)", "VARCHAR(300)", "CHAR(20)", "BIGINT", "TEXT", "DECIMAL(20,0) NULL")
STATEMENTS = 70


def shown(name: TableName) -> str:
    return f"`{name.database}`.`{name.table}`"


class Life:
    """A server's tables, changed by lot, each with one row; and a store that tracks every statement that was taken."""

    def __init__(self, server: MysqlServer, store: SchemaStore, seed: int) -> None:
        self.random = Random(seed)
        self.connection = server.connect()
        self.store = store
        self.stream = Stream()
        self.taken: list[str] = []
        self.seen: set[int] = set()
        self.copies: set[TableName] = set()
        """Tables whose rows a tool has copied: their columns hold the ids of those that they are copies of."""

    def run(self, statement: str) -> bool:
        """Whether the server takes a statement of DDL."""
        try:
            self.execute(statement)
        except pymysql.Error:
            return False
        track(self.store, self.stream, statement)
        self.taken.append(statement)
        return True

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def tables(self) -> list[TableName]:
        found = self.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            f" WHERE table_schema IN {DATABASES} ORDER BY 1, 2"
        )
        return [TableName(*map(str, row)) for row in found]

    def identified(self, name: TableName) -> IdentifiedTable:
        found = stored_table(self.store, "s", name)
        assert found is not None, name
        return found

    # What the server says -----------------------------------------------------------------------

    def check(self) -> None:
        """Every value is the id of its column; what has no value yet is new, and gets its id."""
        at_once: list[int] = []
        for name in self.tables():
            table = self.identified(name)
            columns = self.execute(f"SHOW COLUMNS FROM {shown(name)}")
            assert [str(row[0]) for row in columns] == list(table.names), (name, self.taken[-1])
            self.check_row(name, table)
            at_once += table.columns.ids
        assert len(at_once) == len(set(at_once)), "two columns have one id"

    def check_row(self, name: TableName, table: IdentifiedTable) -> None:
        rows = self.execute(f"SELECT * FROM {shown(name)}")
        if not rows:
            self.execute(f"INSERT INTO {shown(name)} () VALUES ()")
            rows = self.execute(f"SELECT * FROM {shown(name)}")
        pairs = zip(table.names, table.columns.ids, table.columns.copied_from, rows[0], strict=True)
        for column, number, source, value in pairs:
            if value is None:
                assert number not in self.seen, (name, column, self.taken[-1])
                self.seen.add(number)
                self.execute(f"UPDATE {shown(name)} SET `{column}` = {number}")
            elif name in self.copies:
                assert int(str(value)) in {number, source}, (name, column, self.taken[-1])
            else:
                assert int(str(value)) == number, (name, column, self.taken[-1])

    # By lot -------------------------------------------------------------------------------------

    def step(self) -> None:
        tables = self.tables()
        if not tables or (len(tables) < 3 and self.random.random() < 0.6):
            self.create(tables)
            return
        name = self.random.choice(tables)
        kind = self.random.random()
        if kind < 0.6:
            self.run(f"ALTER TABLE {shown(name)} {self.steps(name)}")
        elif kind < 0.7:
            self.rename(name, tables)
        elif kind < 0.76:
            self.run(f"DROP TABLE {shown(name)}")
        elif kind < 0.83:
            self.create(tables)
        else:
            self.change_online(name)

    def create(self, tables: list[TableName]) -> None:
        name = TableName(self.random.choice(DATABASES), self.random.choice(TABLES))
        if tables and self.random.random() < 0.3:
            self.run(f"CREATE TABLE {shown(name)} LIKE {shown(self.random.choice(tables))}")
        else:
            columns = self.random.sample(COLUMNS, self.random.randint(1, 4))
            self.run(f"CREATE TABLE {shown(name)} ({', '.join(f'{one} {self.type()}' for one in columns)})")

    def rename(self, name: TableName, tables: list[TableName]) -> None:
        new = TableName(self.random.choice(DATABASES), self.random.choice(TABLES))
        if new in tables:
            aside = f"`{name.database}`.aside"
            pairs = f"{shown(new)} TO {aside}, {shown(name)} TO {shown(new)}, {aside} TO {shown(name)}"
            self.run(f"RENAME TABLE {pairs}")
        elif self.random.random() < 0.5:
            self.run(f"ALTER TABLE {shown(name)} {self.steps(name)}, RENAME TO {shown(new)}")
        else:
            self.run(f"RENAME TABLE {shown(name)} TO {shown(new)}")

    def type(self) -> str:
        return self.random.choice(TYPES)

    def steps(self, name: TableName) -> str:
        there = [f"`{column}`" for column in self.identified(name).names]
        steps = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            old, new = self.random.choice(there), self.random.choice(COLUMNS)
            position = self.random.choice(["", "", " FIRST", f" AFTER {self.random.choice(there)}"])
            step = self.random.choice(["ADD", "DROP", "RENAME", "CHANGE", "MODIFY", "OTHER"])
            steps.append(
                {
                    "ADD": f"ADD COLUMN {new} {self.type()}{position}",
                    "DROP": f"DROP COLUMN {old}",
                    "RENAME": f"RENAME COLUMN {old} TO {new}",
                    "CHANGE": f"CHANGE {old} {new} {self.type()}{position}",
                    "MODIFY": f"MODIFY {old} {self.type()}{position}",
                    "OTHER": "COMMENT 'changed'",
                }[step]
            )
        return ", ".join(steps)

    def change_online(self, name: TableName) -> None:
        """As gh-ost and pt-online-schema-change do it, without writers."""
        self.check()
        copy, gone = self.random.choice([("_{}_gho", "_{}_del"), ("_{}_new", "_{}_old"), ("__{}_new", "__{}_old")])
        beside, old = (TableName(name.database, form.format(name.table)) for form in (copy, gone))
        if name in self.copies or name.table.startswith("_") or {beside, old} & set(self.tables()):
            return
        made = f"CREATE TABLE {shown(beside)} LIKE {shown(name)}"
        if copy != "_{}_gho" and self.random.random() < 0.5:
            text = str(self.execute(f"SHOW CREATE TABLE {shown(name)}")[0][1])
            made = text.replace(f"CREATE TABLE `{name.table}`", f"CREATE TABLE {shown(beside)}", 1)
        assert self.run(made)
        self.copies.add(beside)
        self.execute(f"INSERT INTO {shown(beside)} SELECT * FROM {shown(name)}")
        for _ in range(self.random.randint(0, 2)):
            self.run(f"ALTER TABLE {shown(beside)} {self.steps(beside)}")
            self.check()
        if self.random.random() < 0.8:
            assert self.run(f"RENAME TABLE {shown(name)} TO {shown(old)}, {shown(beside)} TO {shown(name)}")
            self.copies.add(old)
            self.check()
        for one in (beside, old):
            self.run(f"DROP TABLE IF EXISTS {shown(one)}")
            self.copies.discard(one)


@pytest.fixture
def life(mysql_server: MysqlServer, store: SchemaStore, seed: int) -> Iterator[Life]:
    life = Life(mysql_server, store, seed)
    for database in DATABASES:
        life.execute(f"DROP DATABASE IF EXISTS {database}")
        assert life.run(f"CREATE DATABASE {database}")
    yield life
    for database in DATABASES:
        life.execute(f"DROP DATABASE {database}")
    life.connection.close()


def ids(store: SchemaStore) -> list[tuple[int, TableName, str | None]]:
    return [(entry.version_id, entry.name, entry.column_ids) for entry in store.all_entries("s")]


@pytest.mark.mysql
@pytest.mark.parametrize("seed", seeds())
def test_an_id_goes_where_the_values_go(life: Life, store: SchemaStore, mysql_server: MysqlServer) -> None:
    while len(life.taken) < STATEMENTS:
        life.step()
        life.check()

    life.execute("DROP DATABASE IF EXISTS ids_store")
    in_one_run = SchemaStore(open_store(f"{mysql_server.url}ids_store"))
    track(in_one_run, Stream(), *life.taken)
    assert ids(in_one_run) == ids(store)

    given, newest = ids(in_one_run), in_one_run.position("s")
    with writing(in_one_run.engine) as connection:
        connection.execute(sa.update(table_version).values(column_ids=None))
        connection.execute(sa.update(tracked_position).values(last_column_id=None))
    assert (ids(in_one_run), in_one_run.position("s")) == (given, newest), "ids of an older store are others"
    in_one_run.engine.dispose()
