"""Search: what is found in names, statements and the definitions of snapshots, whatever is looked for."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.schema.answers.catalogue import tables_page
from strata_cdc.schema.answers.containing import contains
from strata_cdc.schema.answers.search import search
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import Column, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.store.database import open_store, writing
from strata_cdc.store.tables import schema_version
from tests.schema.streams import Stream, track
from tests.schema.test_track_snapshots import midway, snap

SIGNS = "aAzZ09_%\\*?[]^-!.'\"<{,: éÉßİ\u0131\u017f\u212a😀\u202e"
OLD = TableDefinition(
    (Column("Größe", "enum('a\"b','neu')"), Column("naïve", "int", comment="of, then: {no} true\\t")),
    (Key("k", KeyKind.INDEX, (KeyPart("Größe", prefix_length=77),)),),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = filled(f"sqlite:///{tmp_path_factory.mktemp('search')}/store.db")
    yield made
    made.dispose()


def filled(url):
    """A store of a snapshot with two tables, one of them changed later, and three statements."""
    store = SchemaStore(open_store(url))
    stream = midway()
    snap(store, str(stream.executed), {TableName("d", "old"): OLD, TableName("d", "plain"): TableDefinition()})
    changed = "ALTER TABLE old ADD COLUMN later INT COMMENT 'ÉTÉ'"
    track(store, stream, changed, "CREATE TABLE gone (x INT)", "DROP TABLE gone")
    return store.engine


@pytest.mark.mysql
def test_mysql_finds_the_same(engine, mysql_server):
    other = filled(f"{mysql_server.url}search_of_history")
    for term in ("größe", "NAÏVE", "name", "été", "GONE", "%", "o_", "\\", "'", "d.", "nothing", "😀"):
        assert search(other, "s", term) == search(engine, "s", term), term
        assert search(other, "s", term, limit=1) == search(engine, "s", term, limit=1), term
    other.dispose()
    mysql_server.run_sql("DROP DATABASE search_of_history")


@pytest.mark.parametrize("term", ["größe", "GRÖ", 'a"b', "NEU'", "NAÏVE", "of, then", "{no}", "true", "\\t", "enum("])
def test_columns_of_a_snapshot_are_found_by_what_is_in_them(engine, term):
    assert search(engine, "s", term).columns == (TableName("d", "old"),)


@pytest.mark.parametrize(
    "term", ["name", "column_type", '":', "},{", "[", "77", "nullable", "false", "nothing", "%", "_b", "o_"]
)
def test_how_a_definition_is_written_down_is_not_found(engine, term):
    assert not search(engine, "s", term).columns


@pytest.mark.parametrize("term", ["été", "ÉTÉ", "Été", "later INT comment 'É"])
def test_a_statement_is_found_in_any_case(engine, term):
    assert [one.tables for one in search(engine, "s", term).statements] == [(TableName("d", "old"),)]


def test_what_was_dropped_is_found(engine):
    found = search(engine, "s", "GONE")
    assert [one.name.table for one in found.tables] == ["gone"]
    assert [one.ddl for one in found.statements] == ["DROP TABLE gone", "CREATE TABLE gone (x INT)"]


def test_what_only_old_statements_have_is_found_behind_many(tmp_path):
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    more = ["ALTER TABLE t ADD COLUMN y INT", "ALTER TABLE t DROP COLUMN y"] * 1100
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE t (first INT)", *more)
    for limit in (1, 50):
        assert len(search(store.engine, "s", "column", limit=limit).statements) == limit
        assert [one.ddl for one in search(store.engine, "s", "first", limit=limit).statements] == [
            "CREATE TABLE t (first INT)"
        ]


def test_a_password_of_an_old_store_is_neither_shown_nor_found(tmp_path):
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    track(store, Stream(), "CREATE DATABASE d", "CREATE TABLE t (a INT)")
    secret = "CREATE TABLE t (a INT) CONNECTION='mysql://u:hidden@h/d/t'"
    with writing(store.engine) as connection:
        # Older versions stored statements as they were.
        connection.execute(schema_version.update().where(schema_version.c.ddl.like("CREATE TABLE%")).values(ddl=secret))
    [found] = search(store.engine, "s", "connection").statements
    assert "hidden" not in found.ddl
    assert not search(store.engine, "s", "hidden").statements


def has(text, part):
    """Without regard to the case of characters that are one character in the other case."""
    either = [{one for one in (sign, sign.lower(), sign.upper()) if len(one) == 1} for sign in part]
    if part.isascii():
        either = [{one for one in signs if one.isascii()} for signs in either]
    return any(
        all(sign in signs for sign, signs in zip(text[at : at + len(part)], either, strict=True))
        for at in range(len(text) - len(part) + 1)
    )


@given(st.text(SIGNS, max_size=12), st.text(SIGNS, min_size=1, max_size=4))
@example("a\x00b", "\x00")
@example("ab", "\x00")
@example("xÉ]", "é]")
def test_sqlite_finds_as_python_does(text, part):
    with sa.create_engine("sqlite://").connect() as connection:
        query = sa.select(contains(sa.literal(text), part, connection.dialect))
        assert bool(connection.execute(query).scalar()) is has(text, part)


def test_a_page_of_tables_begins_behind_a_name(engine):
    assert [one.name.table for one in tables_page(engine, "s", containing="D.").tables] == ["gone", "old", "plain"]
    later = tables_page(engine, "s", after=TableName("d", "gone"), containing="l", limit=1)
    assert [one.name.table for one in later.tables] == ["old"]
    assert later.has_more
