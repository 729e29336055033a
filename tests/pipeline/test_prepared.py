"""XA on a real server: rows of prepared transactions are there from their XA COMMIT on, and never after XA ROLLBACK."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.cli.main import run
from strata_cdc.config.settings import Source, SourceSettings
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.place_prepared import UNNAMED
from strata_cdc.pipeline.decode.decode_slice import decode_slice_to_files, planned_tasks, store_decoded
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.progress.status import source_status
from strata_cdc.quality.check_step.check_interval import check_interval
from strata_cdc.quality.proof.replay import replay_source
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import open_store
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.tables.commit import publish
from strata_cdc.tables.read import read_columns
from strata_cdc.tracking.track_schema import track_landed
from tests.mysql_server import launch
from tests.quality.compare_rows import compare_rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
DURABLE = ("--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")


class Shop:
    """A database of a server that may be restarted, and what has been made of its stream."""

    def __init__(self, server: MysqlServer, folder: Path, database: str) -> None:
        self.server, self.database = server, database
        settings = SourceSettings("-", tables=(f"{database}.*",))
        address = ServerAddress.from_url(server.url)
        self.source = Source("s", address, str(folder / "lake"), "", settings)
        self.engine = open_store(f"sqlite:///{folder}/store.db")
        self.plans = []
        server.run_sql(
            f"CREATE DATABASE {database}; USE {database}; CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), c BLOB);"
            "CREATE TABLE u (a INT PRIMARY KEY, j JSON); INSERT INTO t VALUES (1, 'one', 'x'), (2, 'two', 'y')"
        )

    def run(self, sql: str) -> None:
        self.server.run_sql(sql, self.database)

    def restart(self, how: str) -> None:
        if how == "kill":
            self.server.kill()
        else:
            self.server.stop()
        self.server = launch(self.server.folder, *self.server.options, port=self.server.port)

    def land(self) -> LandedStream:
        land_binlog(self.source.address, lake=self.source.lake, source="s")
        track_landed(self.source.lake, "s", self.engine)
        return LandedStream.open(self.source.lake, "s")

    def ingest(self) -> tuple[int, int]:
        """One interval of all that is new: rows and refusals of its plan."""
        report = plan_run(self.source, self.engine, self.land(), RunRequest(), now=time.time_ns() // 1000)
        store_decoded(
            report.run_url, [f for task in planned_tasks(report.run_url) for f in decode_slice_to_files(task)]
        )
        check_interval(self.source.lake, "s", report.run, pytest.fail).raise_if_failed()
        self.plans.append(read_plan(run_folder(self.source.lake, "s", report.run)))
        self.publish()
        return report.rows, len(self.plans[-1].refused)

    def publish(self) -> None:
        """What the newest plan decoded, without checks."""
        plan = self.plans[-1]
        staged = read_decoded(run_folder(self.source.lake, "s", plan.run)).files
        assert sum(file.rows for file in staged) == sum(table.rows for table in plan.tables)
        for table, interval in {(file.name, file.interval) for file in staged}:
            files = [file for file in staged if (file.name, file.interval) == (table, interval)]
            publish(self.source.lake, "s", table, interval, files)
        TableIntervalLedger(self.engine).put(
            TableInterval(
                "s", one.interval, one.database, one.table, one.counted, IntervalState.PUBLISHED, None, one.rows
            )
            for one in plan.tables
        )

    def forget_binlogs(self) -> None:
        self.server.run_sql("FLUSH BINARY LOGS")
        self.server.run_sql(f"PURGE BINARY LOGS TO '{self.server.binlogs()[-1].name}'")

    def segments(self) -> list[str]:
        return [str(segment.name) for segment in LandedStream.open(self.source.lake, "s").segments]

    def assert_equal(self) -> None:
        """What was published, replayed, is what SELECT gives."""
        # The server is shared: others have tables on it, too.
        states = replay_source(self.source.lake, "s", self.engine, lambda name: name.database == self.database)
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            for name, state in states.items():
                cursor.execute(f"SELECT * FROM `{name.database}`.`{name.table}`")
                found = compare_rows(state, cursor.fetchall())
                assert (str(name), found.examples) == (str(name), ())
                assert found.equal

    def changes(self, table: str) -> list[dict]:
        generations = read_columns(self.source.lake, "s", TableName(self.database, table))
        rows = [row for generation in generations for row in generation.to_pylist()]
        return sorted(rows, key=lambda row: (row["_seq"], row["_row"]))


@pytest.fixture
def shop(mysql_server, tmp_path, request):
    shop = Shop(mysql_server, tmp_path, f"xa_{abs(hash(request.node.name)) % 10**8}")
    yield shop
    # The server is shared: nobody else is to find them.
    with closing(mysql_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("XA RECOVER CONVERT XID")
        for format_id, gtrid_bytes, _, data in cursor.fetchall():
            text = data[2:]
            cursor.execute(f"XA ROLLBACK X'{text[: 2 * gtrid_bytes]}', X'{text[2 * gtrid_bytes :]}', {format_id}")


@pytest.fixture
def own_shop(tmp_path):
    """On a server that keeps what it was told, however it ends."""
    shop = Shop(launch(tmp_path / "mysql", *DURABLE), tmp_path, "d")
    try:
        yield shop
    finally:
        shop.server.kill()


def prepare(xid: str, sql: str) -> str:
    return f"XA START {xid}; {sql}; XA END {xid}; XA PREPARE {xid};"


def test_rows_are_there_from_the_commit_on_over_intervals_files_and_restarts(own_shop, tmp_path):
    shop = own_shop
    shop.run(
        prepare("'p1'", "INSERT INTO t VALUES (10, 'p1', 'p'); UPDATE t SET b = 'p1' WHERE a = 1")
        + "INSERT INTO u VALUES (1, '[1]');"
        + prepare("'p2'", "INSERT INTO t VALUES (20, 'p2', NULL)")
        + "FLUSH BINARY LOGS; INSERT INTO t VALUES (3, 'three', NULL);"
        + prepare("'p3','b',7", "INSERT INTO u VALUES (30, '{\"k\": 3}')")
        + "XA ROLLBACK 'p2'; XA START 'op'; INSERT INTO t VALUES (4, 'op', NULL); XA END 'op';"
        "XA COMMIT 'op' ONE PHASE;"
    )
    assert shop.ingest() == (5, 0), "two at first, and u 1, t 3, t 4: nothing of what is undecided or rolled back"
    shop.assert_equal()
    shop.run("CREATE TABLE other (a INT PRIMARY KEY); INSERT INTO other VALUES (1); ALTER TABLE other ADD COLUMN b INT")
    shop.restart("stop")
    shop.run("INSERT INTO t VALUES (5, 'five', NULL); FLUSH BINARY LOGS; ALTER TABLE other ADD COLUMN c INT FIRST")
    assert shop.ingest() == (2, 0)
    shop.assert_equal()
    shop.restart("kill")
    shop.run(
        "XA RECOVER; XA COMMIT 'p1'; INSERT INTO other VALUES (1, 2, 3);"
        # The XID once more, after its commit.
        + prepare("'p1'", "DELETE FROM t WHERE a = 2")
        + "FLUSH BINARY LOGS; XA COMMIT 'p3','b',7; XA COMMIT 'p1'"
    )
    assert shop.ingest() == (5, 0)
    shop.assert_equal()
    found = shop.changes("t")
    (commit,) = {row["_gtid"] for row in found if row["b"] == "p1" and row["a"] == 10}
    of_commit = [row for row in found if row["_gtid"] == commit]
    assert [(row["_op"], row["a"], row["_row"]) for row in of_commit] == [("insert", 10, 0), ("update", 1, 1)]
    _, record = LandedStream.open(shop.source.lake, "s").record_at(of_commit[0]["_seq"])
    assert str(record.mark) == "XA COMMIT X'7031',X'',1"
    assert str(record.gtid) == commit
    assert of_commit[0]["_binlog_file"] < record.binlog_file, "where the row event is"
    assert {int(row["_committed_at"].timestamp() * 1e6) for row in of_commit} == {record.committed_at}
    out = tmp_path / "rows.jsonl"
    assert run(["decode", *map(str, shop.server.binlogs()), "--table", "d.t", "--out", str(out)]) == 0
    decoded = [json.loads(line) for line in out.read_text().splitlines()]
    keys = ("seq", "row", "gtid", "op")
    assert [tuple(row[key] for key in keys) for row in decoded] == [
        tuple(row[f"_{key}"] for key in keys) for row in found
    ]


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("compression", ["OFF", "ON"])
def test_every_image_compressed_or_not(shop, image, compression):
    shop.run(
        f"SET SESSION binlog_row_image = {image}; SET SESSION binlog_transaction_compression = {compression};"
        + prepare("'a'", "INSERT INTO t (a) VALUES (10), (11); UPDATE t SET b = 'new' WHERE a = 1")
        + prepare("'b'", "INSERT INTO t VALUES (20, 'gone', 'z')")
        + "INSERT INTO u VALUES (1, NULL);"
        + prepare("'c'", "DELETE FROM t WHERE a = 2; INSERT INTO t VALUES (2, 'again', REPEAT('z', 9000))")
        + "XA COMMIT 'c'; XA ROLLBACK 'b'; XA START 'd'; INSERT INTO t VALUES (40, 'd', 'd'); XA END 'd';"
        "XA COMMIT 'd' ONE PHASE; INSERT INTO t VALUES (50, 'e', NULL); XA COMMIT 'a'"
    )
    assert shop.ingest() == (10, 0)
    shop.assert_equal()
    assert [row["a"] for row in shop.changes("t")][:-1] == [1, 2, None, 2, 40, 50, 10, 11]


def test_what_is_undecided_is_shown_and_its_segment_stays(shop):
    shop.run(prepare("'x'", "INSERT INTO t VALUES (10, 'x', NULL); INSERT INTO u VALUES (1, NULL), (2, NULL)"))
    shop.run("FLUSH BINARY LOGS; INSERT INTO t VALUES (3, 'y', NULL)")
    assert shop.ingest() == (3, 0)
    (held,) = source_status(shop.source, shop.engine, now=time.time_ns() // 1000).prepared
    assert (held.xid, held.rows) == ("X'78',X'',1", {f"{shop.database}.t": 1, f"{shop.database}.u": 2})
    _, record = LandedStream.open(shop.source.lake, "s").record_at(held.seq)
    assert (held.gtid, held.since) == (str(record.gtid), record.committed_at)
    assert held.position == f"{record.binlog_file}:{record.binlog_pos}"
    before = shop.segments()
    later = time.time_ns() // 1000 + 10**13
    source = replace(shop.source, settings=structs.replace(shop.source.settings, keep_gb=0))
    retained = retain_landed(source, shop.engine, now=later)
    assert "XA PREPARE X'78',X'',1 in it is undecided" in retained.held_by
    assert held.seq in range(LandedStream.open(shop.source.lake, "s").first_seq, held.seq + 1)
    shop.run("FLUSH BINARY LOGS; INSERT INTO t VALUES (4, 'y', NULL)")
    assert shop.ingest() == (1, 0)
    shop.run("XA COMMIT 'x'; FLUSH BINARY LOGS; INSERT INTO t VALUES (5, 'y', NULL)")
    shop.land()
    assert "an XA COMMIT of what it prepares" in retain_landed(source, shop.engine, now=later).held_by
    publish, shop.publish = shop.publish, lambda: None
    assert shop.ingest() == (4, 0)
    assert "owed, not published" in retain_landed(source, shop.engine, now=later).held_by
    publish()
    assert retain_landed(source, shop.engine, now=later).held_by is None
    assert shop.segments() == shop.segments()[-1:] != before
    assert source_status(shop.source, shop.engine, now=later).prepared == ()
    shop.assert_equal()


def test_what_the_stream_does_not_tell_is_refused(shop):
    shop.run(prepare("'early'", "INSERT INTO t VALUES (10, 'x', NULL)"))
    shop.forget_binlogs()
    shop.run("CREATE TABLE v (a INT PRIMARY KEY); INSERT INTO v VALUES (1); XA COMMIT 'early'")
    # Decided, but not logged; then the XID once more.
    shop.run(
        prepare("'dark'", "INSERT INTO v VALUES (2)")
        + "SET SESSION sql_log_bin = 0; XA COMMIT 'dark'; SET SESSION sql_log_bin = 1;"
        + prepare("'dark'", "INSERT INTO v VALUES (3)")
        + "XA COMMIT 'dark'"
    )
    assert shop.ingest() == (2, 2)
    lost, dark = shop.plans[-1].refused
    assert (lost.table, lost.rows) == (str(UNNAMED), 0)
    assert lost.error.message.startswith("XA COMMIT X'6561726c79',X'',1 has no XA PREPARE in the landed stream")
    assert None not in (lost.error.gtid, lost.error.file, lost.error.offset, lost.error.remedy)
    assert (dark.table, dark.rows) == (f"{shop.database}.v", 0)
    assert "X'6461726b',X'',1 was prepared before" in dark.error.message
    assert [row["a"] for row in shop.changes("v")] == [1, 3]
    # The server is shared: other tests are to find a stream that tells all.
    shop.forget_binlogs()


def test_statements_of_a_prepared_transaction_are_told_where_it_is_committed(shop):
    shop.run(
        "SET SESSION binlog_format = STATEMENT;"
        + prepare("'p'", "INSERT INTO t VALUES (10, 'x', NULL)")
        + prepare("'q'", "INSERT INTO t VALUES (11, 'x', NULL)")
    )
    assert shop.ingest() == (2, 0)
    assert shop.plans[-1].statements == ()
    shop.run("XA COMMIT 'p'; XA ROLLBACK 'q'")
    assert shop.ingest() == (0, 0)
    (reported,) = shop.plans[-1].statements
    assert (reported.table_name, reported.statement) == (f"{shop.database}.t", "INSERT INTO t VALUES (10, 'x', NULL)")
