"""Landing from servers that do not number their transactions: by file and offset, and only where that is certain."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.errors import AlreadyRunningError, BinlogPurgedError, SourceDivergedError, SourceSettingsError, Usage
from strata_cdc.landing.follow_binlog import wait_for_follower
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.progress.find_position import find_position
from tests.landing.landing import address_of, following, killed_at_random_instants, land
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mysql
OFF = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[MysqlServer]:
    with start_server(tmp_path_factory.mktemp("unnumbered"), *OFF) as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        yield running


@pytest.fixture(autouse=True)
def short_binlog(request) -> None:
    """Each test lands what it wrote itself."""
    if "server" in request.fixturenames:
        start_anew(request.getfixturevalue("server"))


def start_anew(server: MysqlServer) -> None:
    server.run_sql("FLUSH BINARY LOGS")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'; INSERT INTO d.t (a) VALUES ('first')")


def set_mode(server: MysqlServer, *modes: str) -> None:
    server.run_sql("SET GLOBAL enforce_gtid_consistency = ON;" + "".join(f"SET GLOBAL gtid_mode = {m};" for m in modes))


def assert_all_landed(server: MysqlServer, lake) -> list:
    """The landed stream is what the server's files hold, once, in order, byte for byte."""
    expected = []
    for path in server.binlogs():
        with open_binlog(path) as binlog:
            for record in read_transactions(binlog):
                data = binlog.buffer[record.begin : record.end].tobytes()
                expected.append((record.gtid, path.name, record.begin, data))
    stream, landed = LandedStream.open(str(lake), "s"), []
    for segment in stream.segments:
        with open_binlog(segment.url) as binlog:
            index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format, 1 << 30).raise_fault()
            assert binlog.buffer[4:127].tobytes() == (server.binlog_dir / binlog.name).read_bytes()[4:127] or (
                server.binlogs()[-1].name == binlog.name  # which is marked as in use
            )
            for record in segment.index.records():
                data = binlog.buffer[record.begin : record.end].tobytes()
                landed.append((record.gtid, record.binlog_file, record.binlog_pos, data))
    assert landed == expected
    assert [record.seq for _, record in stream.records()] == list(range(1, len(landed) + 1))
    return landed


def test_over_rotations_and_runs(server, lake):
    first = land(server, lake)
    assert (first.transactions, first.executed, first.gtid_executed) == (1, "", "")
    nothing = land(server, lake)
    assert (nothing.segments, nothing.transactions, nothing.last_seq) == (0, 0, 1)
    server.run_sql(
        """
        INSERT INTO t (a) VALUES ('x'); FLUSH BINARY LOGS;
        SET binlog_transaction_compression = ON; INSERT INTO t (a) SELECT REPEAT('y', 1000) FROM t;
        SET binlog_transaction_compression = OFF; FLUSH BINARY LOGS; FLUSH BINARY LOGS;
        XA START 'q'; INSERT INTO t (a) VALUES ('xa'); XA END 'q'; XA PREPARE 'q'; XA COMMIT 'q';
        CREATE TABLE t2 (a INT); FLUSH BINARY LOGS; FLUSH BINARY LOGS; DROP TABLE t2; FLUSH BINARY LOGS;
        """,
        "d",
    )
    second = land(server, lake)
    assert second.last_seq == 1 + second.transactions
    assert all(gtid is None for gtid, *_ in assert_all_landed(server, lake))
    assert land(server, lake).transactions == 0
    server.run_sql("INSERT INTO t (a) VALUES (REPEAT('x', 300000)); INSERT INTO t (a) VALUES ('y')", "d")
    assert land(server, lake, segment_bytes=100_000).transactions == 2
    assert_all_landed(server, lake)


@pytest.mark.slow
def test_killed_and_resumed_many_times(server, tmp_path):
    killed_at_random_instants(server, tmp_path, int(os.environ.get("STRATA_KILLS", "5")), 2, assert_all_landed)


def test_a_lost_index_is_made_again_and_landing_goes_on(server, tmp_path):
    server.run_sql("INSERT INTO t (a) VALUES ('x')", "d")
    land(server, tmp_path)
    folder = landing_folder(str(tmp_path), "s")
    for name in folder.names():
        if name.endswith(SUFFIX):
            folder.delete(name)
    server.run_sql("INSERT INTO t (a) VALUES ('y')", "d")
    assert land(server, tmp_path).transactions == 1
    assert_all_landed(server, tmp_path)


def test_positions(server, tmp_path):
    server.run_sql("INSERT INTO t (a) VALUES ('x'); FLUSH BINARY LOGS; INSERT INTO t (a) VALUES ('y')", "d")
    land(server, tmp_path)
    (_, _, begin, data) = assert_all_landed(server, tmp_path)[-1]
    last = server.binlogs()[-1].name
    found = find_position(str(tmp_path), "s", file=f"{last}:{begin + 1}")
    assert (found.seq, found.gtid, found.binlog_position) == (3, None, f"{last}:{begin + len(data)}")
    assert find_position(str(tmp_path), "s", time=1 << 60).seq == 3
    with pytest.raises(Usage, match="without a GTID"):
        find_position(str(tmp_path), "s", gtid_set="3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")


def test_followed_and_waited_for(server, tmp_path):
    with following(server, tmp_path, segment_seconds=0.5) as follower:
        wait_for_follower(address_of(server), str(tmp_path), "s", seconds=20)
        server.run_sql("INSERT INTO d.t (a) VALUES ('x'); FLUSH BINARY LOGS; INSERT INTO d.t (a) VALUES ('y')")
        wait_for_follower(address_of(server), str(tmp_path), "s", seconds=20)
        assert LandedStream.open(str(tmp_path), "s").last_seq == 3
    assert follower.report.last_seq == 3
    server.run_sql("FLUSH BINARY LOGS")
    wait_for_follower(address_of(server), str(tmp_path), "s", seconds=0)
    server.run_sql("INSERT INTO d.t (a) VALUES ('nobody lands it')")
    with pytest.raises(AlreadyRunningError, match="has not landed"):
        wait_for_follower(address_of(server), str(tmp_path), "s", seconds=0)


def test_what_was_purged_is_named(server, tmp_path):
    land(server, tmp_path)
    landed = LandedStream.open(str(tmp_path), "s").segments[-1].summary
    server.run_sql("INSERT INTO t (a) VALUES ('lost'); FLUSH BINARY LOGS", "d")
    server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'")
    with pytest.raises(BinlogPurgedError) as caught:
        land(server, tmp_path)
    assert server.binlogs()[0].name in caught.value.message
    assert str(BinlogPosition.from_offset(landed.binlog_file, landed.server_end)) in caught.value.message


def test_the_end_of_a_file_that_was_purged_behind_it(server, tmp_path):
    """Only the ROTATE of that file is gone; that it was only the ROTATE nobody can know any more."""
    land(server, tmp_path)
    start_anew(server)
    with pytest.raises(BinlogPurgedError):
        land(server, tmp_path)


def refuse(server: MysqlServer, lake, text: str) -> None:
    """Whatever has the same names and offsets is told from the binlog that was landed."""
    folder = landing_folder(str(lake), "s")
    names = [name for name in folder.names() if name.endswith(".binlog")]
    with pytest.raises(SourceDivergedError, match=text) as caught:
        land(server, lake)
    assert "another source name" in (caught.value.remedy or "")
    assert [name for name in folder.names() if name.endswith(".binlog")] == names


def test_a_reset(server, tmp_path):
    server.run_sql("RESET BINARY LOGS AND GTIDS; INSERT INTO d.t (a) VALUES ('x')")
    land(server, tmp_path)
    server.run_sql("RESET BINARY LOGS AND GTIDS")
    refuse(server, tmp_path, "not the binlog that was landed")
    server.run_sql(
        "INSERT INTO d.t (a) VALUES (REPEAT('long', 1000)); FLUSH BINARY LOGS; INSERT INTO d.t (a) VALUES ('x')"
    )
    refuse(server, tmp_path, "not the binlog that was landed")


def test_copies_of_a_server(tmp_path):
    lake = tmp_path / "lake"
    with start_server(tmp_path / "server", *OFF) as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        land(server, lake)
        server.stop()
        for name in ("copy", "again"):
            shutil.copytree(server.binlog_dir, tmp_path / name / "data")
    with start_server(tmp_path / "copy", *OFF) as copy:
        # It has the same UUID and the same bytes. STOP ends the old file, and the new one has no transaction.
        wait_for_follower(address_of(copy), str(lake), "s", seconds=0)
        copy.run_sql("INSERT INTO d.t (a) VALUES ('x')")
        assert land(copy, lake).transactions == 1
        copy.stop()
        shutil.copytree(copy.binlog_dir, tmp_path / "renamed" / "data")
    with start_server(tmp_path / "again", *OFF) as server:
        server.run_sql("INSERT INTO d.t (a) VALUES ('another'); INSERT INTO d.t (a) VALUES ('and more')")
        refuse(server, lake, "not the binlog that was landed")
    (tmp_path / "renamed" / "data" / "auto.cnf").unlink()
    with start_server(tmp_path / "renamed", *OFF) as renamed:
        refuse(renamed, lake, "cannot be found on another server")


def test_gtids_are_switched_on(tmp_path):
    """Step by step, with a landing after each, and back; then a landing asks by GTID."""
    lake = tmp_path / "lake"
    with start_server(tmp_path / "server", *OFF) as server:
        server.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        land(server, lake)
        for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE"):
            set_mode(server, mode)
            server.run_sql("INSERT INTO d.t (a) VALUES ('x')")
            assert land(server, lake).transactions == 1
        server.run_sql("SET gtid_next = 'ANONYMOUS'; INSERT INTO d.t (a) VALUES ('without')")
        set_mode(server, "ON")
        server.run_sql("INSERT INTO d.t (a) VALUES ('y')")
        with pytest.raises(SourceSettingsError, match="anonymous"):
            land(server, lake)
        set_mode(server, "ON_PERMISSIVE")
        assert land(server, lake).transactions == 2
        set_mode(server, "ON")
        assert LandedStream.open(str(lake), "s").segments[-1].summary.resume == "file"
        server.run_sql("INSERT INTO d.t (a) VALUES ('z')")
        report = land(server, lake)
        assert (report.transactions, report.executed) == (1, report.gtid_executed)
        assert LandedStream.open(str(lake), "s").segments[-1].summary.resume == "gtid"
        server.run_sql("INSERT INTO d.t (a) VALUES ('by set')")
        assert land(server, lake).transactions == 1
        set_mode(server, "ON_PERMISSIVE", "OFF_PERMISSIVE")
        server.run_sql("INSERT INTO d.t (a) VALUES ('without')")
        set_mode(server, "ON_PERMISSIVE", "ON")
        server.run_sql("INSERT INTO d.t (a) VALUES ('behind it')")
        with pytest.raises(SourceSettingsError, match="anonymous"):
            land(server, lake)
        set_mode(server, "ON_PERMISSIVE", "OFF_PERMISSIVE")
        assert land(server, lake).transactions == 2
        set_mode(server, "OFF")
        server.run_sql("INSERT INTO d.t (a) VALUES ('without, too')")
        assert land(server, lake).transactions == 1
        numbered = [gtid is not None for gtid, *_ in assert_all_landed(server, lake)]
        assert numbered == [False] * 3 + [True, False, True, True, True, False, True, False]
