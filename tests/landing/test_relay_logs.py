"""Relay logs of real replicas: they are refused as an archive, and say nothing of what their source had before them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.codes import MAGIC, EventType
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.cli.main import run
from strata_cdc.errors import Usage
from strata_cdc.landing.land_files import land_files
from tests.landing.landing import executed
from tests.mariadb_server import FAMILIES, start_family
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
REPLICATE = {
    "mysql": "SET GLOBAL gtid_purged = '{before}'; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1',"
    " SOURCE_PORT={port}, SOURCE_USER='root', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1;"
    " START REPLICA IO_THREAD",
    "mariadb": "SET GLOBAL gtid_slave_pos = '{before}'; CHANGE MASTER TO MASTER_HOST='127.0.0.1',"
    " MASTER_PORT={port}, MASTER_USER='root', MASTER_USE_GTID=slave_pos, MASTER_SSL=0; START SLAVE IO_THREAD",
}


OPTIONS = {"mysql": (), "mariadb": ("--log-slave-updates",)}


@pytest.fixture(scope="module", params=FAMILIES)
def relay_logs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of relay logs that begin after the source had made tables."""
    folder, vendor = tmp_path_factory.mktemp("pair"), request.param.partition("-")[0]
    options = ("--server-id=2", "--relay-log=relay-bin", *OPTIONS[vendor])
    with (
        start_family(folder / "a", request.param, "--server-id=1") as source,
        start_family(folder / "b", request.param, *options) as replica,
    ):
        source.run_sql("CREATE DATABASE d; CREATE TABLE d.t (a INT, b INT); CREATE TABLE d.u (a INT)")
        replica.run_sql(REPLICATE[vendor].format(before=executed(source), port=source.port))
        # The table stays as it is; MySQL logs the statement all the same.
        source.run_sql("CREATE TABLE IF NOT EXISTS d.t (b INT, a INT); INSERT INTO d.t (a, b) VALUES (1, 2)")
        source.run_sql("INSERT INTO d.u VALUES (3); FLUSH BINARY LOGS; CREATE DATABASE the_end")
        wait_until(lambda: any(b"the_end" in log.read_bytes() for log in logs_of(replica)))
        archive = folder / "archive"
        archive.mkdir()
        for log in logs_of(replica):
            shutil.copy(log, archive)
        yield archive


def logs_of(replica: MysqlServer) -> list[Path]:
    return sorted(log for log in replica.binlog_dir.glob("relay-bin.*") if log.suffix[1:].isdigit())


def test_they_do_not_land(relay_logs, tmp_path):
    (tmp_path / "archive").mkdir()
    for log in sorted(relay_logs.iterdir()):
        shutil.copy(log, tmp_path / "archive")
        with pytest.raises(Usage, match=r"is a replica's relay log.*log_replica_updates"):
            land_files(str(tmp_path / "archive"), lake=str(tmp_path), source="s")
        (tmp_path / "archive" / log.name).unlink()
    assert not list((tmp_path / "landing" / "s").glob("*.binlog"))


def decode(logs: list[Path], out: Path, *options: str) -> tuple[int, list[dict[str, int]]]:
    code = run(["--json", "decode", *map(str, logs), "--out", str(out), *options])
    return code, [json.loads(line)["after"] for line in out.read_text().splitlines()]


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    return json.loads(capsys.readouterr().err.splitlines()[-1])


def test_what_was_there_before_them_is_not_known(relay_logs, tmp_path, capsys):
    out, logs, baseline = tmp_path / "rows.jsonl", sorted(relay_logs.iterdir()), tmp_path / "baseline.sql"
    for table in ("d.t", "d.u"):
        assert decode(logs, out, "--table", table) == (1, [])
        error = said(capsys)
        assert error["error"] == "SchemaGapError"
    assert "a relay log does not say what there was before it" in error["message"]
    assert decode(logs, out, "--physical") == (0, [{"@1": 1, "@2": 2}, {"@1": 3}])
    baseline.write_text("CREATE DATABASE d; USE d; CREATE TABLE t (a INT, b INT); CREATE TABLE u (a INT);")
    assert decode(logs, out, "--baseline", str(baseline)) == (0, [{"a": 1, "b": 2}, {"a": 3}])


def test_what_a_replica_did_not_ask_for(relay_logs, tmp_path, capsys):
    """A MariaDB without `log_slave_updates` gets no ANNOTATE_ROWS, so nothing proves that no rows are missing."""
    for log in sorted(relay_logs.iterdir()):
        with open_binlog(log) as binlog:
            index = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format)
            begins, annotations = index.positions, index.types == EventType.ANNOTATE_ROWS
            spans = zip(begins[~annotations], (begins + index.lengths)[~annotations], strict=True)
            path = tmp_path / log.name
            path.write_bytes(MAGIC + b"".join(binlog.buffer[begin:end].tobytes() for begin, end in spans))
        if annotations.any():
            assert decode([path], tmp_path / "rows.jsonl", "--physical")[0] == 1
            assert "without `log_slave_updates`" in said(capsys)["remedy"]
