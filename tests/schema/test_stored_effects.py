"""What DDL does to rows is decided once: tracking in one run or in many gives the same, and so does an older store."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import DamagedFileError
from strata_cdc.flavour import Flavour
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.ddl.changes import CreateTable, RemoveRows
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl_or_gap
from strata_cdc.schema.history.cascades import unlogged_cascades
from strata_cdc.schema.history.snapshot import SchemaSnapshot
from strata_cdc.schema.history.snapshot_ledger import add_snapshot
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.history.versions import DatabaseEntry, NamePresence
from strata_cdc.schema.model.definition import TableDefinition, TableName
from strata_cdc.schema.model.partitions import Function, HeldRows, Partition, Partitioning
from strata_cdc.schema.model.row_effects import (
    NO_EFFECT,
    ConvertedColumn,
    EffectKind,
    FilledColumn,
    RowEffect,
    effects_from_text,
    effects_to_text,
)
from strata_cdc.schema.replay.catalog import Catalog
from strata_cdc.store.database import open_store, reading, writing
from strata_cdc.store.tables import row_removal, table_version, tracked_position
from tests.schema.streams import A, Stream, track

if TYPE_CHECKING:
    from strata_cdc.schema.history.versions import RowRemoval, TableChange

RANGE = "(partition p0 values less than (5), partition p1 values less than (9), partition p2 values less than maxvalue)"
STATEMENTS = (
    "create database d", "drop database d", "create table t (a int, b varchar(9))", "create table u like t",
    "create table u like p", "drop table t", "alter table t add a int, rename column a to b", "drop table p",
    "alter table t drop b, add c int not null default 4 first", "rename table u to v", "rename table t to u, u to t",
    "alter table t rename to v, modify a bigint", "alter table t frobnicate", "create table 'open", "truncate t",
    "create table _t_new (a int, b text)", "rename table t to _t_old, _t_new to t", "drop table _t_old, v", "",
    f"create table p (a int) partition by range (a) {RANGE}", "alter table p drop partition p0",
    f"create table t (a int) partition by range (a) {RANGE}", "alter table t drop partition p0, p2",
    "alter table u truncate partition p1", "alter table p exchange partition p1 with table t", "rename table p to u",
    "alter table t add partition (partition p3 values less than (30))", "alter table p remove partitioning",
    f"alter table t partition by range (a) {RANGE}", "rename table p to v, u to p, v to u",
    "alter table t engine=myisam",
    "alter table t reorganize partition p0, p1 into (partition p0 values less than (9))", "alter table p add x int",
    "create table c (id int primary key, a int, foreign key (a) references t (a) on delete cascade)",
)  # fmt: skip
RUNS = st.lists(st.lists(st.sampled_from(STATEMENTS), max_size=9), min_size=1, max_size=4)


def tracked(runs: list[list[str]]) -> SchemaStore:
    store, stream = SchemaStore(open_store("sqlite://")), Stream()
    for at, run in enumerate(possible([["create database d", *runs[0]], *runs[1:]])):
        track(store, stream, *run, file=f"binlog.{at + 1:06d}")
    return store


def possible(runs: list[list[str]]) -> list[list[str]]:
    """Without databases that are made while they are there, or dropped while they are not: no server does that."""
    is_there, found = False, []
    for run in runs:
        found.append([])
        for statement in run:
            is_made, is_dropped = statement == "create database d", statement == "drop database d"
            if (is_made and is_there) or (is_dropped and not is_there):
                continue
            is_there = (is_there or is_made) and not is_dropped
            found[-1].append(statement)
    return found


def decided(store: SchemaStore) -> tuple[list[TableChange], list[RowRemoval], list[str]]:
    cascades = [str(one.name) for one in unlogged_cascades(store.engine, "s")]
    return table_changes_of(store.engine, "s"), removals_of(store.engine, "s"), cascades


def effects(store: SchemaStore) -> list[tuple[object, ...]]:
    """Without places in files, which are others in other files."""
    changes, removals, _ = decided(store)
    return [
        *((one.order[:2], one.name, one.effect) for one in changes),
        *((one.seq, one.name, one.effect) for one in removals),
    ]


def forget(store: SchemaStore) -> None:
    """As a former version has stored it."""
    with writing(store.engine) as connection:
        connection.execute(table_version.update().values(column_ids=None, effect=None))
        connection.execute(row_removal.update().values(effects=None))
        connection.execute(tracked_position.update().values(last_column_id=None))


@given(RUNS)
@settings(max_examples=60, deadline=None)
def test_an_older_store_gets_the_effects_that_tracking_decides(runs: list[list[str]]) -> None:
    store = tracked(runs)
    expected = decided(store)
    forget(store)
    assert decided(SchemaStore(store.engine)) == expected


class Server:
    """A server whose tables are older than the stream, and who tracks it; snapshots find what is there."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.executed(("create database d", *OLDER))
        self.store = SchemaStore(open_store("sqlite://"))
        self.stream = Stream(gno=10, executed=GtidSet.parse(f"{A}:1-10"))

    def executed(self, statements: tuple[str, ...]) -> bool:
        """Whether the server takes them."""
        catalog = deepcopy(self.catalog)
        for statement in statements:
            for change in read_ddl_or_gap(statement, DdlContext("d", flavour=Flavour.mysql(90704))):
                if isinstance(change, CreateTable) and catalog.get(change.name) is not None:
                    return False
                done = catalog.apply([change])
                if any(one.gap is not None for one in done) or (not done and not isinstance(change, RemoveRows)):
                    return False
        self.catalog = catalog
        return True

    def take_snapshot(self, *, sees: frozenset[str] | None) -> None:
        """Of all tables, or of those of one database."""
        tables = {name: one for name, one in self.catalog if isinstance(one, TableDefinition)}
        fingerprints = self.store.store_definitions(tables.values())
        executed = str(self.stream.executed)
        found = dict(zip(tables, fingerprints, strict=True))
        databases = (DatabaseEntry("d", NamePresence.PRESENT, "utf8mb4", "utf8mb4_0900_ai_ci"),)
        snapshot_read = SchemaSnapshot(
            id=0, source="s", gtid_before=executed, gtid_executed=executed, taken_at=1, server_version=90704,
            lower_case_table_names=0, tables=found, databases=databases, seen_databases=sees,
        )  # fmt: skip
        add_snapshot(self.store.engine, snapshot_read)


OLDER = (STATEMENTS[2], "create table u (z int, key (z desc))", "create table _t_gho (a int)")
SNAPSHOT, OF_D, STOP = "snapshot", "snapshot of d", "stop"
LIFE = st.lists(st.sampled_from([*STATEMENTS[4:], SNAPSHOT, OF_D, STOP, STOP]), max_size=30)


@given(LIFE)
@settings(max_examples=80, deadline=None)
def test_an_older_store_with_snapshots_gets_the_effects_that_tracking_decides(life: list[str]) -> None:
    server, pending = Server(), []
    for at, step in enumerate([*life, SNAPSHOT, STOP, STOP]):
        if step in {SNAPSHOT, OF_D}:
            server.take_snapshot(sees=None if step == SNAPSHOT else frozenset({"d"}))
        elif step == STOP:
            track(server.store, server.stream, *pending, "", file=f"binlog.{at + 1:06d}")
            pending = []
        elif server.executed((step,)):
            pending.append(step)
    expected = decided(server.store)
    forget(server.store)
    assert decided(SchemaStore(server.store.engine)) == expected


@given(RUNS)
@settings(max_examples=60, deadline=None)
def test_tracking_goes_on_as_if_it_had_not_stopped(runs: list[list[str]]) -> None:
    assert effects(tracked(runs)) == effects(tracked([[statement for run in runs for statement in run]]))


def test_the_rows_of_partitions_are_stored_without_the_other_partitions() -> None:
    create = f"create table p (a int) partition by range (a) {RANGE}"
    store = tracked([[create], ["rename table p to u"], ["alter table u drop partition p1"], ["truncate u"]])
    [one, other] = removals_of(store.engine, "s")
    below = (Partition("p0", below=(5,)), Partition("p1", below=(9,)))
    assert one.effect.held == HeldRows(Partitioning(True, ("a",), Function.ITSELF, below), ("p1",))
    assert (other.effect.kind, other.effect.is_whole) == (EffectKind.REMOVE, True)


def test_nothing_is_read_of_statements() -> None:
    """Of what has been decided no text is looked at again."""
    store = tracked([["create table t (a int)", "alter table t add b int not null default 7", "truncate t"]])
    expected = decided(store)
    with writing(store.engine) as connection:
        connection.execute(sa.text("UPDATE schema_version SET ddl = 'nobody reads it'"))
        connection.execute(sa.text("UPDATE row_removal SET statement = 'TRUNCATE t' WHERE statement IS NOT NULL"))
    assert [one.effect for one in decided(store)[0]] == [one.effect for one in expected[0]]
    assert [one.effect for one in decided(store)[1]] == [one.effect for one in expected[1]]


TEXT = st.text(max_size=9)
PARTITION = st.builds(Partition, TEXT, st.lists(st.none() | st.integers() | TEXT, max_size=2).map(tuple))
BLOCKED = st.builds(
    HeldRows,
    st.builds(
        Partitioning,
        st.booleans(),
        st.lists(TEXT, max_size=2).map(tuple),
        st.sampled_from(Function),
        st.lists(PARTITION, max_size=3).map(tuple),
    ),
    st.lists(TEXT, max_size=2).map(tuple),
)
NAME = st.none() | st.builds(TableName, TEXT, TEXT)
EFFECT = st.builds(
    RowEffect,
    kind=st.sampled_from(EffectKind),
    reason=TEXT,
    brings_rows=st.booleans(),
    renamed=st.dictionaries(TEXT, TEXT, max_size=3),
    added=st.lists(TEXT, max_size=3).map(tuple),
    filled=st.lists(st.builds(FilledColumn, TEXT, st.none() | TEXT), max_size=3).map(tuple),
    converted=st.lists(st.builds(ConvertedColumn, TEXT, TEXT, TEXT), max_size=3).map(tuple),
    numbers_zeros=st.booleans(),
    held=st.none() | BLOCKED,
    exchanged_with=NAME,
    came_from=NAME,
    makes_cascade=st.booleans(),
)


@given(st.lists(EFFECT, max_size=3))
def test_effects_come_back_from_their_text(given: list[RowEffect]) -> None:
    assert [RowEffect.from_text(effect.to_text()) for effect in given] == given
    assert list(effects_from_text(effects_to_text(given))) == given


def test_an_effect_that_was_stored_without_it_is_known_as_an_alter_ignore() -> None:
    """The text is as former versions have stored it."""
    reason = "a; ALTER IGNORE drops rows that break a key, and changes values that do not fit"
    effect = RowEffect.from_text(f'{{"kind":"read_again","reason":"{reason}"}}')
    assert effect.ignores
    assert RowEffect.from_text(effect.to_text()) == effect
    assert not RowEffect.from_text('{"kind":"read_again","reason":"a"}').ignores


def test_what_is_not_in_the_log_is_not_always_on_a_server() -> None:
    """The source may be a TiCDC sink."""
    assert RowEffect(kind=EffectKind.READ_AGAIN, reason="a").text == "must be read again: a"


def test_what_leaves_rows_as_they_are_takes_no_room() -> None:
    assert NO_EFFECT.to_text() == ""
    store = tracked([["create table t (a int)", "alter table t add key (a)"]])
    with reading(store.engine) as connection:
        texts = connection.execute(sa.select(table_version.c.effect).order_by(table_version.c.version_id)).scalars()
        assert list(texts)[1:] == ['{"kind":"none","makes_table":true}', ""]


@pytest.mark.parametrize("text", ["x", "[]", '{"kind":"other"}', '{"kind":"none","held":3}'])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(DamagedFileError, match=r"table_version\.effect"):
        RowEffect.from_text(text)
