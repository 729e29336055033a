"""A source without GTIDs through every step: what is read at the end, what the steps say of it, what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.config.settings import load_settings
from strata_cdc.errors import SourceSettingsError
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.ops.doctor.check_source import check_source
from strata_cdc.ops.doctor.findings import FindingSeverity
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.progress.status import source_status
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.schema.history.historian import History
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.replay.baseline import read_baseline
from strata_cdc.store.database import open_store
from strata_cdc.tables.read import read_changes
from strata_cdc.tracking.track_schema import track_files, track_landed
from strata_cdc.tracking.watch.watch_ddl import DdlWatch
from tests.mysql_server import start_server
from tests.spark_session import spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.config.settings import Settings
    from strata_cdc.runs.specs import PlanReport
    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.mysql, pytest.mark.spark, pytest.mark.slow]
__all__ = ["spark"]
S = "shop"
DAY = 86_400_000_000
ORDERS, EARLY = TableName("shop", "orders"), TableName("shop", "early")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    """A server whose oldest binlog is not its first: what was there before is known from a snapshot alone."""
    folder = tmp_path_factory.mktemp("unnumbered")
    with start_server(folder, "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF") as running:
        running.run_sql("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(20))")
        running.run_sql("CREATE TABLE shop.kept (a INT PRIMARY KEY); FLUSH BINARY LOGS")
        running.run_sql(f"PURGE BINARY LOGS TO '{running.binlogs()[-1].name}'")
        yield running


@pytest.fixture
def settings(server: MysqlServer, tmp_path: Path) -> Settings:
    (tmp_path / "strata.toml").write_text(
        'lake = "lake"\n[sources.shop]\nconnection = "it"\n'
        f'store = "sqlite:///{tmp_path}/s.db"\nkeep_days = 1\ntables = ["shop.*"]\n'
    )
    return load_settings({"STRATA_SETTINGS": str(tmp_path / "strata.toml"), "AIRFLOW_CONN_IT": server.url})


def run_all(settings: Settings, spark: Any) -> PlanReport:
    """One run; returns the plan's report."""
    for step in (ingest.land, ingest.track):
        step(S, settings=settings)
    planned = ingest.plan(S, None, None, settings=settings)
    files = [file for task in planned_tasks(planned.run_url) for file in decode_slice_to_files(task)]
    store_decoded(planned.run_url, files)
    check_interval(settings.lake, S, planned.run, lambda: spark).raise_if_failed()
    ingest.publish(S, planned.run, settings=settings)
    return planned


def test_every_step(server: MysqlServer, settings: Settings, spark: Any) -> None:
    assert ingest.land(S, settings=settings).landing.transactions == 0, "it has taken a snapshot"
    server.run_sql(
        """
        INSERT INTO orders VALUES (1, 'first'), (2, NULL); FLUSH BINARY LOGS; FLUSH BINARY LOGS;
        ALTER TABLE orders ADD COLUMN n INT FIRST; INSERT INTO orders VALUES (7, 3, 'third');
        """,
        "shop",
    )
    planned = run_all(settings, spark)
    assert (planned.rows, planned.refused) == (3, 0)
    server.run_sql("ALTER TABLE orders RENAME COLUMN note TO remark; INSERT INTO kept VALUES (1)", "shop")
    taken = ingest.snapshot(S, settings=settings)
    assert taken.binlog_position.startswith(server.binlogs()[-1].name)
    server.run_sql("FLUSH BINARY LOGS; UPDATE orders SET n = 8; ALTER TABLE kept ADD COLUMN b INT", "shop")
    planned = run_all(settings, spark)
    assert (planned.rows, planned.refused) == (4, 0)

    source = settings.source(S)
    engine = open_store(source.store_url)
    store = SchemaStore(engine)
    assert (store.pending_snapshots(S), store.drifts(S)) == ([], [])
    rows = read_changes(settings.lake, S, ORDERS).sort_by([("_seq", "ascending"), ("_row", "ascending")]).to_pylist()
    assert [(row["n"], row["id"], row["note"], row["remark"]) for row in rows] == [
        (None, 1, "first", None),
        (None, 2, None, None),
        (7, 3, "third", None),
        (8, 1, None, "first"),
        (8, 2, None, None),
        (8, 3, None, "third"),
    ]
    assert {row["_gtid"] for row in rows} == {None}
    files = [path.name for path in server.binlogs()]
    assert [files.index(row["_binlog_file"]) for row in rows] == [0, 0, 2, 3, 3, 3]
    assert all(row["_binlog_pos"] > 4 for row in rows)
    found = source_status(source, engine, now=ingest.now_micros())
    assert (found.landed_seq, found.landed_gtid_set) == (found.tracked_seq, "")
    assert found.landed_position == f"{files[-1]}:{server.binlogs()[-1].stat().st_size}"
    assert {(table.table, table.gap) for table in found.tables} == {("shop.orders", None), ("shop.kept", None)}
    assert len(retain_landed(source, engine, now=ingest.now_micros() + 2 * DAY).segments) >= 1
    server.run_sql("INSERT INTO kept VALUES (2, 2)", "shop")
    assert run_all(settings, spark).rows == 1


def test_what_it_cannot_do_is_said(server: MysqlServer, settings: Settings) -> None:
    source = settings.source(S)
    findings = {finding.name: finding for finding in check_source(source)}
    assert [name for name, finding in findings.items() if finding.severity is FindingSeverity.ERROR] == []
    assert findings["gtid_mode"].severity is FindingSeverity.WARNING
    assert "failover" in findings["gtid_mode"].what
    assert findings["landed"].what == "nothing yet"
    watch = DdlWatch(source, open_store(source.store_url))
    with pytest.raises(SourceSettingsError, match="gtid_mode is OFF"):
        watch.next()


def test_a_server_that_cannot_keep_ddl_out_begins_with_a_baseline(server: MysqlServer, settings: Settings) -> None:
    server.run_sql("CREATE TABLE early (a INT); FLUSH BINARY LOGS", "shop")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    server.run_sql("INSERT INTO early VALUES (1); FLUSH BINARY LOGS; FLUSH BINARY LOGS", "shop")
    source = settings.source(S)
    engine = open_store(source.store_url)
    land_binlog(source.address, lake=source.lake, source=S)
    landed = [segment.url for segment in LandedStream.open(source.lake, S).segments]
    script = "CREATE DATABASE shop; USE shop; CREATE TABLE early (a INT)"
    assert track_files(landed, engine, S, baseline=read_baseline(script, "dump.sql")).gaps == 0
    server.run_sql("ALTER TABLE early ADD COLUMN b INT; INSERT INTO early VALUES (2, 2)", "shop")
    land_binlog(source.address, lake=source.lake, source=S)
    report = track_landed(source.lake, S, engine)
    assert (report.transactions, report.gaps, report.seq) == (2, 0, 3)
    history = History(SchemaStore(engine), S)
    shapes = [[column.name for column in history.at(EARLY, AtSeq(seq)).definition.columns] for seq in (1, 3)]
    assert shapes == [["a"], ["a", "b"]]


def test_the_doctor_looks_where_the_landing_ends(server: MysqlServer, settings: Settings) -> None:
    server.run_sql("INSERT INTO kept (a) VALUES (10)", "shop")
    ingest.land(S, settings=settings)
    landed = LandedStream.open(settings.lake, S).last_seq
    found = {finding.name: finding for finding in check_source(settings.source(S))}
    assert (found["landed"].severity, found["landed"].what) == (
        FindingSeverity.OK,
        f"{landed} transactions, up to {server.binlogs()[-1].name}:{server.binlogs()[-1].stat().st_size}",
    )
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    found = {finding.name: finding for finding in check_source(settings.source(S))}
    assert found["landed"].severity is FindingSeverity.ERROR
    assert "purged" in found["landed"].what
