"""Snapshot, land and track a real server, in the orders in which that happens in life."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.cli.main import run
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.errors import AccessDeniedError, SchemaGapError, SourceUnavailableError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.tracking.notice_ddl import track_source
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.track_schema import track_landed
from strata_cdc.values import to_plain

T = TableName("shop", "t")


@pytest.fixture
def position(server, tmp_path):
    """A server with a table that is older than its binlogs, a lake and a store on the server itself."""
    server.run_sql("DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS strata")
    server.run_sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT); CREATE TABLE shop.u (x INT)")
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    engine = open_store(server.url)
    yield ServerAddress("127.0.0.1", server.port), str(tmp_path / "lake"), engine
    engine.dispose()


def go(position):
    address, lake, engine = position
    land_binlog(address, lake=lake, source="s")
    return track_landed(lake, "s", engine)


def columns(position, seq, table=T):
    history = History(SchemaStore(position[2]), "s")
    return [column.name for column in history.at(table, AtSeq(seq)).definition.columns]


def shown(position, command, form, capsys):
    """What `strata schema` says of table shop.k."""
    where = ["--source", "s", "--store", position[2].url.render_as_string(hide_password=False), "--table", "shop.k"]
    capsys.readouterr()
    assert run(["schema", command, *where, "--format", form]) == 0
    return capsys.readouterr().out


@pytest.mark.mysql
class TestOrders:
    def test_snapshot_first(self, server, position):
        address, _, engine = position
        report = snapshot_schemas(address, engine, "s")
        assert (report.tables, report.hidden) == (2, ())
        server.run_sql("INSERT INTO shop.t VALUES (1); ALTER TABLE shop.t ADD b INT")
        tracked = go(position)
        assert (tracked.gaps, tracked.drifts) == (0, 0)
        assert columns(position, 0) == ["a"]
        assert columns(position, tracked.seq) == ["a", "b"]
        assert SchemaStore(engine).pending_snapshots("s") == []

    def test_a_length_of_a_key_that_no_binlog_holds(self, server, position, capsys):
        snapshot_schemas(position[0], position[2], "s")
        server.run_sql(
            "SET sql_mode = '', default_storage_engine = MyISAM; CREATE TABLE shop.k (a VARCHAR(255), KEY k (a))"
            " CHARSET utf8mb4; CREATE TABLE shop.c (a VARCHAR(300), KEY k (a)) ENGINE InnoDB ROW_FORMAT COMPACT"
            " CHARSET utf8mb4"
        )
        first = go(position)
        assert [text.partition(":")[0] for text in first.examples if "length" in text] == ["shop.k"]
        for command, form in (("show", "table"), ("show", "jsonl"), ("history", "table"), ("history", "jsonl")):
            said = shown(position, command, form, capsys)
            assert "the length of key `k`'s part `a` is not in the binlog: all or 250" in said
        snapshot_schemas(position[0], position[2], "s")
        server.run_sql("INSERT INTO shop.t VALUES (1); SET sql_mode = ''; ALTER TABLE shop.k ADD KEY l (a)")
        tracked = go(position)
        assert (tracked.gaps, tracked.drifts) == (0, 0)
        assert "in_doubt" not in shown(position, "show", "jsonl", capsys)
        assert "~ key k index (a(all or 250)) -> k index (a(250))" in shown(position, "history", "table", capsys)
        keys = History(SchemaStore(position[2]), "s").at(TableName("shop", "k"), AtSeq(tracked.seq)).definition.keys
        assert {key.name: key.parts[0].prefix_length for key in keys} == {"k": 250, "l": 250}

    def test_snapshot_last(self, server, position):
        """Landed and tracked first: what nothing had touched is known from the start all the same."""
        server.run_sql("INSERT INTO shop.t VALUES (1); ALTER TABLE shop.u ADD y INT; INSERT INTO shop.u VALUES (1, 1)")
        first = go(position)
        with pytest.raises(SchemaGapError):
            columns(position, first.seq)
        snapshot_schemas(position[0], position[2], "s")
        go(position)
        assert columns(position, 0) == ["a"]
        assert columns(position, first.seq, TableName("shop", "u")) == ["x", "y"]
        with pytest.raises(SchemaGapError):
            columns(position, 0, TableName("shop", "u"))

    def test_snapshot_between_landing_and_tracking(self, server, position):
        address, lake, engine = position
        server.run_sql("INSERT INTO shop.t VALUES (1)")
        land_binlog(address, lake=lake, source="s")
        snapshot_schemas(address, engine, "s")
        server.run_sql("ALTER TABLE shop.t ADD b INT")
        track_landed(lake, "s", engine)
        tracked = go(position)
        assert columns(position, 0) == ["a"]
        assert columns(position, tracked.seq) == ["a", "b"]

    def test_hourly_snapshots_agree(self, server, position):
        for number in range(3):
            server.run_sql(f"ALTER TABLE shop.t ADD c{number} INT")
            snapshot_schemas(position[0], position[2], "s")
            report = go(position)
            assert report.drifts == 0
        assert columns(position, report.seq) == ["a", "c0", "c1", "c2"]

    def test_a_change_behind_the_binlogs_back_is_drift(self, server, position):
        snapshot_schemas(position[0], position[2], "s")
        go(position)
        server.run_sql("SET sql_log_bin = 0; ALTER TABLE shop.t ADD hidden INT")
        snapshot_schemas(position[0], position[2], "s")
        server.run_sql("INSERT INTO shop.t VALUES (1, 2)")
        report = go(position)
        assert report.drifts == 1
        [drift] = SchemaStore(position[2]).drifts("s")
        assert drift.name == T
        assert columns(position, report.seq) == ["a", "hidden"]

    def test_again_changes_nothing(self, server, position):
        snapshot_schemas(position[0], position[2], "s")
        go(position)
        store = SchemaStore(position[2])
        before = store.all_entries("s")
        for _ in range(2):
            go(position)
        assert store.all_entries("s") == before

    def test_reports_are_small(self, server, position):
        report = snapshot_schemas(position[0], position[2], "s")
        assert len(json.dumps(to_plain(report))) < 1024
        assert len(json.dumps(to_plain(go(position)))) < 1024


@pytest.mark.mysql
def test_what_stands_in_the_way_is_said(server):
    engine = open_store("sqlite://")
    with pytest.raises(AccessDeniedError) as caught:
        snapshot_schemas(ServerAddress("127.0.0.1", server.port, "root", "sEcReT"), engine, "s")
    assert "sEcReT" not in str(caught.value)
    with pytest.raises(SourceUnavailableError):
        snapshot_schemas(ServerAddress("127.0.0.1", 1), engine, "s")


@pytest.mark.mysql
def test_versions_switched_off_and_on_again(server, position, tmp_path):
    address, lake, engine = position
    source = Source("s", address, lake, server.url, SourceSettings("c"))
    switched_off = replace(source, settings=SourceSettings("c", track_schema_versions=False))
    snapshot_schemas(address, engine, "s")
    land_binlog(address, lake=lake, source="s")
    before = track_source(source, engine)
    server.run_sql("ALTER TABLE shop.t ADD b INT; INSERT INTO shop.t VALUES (1, 2); CREATE VIEW shop.v AS SELECT 1")
    land_binlog(address, lake=lake, source="s")
    for _ in range(2):
        report = track_source(switched_off, engine)
        assert (report.statements, report.versions, report.seq) == (2, 0, before.seq)
        assert "ALTER TABLE shop.t ADD b INT" in report.examples[0]
    with pytest.raises(SchemaGapError, match="beyond what has been tracked"):
        columns(position, before.seq + 1)
    assert track_source(source, engine).seq > before.seq
    assert columns(position, History(SchemaStore(engine), "s").tracked.seq) == ["a", "b"]
