"""Landing that goes on until it is stopped, over broken connections and restarts; what it says of itself."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.config.settings import load_settings
from strata_cdc.errors import AlreadyRunningError, SourceDivergedError
from strata_cdc.landing.follow_binlog import wait_for_follower
from strata_cdc.landing.land_state import Doing, LandNotes, LandProgress, read_state
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline import ingest
from strata_cdc.position.executed import parse_executed
from tests.landing.landing import SOON, address_of, assert_is_the_servers, executed, following, land
from tests.mariadb_server import FAMILIES, start_family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql


@pytest.fixture(scope="module", params=FAMILIES)
def server(request, tmp_path_factory) -> Iterator[MysqlServer]:
    """A server of its own: these tests restart it and reset its binlog."""
    folder = tmp_path_factory.mktemp("following")
    with start_family(folder, request.param, "--binlog-expire-logs-seconds=2592000") as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        yield running


def test_what_is_executed_meanwhile_lands(server, tmp_path):
    with following(server, tmp_path, segment_seconds=1.0) as follower:
        for number in range(3):
            server.run_sql(f"INSERT INTO t (a) VALUES ('{number}'), ('x'); FLUSH BINARY LOGS", "d")
            wanted = executed(server)
            follower.wait_for(lambda: follower.seen and follower.seen[-1].lag_seconds == 0)
            server.run_sql("INSERT INTO t (a) VALUES ('published by age')", "d")
        follower.wait_for(lambda: read_state(str(tmp_path), "s") is not None)
        assert read_state(str(tmp_path), "s").doing == Doing.FOLLOWING
        follower.wait_for(
            lambda: read_state(str(tmp_path), "s") and len(list(tmp_path.glob("landing/s/*.binlog"))) >= 3
        )
        wanted = executed(server)
        follower.wait_for(lambda: LandedStream.open(str(tmp_path), "s").executed() == wanted)
    assert follower.error is None
    assert wanted <= parse_executed(follower.report.executed)
    assert_is_the_servers(server, tmp_path)
    state = read_state(str(tmp_path), "s")
    assert (state.doing, state.transactions) == (Doing.ENDED, follower.report.transactions)
    assert str(state.expire_seconds) in server.run_sql("SELECT @@binlog_expire_logs_seconds")
    assert land(server, tmp_path).executed == str(executed(server))


def test_broken_connections_and_a_restart(server, tmp_path, caplog):
    with following(server, tmp_path) as follower:
        for _ in range(2):
            server.run_sql("INSERT INTO t (a) VALUES ('before')", "d")
            follower.wait_for(lambda: follower.seen and follower.seen[-1].lag_seconds == 0)
            break_streams(server)
            server.run_sql("INSERT INTO t (a) VALUES ('while nobody listens')", "d")
        server.stop()
        server.start_again()
        server.run_sql("INSERT INTO t (a) VALUES ('after')", "d")
        wanted = executed(server)
        follower.wait_for(lambda: follower.seen[-1].transactions >= 5 and follower.seen[-1].lag_seconds == 0)
    assert "Trying again in 1 s" in caplog.text
    assert follower.report.executed == str(wanted)
    assert_is_the_servers(server, tmp_path)


def break_streams(server: MysqlServer) -> None:
    with server.connect("information_schema") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM processlist WHERE command LIKE 'Binlog Dump%'")
        for (number,) in cursor.fetchall():
            # One whose client is gone may end by itself in between.
            with suppress(pymysql.err.OperationalError):
                cursor.execute("KILL %s", (number,))


def test_the_step_of_the_dag_waits_for_it(server, tmp_path):
    (tmp_path / "strata.toml").write_text(
        f'lake = "."\n[sources.s]\nconnection = "it"\nstore = "sqlite:///{tmp_path}/s.db"\n'
    )
    environ = {"STRATA_SETTINGS": str(tmp_path / "strata.toml"), "AIRFLOW_CONN_IT": server.url}
    land(server, tmp_path)
    with following(server, tmp_path, segment_seconds=0.5) as follower:
        follower.wait_for(lambda: (state := read_state(str(tmp_path), "s")) and state.doing == Doing.FOLLOWING)
        server.run_sql("INSERT INTO t (a) VALUES ('x')", "d")
        report = ingest.land("s", settings=load_settings(environ))
        assert report.gtid_executed == str(executed(server))
        assert report.landing is None, "the follower has landed it"
        assert LandedStream.open(str(tmp_path), "s").executed() == executed(server)
    with following(server, tmp_path, segment_seconds=100.0) as follower:
        follower.wait_for(lambda: follower.seen)
        server.run_sql("INSERT INTO t (a) VALUES ('y')", "d")
        with pytest.raises(AlreadyRunningError, match="has not landed"):
            wait_for_follower(address_of(server), str(tmp_path), "s", seconds=0.5)


FOLLOWER = """
import sys
from strata_cdc.cli.main import run
sys.exit(run(["land", "--source", "s", "--follow", "--json"]))
"""

STATUS = """
import sys
from strata_cdc.cli.main import run
sys.exit(run(["status"]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_with_whole_segments(server, tmp_path, number):
    (tmp_path / "strata.toml").write_text('lake = "lake"\n[sources.s]\nconnection = "it"\nstore = "sqlite:///s.db"\n')
    environ = {**os.environ, "STRATA_SETTINGS": str(tmp_path / "strata.toml"), "AIRFLOW_CONN_IT": server.url}
    command = [sys.executable, "-c", FOLLOWER]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        server.run_sql("INSERT INTO t (a) VALUES ('x')", "d")
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("lake/landing/s/*.part")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert '"segments": ' in out
    assert "landed" in err
    assert not list(tmp_path.glob("lake/landing/s/*.part"))
    shown = subprocess.run(
        [sys.executable, "-c", STATUS], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert f"ended root@127.0.0.1:{server.port}: " in shown.stdout
    land(server, tmp_path / "lake")
    assert_is_the_servers(server, tmp_path / "lake")


def test_a_reset_binlog_ends_it(server, tmp_path):
    with following(server, tmp_path, SOON) as follower:
        follower.wait_for(lambda: follower.seen and follower.seen[-1].lag_seconds == 0)
        server.run_sql("INSERT INTO d.t (a) VALUES ('a'); DO SLEEP(1.2)")
        server.run_sql(f"{server.reset_sql}; INSERT INTO d.t (a) VALUES ('new life')")
        follower.thread.join(30)
        assert not follower.thread.is_alive()
    assert isinstance(follower.error, SourceDivergedError), follower.error
    state = read_state(str(tmp_path), "s")
    assert state.doing == Doing.FAILED
    # By the connection that waits, or by the next one.
    assert "binlog was reset" in state.error


def test_a_line_a_minute(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    notes = LandNotes(str(tmp_path), "s", "the server", Doing.LANDING, log_seconds=0.0)
    notes.tell(LandProgress(1200, 3000, 5 << 20, 1_800_000_000_000_000, 7.25))
    line = "s: 1,200 of 3,000 transactions, 5.0 MB, committed until 2027-01-15 08:00:00 UTC, 7.2 s late"
    assert line in caplog.text
    state = read_state(str(tmp_path), "s")
    assert (state.doing, state.origin, state.transactions) == (Doing.LANDING, "the server", 1200)
    assert read_state(str(tmp_path), "other") is None
