"""A database whose name has a dot: its tables through RENAME, as a real server logs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from strata_cdc.cli.main import run
from strata_cdc.schema.answers.blame import column_origins
from strata_cdc.schema.answers.catalogue import tables_page
from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.history.column_lifetimes import find_column_lifetimes
from strata_cdc.schema.history.former_names import former_name_text, former_names
from strata_cdc.schema.history.lineage import lineage
from strata_cdc.schema.history.one_column import columns_by_name
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import table_changes_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.row_effects import EffectKind
from strata_cdc.store.database import open_store
from strata_cdc.store.tables import table_version
from strata_cdc.tracking.track_schema import track_files
from tests.schema.streams import Stream, track
from tests.schema.test_lineage import GH_OST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

OLD, THEN, NOW = TableName("a.b", "t"), TableName("a.b", "u.v"), TableName("c", "t")
MISREAD = TableName("a", "b.t")
STATEMENTS = (
    "CREATE DATABASE `a.b`",
    "CREATE DATABASE a",
    "CREATE DATABASE c",
    "CREATE TABLE `a.b`.t (id INT PRIMARY KEY, x INT COMMENT 'seen', KEY k (x)) ENGINE=InnoDB",
    "CREATE TABLE a.`b.t` (other INT)",
    "ALTER TABLE `a.b`.t RENAME TO `a.b`.`u.v`",
    "RENAME TABLE `a.b`.`u.v` TO c.t",
    "ALTER TABLE c.t RENAME COLUMN x TO y",
)


@pytest.fixture(scope="module")
def binlog(mysql_server: MysqlServer) -> str:
    with mysql_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("RESET BINARY LOGS AND GTIDS")
        for statement in STATEMENTS:
            cursor.execute(statement)
        cursor.execute("SHOW CREATE TABLE c.t")
        shown = str(cursor.fetchone()[1])
        cursor.execute("FLUSH BINARY LOGS")
        for database in ("`a.b`", "a", "c"):
            cursor.execute(f"DROP DATABASE {database}")
    (mysql_server.folder / "shown.sql").write_text(shown)
    return str(mysql_server.binlogs()[0])


@pytest.fixture(params=["as now", "as former versions stored it"])
def store(request: pytest.FixtureRequest, binlog: str, tmp_path: Path) -> SchemaStore:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    track_files([binlog], engine, "s")
    if request.param != "as now":
        with engine.begin() as connection:
            renamed = sa.func.replace(table_version.c.renamed_from, "`", "")
            connection.execute(table_version.update().values(renamed_from=renamed))
    return SchemaStore(engine)


@pytest.mark.mysql
def test_a_table_has_its_past(store: SchemaStore):
    assert [entry.name for entry in lineage(store, "s", NOW) if entry.name.table] == [OLD, THEN, NOW, NOW]
    assert {OLD: THEN, THEN: NOW}.items() <= {
        one.name: one.renamed_to for one in tables_page(store.engine, "s").tables
    }.items()
    assert not [one for one in lineage(store, "s", MISREAD) if one.name.table and one.name != MISREAD]


@pytest.mark.mysql
def test_its_columns_are_the_same_columns(store: SchemaStore):
    (lifetime,) = find_column_lifetimes(store, lineage(store, "s", NOW))
    assert [[step.name for step in column.steps] for column in lifetime.columns] == [["id"], ["x", "y"]]
    assert {(OLD, "x"), (THEN, "x"), (NOW, "x"), (NOW, "y")} in columns_by_name(store, "s", [NOW])
    found = list(changes(store, "s", NOW))
    assert found[-1].differences()[0] == "~ column x -> y"
    assert column_origins(found)["y"].added.ddl == STATEMENTS[3]


@pytest.mark.mysql
def test_its_rows_are_kept(store: SchemaStore):
    moved = [change for change in table_changes_of(store.engine, "s") if change.renamed_from is not None]
    assert [(change.renamed_from, change.name, change.effect.kind) for change in moved] == [
        (OLD, THEN, EffectKind.METADATA),
        (THEN, NOW, EffectKind.METADATA),
    ]


@pytest.mark.mysql
def test_the_command_shows_it(store: SchemaStore, mysql_server: MysqlServer, capsys: pytest.CaptureFixture[str]):
    asked = ["--store", store.engine.url.render_as_string(), "--source", "s", "--table"]
    assert run(["schema", "history", *asked, "c.t", "--format", "jsonl"]) == 0
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["database"], line["table"], line.get("renamed_from")) for line in reported] == [
        ("a.b", "t", None),
        ("a.b", "u.v", "a.b.t"),
        ("c", "t", "a.b.u.v"),
        ("c", "t", None),
    ]
    assert run(["schema", "history", *asked, "`a.b`.`t`", "--format", "jsonl"]) == 0
    assert [json.loads(line)["database"] for line in capsys.readouterr().out.splitlines()] == ["a.b"] * 2
    assert run(["schema", "show", *asked, "c.t", "--dialect", "mysql"]) == 0
    assert (mysql_server.folder / "shown.sql").read_text() in capsys.readouterr().out


def test_an_online_change_of_its_tables_is_one(tmp_path: Path):
    store = SchemaStore(open_store(f"sqlite:///{tmp_path}/store.db"))
    made = (text.replace("d.", "`a.b`.") for text in GH_OST)
    track(store, Stream(), "CREATE DATABASE `a.b`", "CREATE TABLE `a.b`.t (a INT, b INT)", *made)
    (online,) = [change.online for change in changes(store, "s", OLD) if change.online is not None]
    assert online.copy == TableName("a.b", "_t_gho")


@pytest.mark.parametrize("name", [OLD, THEN, MISREAD, TableName("`", "a.b"), TableName("." * 64, "`" * 64)])
def test_a_former_name_comes_back(tmp_path: Path, name: TableName):
    text = former_name_text(name)
    assert len(text) <= 130
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    row = {"version_id": 1, "source": "s", "database_name": name.database, "table_name": name.table}
    with engine.begin() as connection:
        connection.execute(table_version.insert(), [row, {**row, "database_name": "c", "renamed_from": text}])
        assert former_names(connection, [(1, text)]) == {(1, text): name}
