"""Definitions that a snapshot disproves: which rows from before it could be misread, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strata_cdc.errors import SchemaGapError
from strata_cdc.pipeline.lines import tracked_line
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.snapshot import SchemaSnapshot
from strata_cdc.schema.history.snapshot_ledger import add_snapshot
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
from strata_cdc.schema.tracker.misread import DISPROVED, misreads
from strata_cdc.store.database import open_store
from strata_cdc.tables.lost import open_changes
from tests.mirrors.world import MirrorWorld
from tests.schema.listed_at_end import assert_listed_as_each_answers
from tests.schema.streams import A, Stream, track

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

T, U = TableName("d", "t"), TableName("d", "u")
MARIADB = -110_809


@pytest.fixture
def store():
    store = SchemaStore(open_store("sqlite://"))
    yield store
    assert_listed_as_each_answers(store)


def table(text: str) -> TableDefinition:
    """From a text as `a int; b enum('x','y'); c text latin1`."""
    columns = []
    for column in text.split("; "):
        name, kind, *charset = column.split(" ")
        charset += [f"{charset[0]}_bin"] if charset else []
        columns.append(Column(name, kind.replace("_", " "), True, *charset))
    return TableDefinition(tuple(columns))


def snap(store, executed, tables, **facts):
    fingerprints = dict(zip(tables, store.store_definitions(tables.values()), strict=True))
    values = {"gtid_before": executed, "server_version": 90704, "lower_case_table_names": 0, **facts}
    add_snapshot(
        store.engine, SchemaSnapshot(source="s", gtid_executed=executed, taken_at=1, tables=fingerprints, **values)
    )


def columns(store, seq, name=T):
    """None if that is not known any more."""
    try:
        definition = History(store, "s").at(name, AtSeq(seq)).definition
    except SchemaGapError as refused:
        return None if DISPROVED in refused.message else refused.message
    return "; ".join(f"{column.name} {column.column_type}" for column in definition.columns)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a int; b int", "b int; a int"),
        ("a int; b int", "a int; c int"),
        ("a int; b int", "c int; a bigint"),
        ("a int; b int", "x int; b int; a int"),
        ("a enum('x','y')", "a enum('y','x')"),
        ("a enum('x','y')", "a set('z','y')"),
        ("a set('x','y','z')", "a set('x','z')"),
    ],
)
def test_rows_that_could_be_misread(one, other):
    for logs_charsets in (True, False):
        assert misreads(table(one), table(other), logs_charsets=logs_charsets)
        assert misreads(table(other), table(one), logs_charsets=logs_charsets)


@pytest.mark.parametrize(
    ("one", "other", "without_charsets"),
    [
        ("a int; b int", "a int; x int; b int", False),
        ("a int; b int", "A bigint; B int", False),
        ("a enum('x','y')", "a enum('x','y','z')", False),
        ("a text latin1", "a text utf8mb4", True),
        ("a int", "a int_unsigned", True),
        ("a uuid", "a inet6", True),
        ("a binary(16)", "a uuid", True),
        ("a varbinary(9)", "a varchar(9) latin1", True),
        ("a int", "a bigint", False),
        ("a varchar(10) latin1", "a varchar(20) latin1", False),
    ],
)
def test_rows_that_show_which_definition_is_theirs(one, other, without_charsets):
    assert not misreads(table(one), table(other), logs_charsets=True)
    assert misreads(table(one), table(other), logs_charsets=False) == without_charsets


def test_since_the_statement_that_made_the_table_it_is_not_known(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int, b int)", "create table u (a int)", "", "")
    snap(store, f"{A}:1-5", {T: table("b int; a int"), U: table("a int; b int")})
    report = track(store, stream, "", "alter table t add c int")
    assert (report.drifts, columns(store, 2), columns(store, 5)) == (2, None, None)
    assert tracked_line(report) == (
        "1 DDL statement, 3 schema versions; drift: d.t is not on the server as the stream has it; nothing that was "
        "logged shows since when, so rows after transaction 1 are not decoded, and those of them that were published "
        "before may be wrong (and 1 table more)"
    )
    assert columns(store, 6) == "b int; a int"
    assert columns(store, 7) == "b int; a int; c int"
    assert (columns(store, 5, U), columns(store, 6, U)) == ("a int", "a int; b int")


def test_what_an_earlier_snapshot_has_confirmed_stays(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int, b int)", "")
    same, swapped = {T: table("a int; b int")}, {T: table("b int; a int")}
    snap(store, f"{A}:1-3", same)
    track(store, stream, "", "")
    snap(store, f"{A}:1-5", same)
    track(store, stream, "", "")
    snap(store, f"{A}:1-7", swapped)
    track(store, stream, "")
    assert [columns(store, seq) for seq in (3, 5)] == ["a int; b int"] * 2
    assert [columns(store, seq) for seq in (6, 7)] == [None, None]
    assert columns(store, 8) == "b int; a int"
    snap(store, f"{A}:1-8", {T: table("a int; b int")})
    track(store, stream, "")
    assert [columns(store, seq) for seq in (7, 8, 9)] == [None, None, "a int; b int"]


@pytest.mark.parametrize(
    "facts",
    [{"seen_databases": frozenset({"other"})}, {"doubtful": {T: "labels"}}, {"gtid_before": f"{A}:1"}],
    ids=["not seen", "not compared completely", "changed meanwhile"],
)
def test_a_snapshot_confirms_only_what_it_has_compared(store, facts):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int, b int)", "")
    snap(store, f"{A}:1-3", {T: table("a int; b int")}, **facts)
    track(store, stream, "", "")
    snap(store, f"{A}:1-5", {T: table("b int; a int")})
    track(store, stream, "")
    assert [columns(store, seq) for seq in (2, 3, 5)] == [None] * 3
    assert columns(store, 6) == "b int; a int"


def test_rows_before_and_after_a_statement_are_in_doubt(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int, b int)")
    snap(store, f"{A}:1-2", {T: table("a int; b int")})
    track(store, stream, "", "alter table t add c int", "")
    snap(store, f"{A}:1-5", {T: table("b int; a int; c int")})
    track(store, stream, "")
    assert columns(store, 2) == "a int; b int"
    assert [columns(store, seq) for seq in (3, 4, 5)] == [None] * 3


def test_an_alter_confirms_no_columns_that_it_does_not_name(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int, b int)")
    snap(store, f"{A}:1-2", {T: table("a int; b int")})
    track(store, stream, "", "", "alter table t add c int", "", "rename table t to u", "", "alter table u add e int")
    snap(store, f"{A}:1-9", {U: table("b int; a int; c int; e int")})
    report = track(store, stream, "")
    assert columns(store, 2) == "a int; b int"
    assert [columns(store, seq) for seq in (3, 4, 5, 6)] == [None] * 4
    assert [columns(store, seq, U) for seq in (7, 8, 9)] == [None] * 3
    assert columns(store, 10, U) == "b int; a int; c int; e int"
    assert any("rows after transaction 2 are not decoded" in text for text in report.examples)


def test_a_snapshot_confirms_no_table_that_was_renamed_out_of_its_sight(store):
    stream, moved = Stream(), TableName("hidden", "t")
    track(store, stream, "create database d", "create table t (a int, b int)", "", "rename table t to hidden.t", "")
    snap(store, f"{A}:1-5", {}, seen_databases=frozenset({"d"}))
    track(store, stream, "", "")
    snap(store, f"{A}:1-7", {moved: table("b int; a int")})
    track(store, stream, "")
    assert [columns(store, seq) for seq in (2, 3)] == [None] * 2
    assert [columns(store, seq, moved) for seq in (4, 5, 7)] == [None] * 3
    assert columns(store, 8, moved) == "b int; a int"


def test_mariadb_shows_no_charsets(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a varchar(9) character set latin1)", "")
    snap(store, f"{A}:1-3", {T: table("a varchar(9) utf8mb4")}, server_version=MARIADB)
    track(store, stream, "")
    assert [columns(store, seq) for seq in (2, 3, 4)] == [None, None, "a varchar(9)"]


@pytest.mark.mysql
@pytest.mark.parametrize("table", ["early", "late"])
def test_rows_of_columns_that_were_swapped_unlogged(server: MysqlServer, tmp_path: Path, table: str) -> None:
    """Names that change places without a trace: rows are decoded up to the snapshot that shows the former names, and
    from that one on that shows the others. Who comes late has only the last snapshot."""
    server.run_sql("DROP DATABASE IF EXISTS shop; CREATE DATABASE shop")
    server.run_sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT)", "shop")
    server.run_sql(f"INSERT INTO {table} VALUES (1, 10, 20)", "shop")
    world = MirrorWorld(server, tmp_path)
    if table == "early":
        world.snapshot()
        world.publish()
    server.run_sql(f"INSERT INTO {table} VALUES (2, 10, 20)", "shop")
    with server.connect("shop") as session, session.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        cursor.execute(f"ALTER TABLE {table} RENAME COLUMN a TO b, RENAME COLUMN b TO a")
        cursor.execute("SET sql_log_bin = 1")
    server.run_sql(f"INSERT INTO {table} (id, a, b) VALUES (3, 10, 20)", "shop")
    world.snapshot()
    server.run_sql(f"INSERT INTO {table} (id, a, b) VALUES (4, 10, 20)", "shop")
    world.publish()
    name = TableName("shop", table)
    changes = open_changes(world.lake, world.name, name)
    assert changes is not None
    shown = changes.read_rows(None, None, None)
    rows = sorted(zip(*(shown[column].to_pylist() for column in ("id", "a", "b")), strict=True))
    assert rows == ([(1, 10, 20), (4, 10, 20)] if table == "early" else [(4, 10, 20)])
    (mirror,) = [outcome for outcome in world.update().mirrors if outcome.table == str(name)]
    assert mirror.needs_dump
    assert DISPROVED in str(mirror.behind)
