"""Ids of columns: what gives a column a new one, and what lets it keep the one that it has."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.identified_tables import IdentifiedTables
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import TableChange
from strata_cdc.schema.model.column_ids import ColumnIds
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.catalog import Catalog
from strata_cdc.store.database import open_store, writing
from strata_cdc.store.tables import table_version, tracked_position
from tests.schema.streams import Stream, track
from tests.schema.test_lineage import GH_OST, PT_OSC


class Tables:
    """Statements applied one after the other, from an empty server on."""

    def __init__(self, *statements: str) -> None:
        self.catalog = Catalog()
        self.catalog.put_database("d", "utf8mb4_0900_ai_ci")
        self.identified = IdentifiedTables()
        self.run(*statements)

    def run(self, *statements: str) -> None:
        for statement in statements:
            changes = read_ddl_or_gap(statement, DdlContext("d"))
            done = {one.name: one for one in self.catalog.apply(changes)}
            self.identified.apply(tuple(done.values()), changes)

    def forget(self, table: str) -> None:
        self.identified.apply([TableChange(TableName("d", table), gap="a statement that nobody understood")])

    def see(self, table: str, create: str) -> None:
        """A snapshot finds a table."""
        other = Tables(create).catalog.get(TableName("d", table))
        self.identified.apply([TableChange(TableName("d", table), other)])

    def ids(self, table: str, database: str = "d") -> dict[str, str]:
        """By column; with `<` and the id of which it is a copy."""
        found = self.identified.get(TableName(database, table))
        if found is None:
            return {}
        pairs = zip(found.columns.ids, found.columns.copied_from, strict=True)
        texts = [f"{column}<{source}" if source else str(column) for column, source in pairs]
        return dict(zip(found.names, texts, strict=True))


T = "CREATE TABLE t (a INT, b INT)"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ((), {"a": "1", "b": "2"}),
        (("ALTER TABLE t RENAME COLUMN a TO c",), {"c": "1", "b": "2"}),
        (("ALTER TABLE t CHANGE a c BIGINT AFTER b, MODIFY b TEXT",), {"b": "2", "c": "1"}),
        (("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",), {"b": "1", "a": "2"}),
        (("ALTER TABLE t CHANGE a A INT",), {"A": "1", "b": "2"}),
        (("ALTER TABLE t DROP a, RENAME COLUMN b TO A",), {"A": "2"}),
        (("ALTER TABLE t RENAME COLUMN a TO c, ADD a INT FIRST",), {"a": "3", "c": "1", "b": "2"}),
        (("ALTER TABLE t DROP a", "ALTER TABLE t ADD a INT"), {"b": "2", "a": "3"}),
        (("ALTER TABLE t DROP a, ADD a INT",), {"b": "2", "a": "3"}),
        (("ALTER TABLE t DROP b, ADD b INT",), {"a": "1", "b": "3"}),
        (("ALTER TABLE t CHANGE a b INT, CHANGE b a INT FIRST",), {"a": "2", "b": "1"}),
        (("ALTER TABLE t COMMENT 'x', ADD KEY (a)",), {"a": "1", "b": "2"}),
        (("DROP TABLE t", T), {"a": "3", "b": "4"}),
        (("CREATE TABLE u (b INT)", "RENAME TABLE t TO v, u TO t"), {"b": "3"}),
        (("CREATE TABLE u (b INT)", "RENAME TABLE t TO v, u TO t, v TO u, t TO v, u TO t"), {"a": "1", "b": "2"}),
        (("ALTER TABLE t RENAME u, CHANGE a b INT, CHANGE b c INT", "RENAME TABLE u TO t"), {"b": "1", "c": "2"}),
        (GH_OST, {"a": "1", "c": "6"}),
        (PT_OSC, {"a": "1", "c": "5"}),
        ((PT_OSC[0].replace("LIKE d.t", "(a INT, b INT)"), *PT_OSC[1:]), {"a": "1", "c": "5"}),
        ((*GH_OST[:3], "ALTER TABLE t DROP a", *GH_OST[3:]), {"a": "4", "c": "6"}),
    ],
)  # fmt: skip
def test_a_column_keeps_its_id(statements: tuple[str, ...], expected: dict[str, str]) -> None:
    assert Tables(T, *statements).ids("t") == expected


def test_a_move_to_another_database_keeps_ids() -> None:
    tables = Tables(T)
    tables.catalog.put_database("e", "utf8mb4_0900_ai_ci")
    tables.run("RENAME TABLE t TO e.t")
    assert tables.ids("t", "e") == {"a": "1", "b": "2"}
    assert tables.ids("t") == {}


def test_copies_say_what_they_are_copies_of() -> None:
    tables = Tables(T, "CREATE TABLE u LIKE t", "ALTER TABLE u RENAME COLUMN a TO c, ADD a INT")
    assert tables.ids("u") == {"c": "3<1", "b": "4<2", "a": "5"}
    assert tables.ids("t") == {"a": "1", "b": "2"}


def test_the_table_that_is_swapped_away_is_a_copy_from_then_on() -> None:
    tables = Tables(T, *GH_OST[:-1])
    assert tables.ids("_t_del") == {"a": "7<1", "b": "8<2"}
    assert tables.ids("_t_gho") == {}


def test_a_copy_of_which_nobody_saw_the_start_goes_by_names() -> None:
    tables = Tables(T)
    tables.see("_t_gho", "CREATE TABLE _t_gho (a INT, c INT)")
    tables.catalog.put(TableName("d", "_t_gho"), tables.identified.get(TableName("d", "_t_gho")).definition)
    tables.run(GH_OST[3])
    assert tables.ids("t") == {"a": "1", "c": "4"}


def test_what_no_statement_tells_goes_by_names() -> None:
    tables = Tables(T)
    tables.forget("t")
    tables.see("t", "CREATE TABLE t (B INT, c INT)")
    assert tables.ids("t") == {"B": "2", "c": "3"}
    tables.forget("t")
    tables.identified.apply([TableChange(TableName("d", "t"))])
    tables.see("t", "CREATE TABLE t (B INT)")
    assert tables.ids("t") == {"B": "4"}, "it was gone in between"


def test_a_table_that_nobody_knows_keeps_its_ids_under_another_name() -> None:
    tables = Tables(T)
    tables.forget("t")
    t, u = TableName("d", "t"), TableName("d", "u")
    tables.identified.apply([TableChange(t), TableChange(u, gap="renamed, and not known", renamed_from=t)])
    tables.see("u", "CREATE TABLE u (a INT)")
    assert (tables.ids("u"), tables.ids("t")) == ({"a": "1"}, {})


STATEMENTS = (
    "create database d", "drop database d", "create table t (a int, b int)", "create table u like t", "drop table t",
    "alter table t add a int, rename column a to b", "alter table t drop b, add c int first", "rename table u to v",
    "rename table t to u, u to t", "alter table t rename to v", "alter table t frobnicate", "create table 'open",
    "create table _t_new (a int)", "rename table t to _t_old, _t_new to t", "drop table _t_old, v", "",
)  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(STATEMENTS), max_size=8), min_size=1, max_size=3))
@settings(max_examples=50)
def test_an_older_store_gets_the_ids_that_tracking_gives(runs: list[list[str]]) -> None:
    store, stream = SchemaStore(open_store("sqlite://")), Stream()
    for at, run in enumerate(runs):
        track(store, stream, *STATEMENTS[:1], *run, file=f"binlog.{at + 1:06d}")
    given, position = store.all_entries("s"), store.position("s")
    assert [entry.fingerprint is None for entry in given] == [entry.column_ids is None for entry in given]
    with writing(store.engine) as connection:
        connection.execute(table_version.update().values(column_ids=None))
        connection.execute(tracked_position.update().values(last_column_id=None))
    assert (store.all_entries("s"), store.position("s")) == (given, position)


ID = st.integers(1, 2**40)


@given(st.lists(st.tuples(ID, st.none() | ID) | st.integers(1, 6).map(lambda one: (one, None)), max_size=12))
def test_ids_come_back_from_their_text(pairs: list[tuple[int, int | None]]) -> None:
    columns = ColumnIds(tuple(one for one, _ in pairs), tuple(source for _, source in pairs))
    assert ColumnIds.from_text(columns.to_text()) == columns


def test_runs_of_ids_are_short() -> None:
    assert ColumnIds((1, 2, 3, 9, 10, 11, 4), (None, None, None, 1, 2, None, None)).to_text() == "1-3,9-10<1,11,4"


@pytest.mark.parametrize("text", ["x", "1-", "1<", "<1", "1 2", "1-2-3", "-1"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no run of column ids"):
        ColumnIds.from_text(text)
