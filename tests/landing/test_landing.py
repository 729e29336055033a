"""Landing from a real server: byte for byte, whatever happens in between."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import asdict

from strata_cdc.binlog.bytes.codes import MAGIC
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.segment import staging_folder
from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.binlog.protocol.connection import ServerAddress
from strata_cdc.errors import (
    AccessDeniedError,
    AlreadyRunningError,
    BinlogPurgedError,
    ChecksumError,
    LakeUnavailableError,
    SourceDivergedError,
    SourceUnavailableError,
)
from strata_cdc.files.storage import list_files
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from tests.landing.landing import (
    address_of,
    assert_is_the_servers,
    executed,
    killed_at_random_instants,
    land,
    purged,
)
from tests.mariadb_server import FAMILIES, MariadbServer, start_family
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.landing.land_state import LandProgress
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

LANDINGS, WRITTEN, MOST_WRITTEN = 5, 300, 1500
"""While the server is written to, which changes its file after each hundred transactions."""
_MYSQL_ONLY = """
    SET binlog_transaction_compression = ON; INSERT INTO t (a) SELECT REPEAT('y', 1000) FROM t;
    SET binlog_transaction_compression = OFF; SET gtid_next = 'AUTOMATIC:tag_a'; INSERT INTO t (a) VALUES ('z');
    FLUSH BINARY LOGS; SET gtid_next = AUTOMATIC;
"""
_MARIADB_ONLY = """
    SET GLOBAL log_bin_compress = ON; INSERT INTO t (a) SELECT REPEAT('y', 1000) FROM t;
    SET GLOBAL log_bin_compress = OFF; SET gtid_domain_id = 7, server_id = 9; INSERT INTO t (a) VALUES ('z');
    FLUSH BINARY LOGS; SET gtid_domain_id = 0, server_id = 1; SET gtid_seq_no = {now}; INSERT INTO t (a) VALUES ('j');
"""


@pytest.fixture(scope="module", params=FAMILIES)
def server(request, tmp_path_factory) -> Iterator[MysqlServer]:
    """A server of its own: these tests purge and reset its binlog."""
    with start_family(tmp_path_factory.mktemp("landing"), request.param, "--max-allowed-packet=128M") as running:
        running.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)")
        yield running


@pytest.fixture(autouse=True)
def short_binlog(request) -> None:
    """Each test lands what it wrote itself: a first landing begins behind what was purged."""
    chosen = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if chosen.get("lake") == "s3" and chosen["server"] != "mysql" and "STRATA_KILLS" not in os.environ:
        pytest.skip("an object store is the same for a server of any family: `make soak`")
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        server.run_sql("FLUSH BINARY LOGS")
        server.run_sql(f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'; INSERT INTO d.t (a) VALUES ('first')")


def test_all_kinds_of_transactions_over_rotations_and_runs(server, lake):
    seen: list[LandProgress] = []
    first = land(server, lake, progress=seen.append)
    assert (first.gtid_executed, first.executed) == (str(executed(server)), str(executed(server)))
    assert seen[-1].transactions == seen[-1].of_transactions == first.transactions
    nothing = land(server, lake)
    assert (nothing.segments, nothing.transactions, nothing.executed) == (0, 0, first.executed)
    server.run_sql(
        """
        INSERT INTO t (a) VALUES ('x'); FLUSH BINARY LOGS;
        """
        + (_MARIADB_ONLY.format(now=time.time_ns()) if isinstance(server, MariadbServer) else _MYSQL_ONLY)
        + """
        XA START 'q'; INSERT INTO t (a) VALUES ('xa'); XA END 'q'; XA PREPARE 'q'; XA COMMIT 'q';
        CREATE TABLE t2 AS SELECT * FROM t; FLUSH BINARY LOGS; FLUSH BINARY LOGS; DROP TABLE t2;
        """,
        "d",
    )
    second = land(server, lake)
    assert second.executed_before == first.executed
    assert parse_executed(second.executed) == executed(server)
    assert second.last_seq == first.last_seq + second.transactions
    assert len(asdict(second)) <= 16
    assert_is_the_servers(server, lake)


def test_mysqlbinlog_reads_every_segment(server, tmp_path):
    if not server.has_program("mysqlbinlog"):
        pytest.skip("not installed")
    server.run_sql("INSERT INTO t (a) VALUES (REPEAT('x', 1000000)); " * 9 + "FLUSH BINARY LOGS; DELETE FROM t", "d")
    land(server, tmp_path, segment_bytes=2_000_000)
    stream = LandedStream.open(str(tmp_path), "s")
    files = [segment.name.binlog_file for segment in stream.segments]
    assert max(map(files.count, files)) >= 2, "rolled by size"
    assert len(set(files)) >= 2, "rolled by the server"
    for segment in stream.segments:
        command = [server.program("mysqlbinlog"), "--no-defaults", "--verify-binlog-checksum", segment.url]
        printed = subprocess.run(command, capture_output=True, check=True, text=True, errors="replace")
        assert printed.stderr == ""
        # MySQL's program ends with one more, AUTOMATIC.
        found = re.findall("^SET @@SESSION.GTID_NEXT= '(?!AUTOMATIC)|\tGTID [0-9]", printed.stdout, re.MULTILINE)
        assert len(found) == segment.summary.transactions
    assert_is_the_servers(server, tmp_path)


def test_events_over_sixteen_megabytes_and_memory(server, tmp_path):
    server.run_sql("INSERT INTO t (a) VALUES (REPEAT('a', 16777170)), ('b'); INSERT INTO t (a) VALUES ('c')", "d")
    server.run_sql("INSERT INTO t (a) VALUES (REPEAT('a', 50000000)); DELETE FROM t WHERE LENGTH(a) > 1000000", "d")
    script = f"""
from pathlib import Path
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.binlog.protocol.connection import ServerAddress
import strata_cdc.binlog.kernels.packets, strata_cdc.landing.recorder
def most():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
Path("/proc/self/clear_refs").write_text("5")  # a process begins with the peak of its parent
before = most()
land_binlog(ServerAddress("127.0.0.1", {server.port}), lake="{tmp_path}", source="s")
print(most() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert_is_the_servers(server, tmp_path)
    assert int(done.stdout) < 100_000, "kilobytes; one event alone has 50 megabytes, all of them have 130"
    server.run_sql("DELETE FROM t", "d")


def test_landing_while_the_server_is_written_to(server, lake):
    stop, written = threading.Event(), []

    def write() -> None:
        connection = server.connect("d")
        with connection.cursor() as cursor:
            number = 0
            while not stop.is_set() and number < MOST_WRITTEN:
                number += 1
                written.append(number)
                cursor.execute("INSERT INTO t (a) VALUES (REPEAT('w', %s))", (number % 900,))
                if number % 100 == 0:
                    cursor.execute("FLUSH BINARY LOGS")
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        landings = 0
        while landings < LANDINGS or (len(written) < WRITTEN and writer.is_alive()):
            landings += 1
            # Each file costs a store over the network some milliseconds, and the witness opens all of them.
            report = land(server, lake, segment_bytes=500_000 if "://" in lake else 20_000)
            assert parse_executed(report.gtid_executed) <= parse_executed(report.executed)
    finally:
        stop.set()
        writer.join()
    land(server, lake)
    assert len(assert_is_the_servers(server, lake)) > 50


@pytest.mark.slow
def test_killed_and_resumed_many_times(server, lake):
    server.run_sql("INSERT INTO t (a) VALUES ('seed'), ('seed')", "d")
    killed_at_random_instants(server, lake, int(os.environ.get("STRATA_KILLS", "5")), 2, assert_is_the_servers)


def test_lost_indexes_are_made_again(server, lake):
    server.run_sql("INSERT INTO t (a) VALUES ('x'); FLUSH BINARY LOGS; INSERT INTO t (a) VALUES ('y')", "d")
    land(server, lake, segment_bytes=400)
    folder = landing_folder(lake, "s")
    before = [record for _, record in LandedStream.open(lake, "s").records()]
    for name in folder.names():
        if name.endswith(SUFFIX):
            folder.delete(name)
    folder.write("landing-left.part", b"x")
    staged = Path(staging_folder(folder), "landing-staged.part")
    staged.write_bytes(b"x")
    folder.write(f"0000000999-binlog.000001-000000000004.binlog{SUFFIX}", b"x")
    land(server, lake)
    assert [record for _, record in LandedStream.open(str(lake), "s").records()] == before
    assert not staged.exists()
    left = [path.rsplit("/", 1)[-1] for path in list_files(folder.url)]
    assert not [name for name in left if name.endswith(".part") or name.startswith("0000000999")]


def test_two_landings_of_one_source(server, lake):
    land(server, lake)

    refused = []

    def refuse(_: LandProgress) -> None:
        if refused:
            return
        refused.append(1)
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()}|connection [0-9]+ of"):
            land(server, lake)

    server.run_sql("INSERT INTO t (a) VALUES ('x')", "d")
    assert land(server, lake, progress=refuse).transactions == 1
    assert refused


def test_a_binlog_without_checksums(server, tmp_path):
    server.run_sql("SET GLOBAL binlog_checksum = NONE; INSERT INTO d.t (a) VALUES ('bare')")
    try:
        land(server, tmp_path)
        with open_binlog(server.binlogs()[-1]) as binlog:
            assert not binlog.format.has_checksum
        # From within the file, the server sends its first event with the checksum of other bytes.
        server.run_sql("INSERT INTO d.t (a) VALUES ('bare, too')")
        assert land(server, tmp_path).transactions == 1
        segment = Path(LandedStream.open(str(tmp_path), "s").segments_after(0)[-1].url)
        with open_binlog(segment) as binlog:
            assert not binlog.format.has_checksum
        data = segment.read_bytes()
        end = len(MAGIC) + int.from_bytes(data[len(MAGIC) + 9 : len(MAGIC) + 13], "little")
        event = data[len(MAGIC) : end - 4]
        assert zlib.crc32(event) == int.from_bytes(data[end - 4 : end], "little")
        sent = zlib.crc32(event[:13] + end.to_bytes(4, "little") + event[17:71] + event[:4] + event[75:])
        segment.write_bytes(MAGIC + event + sent.to_bytes(4, "little") + data[end:])
        with open_binlog(segment) as binlog:
            assert not binlog.format.has_checksum
        segment.write_bytes(MAGIC + event + b"none" + data[end:])
        with pytest.raises(ChecksumError, match="@ 4"), open_binlog(segment):
            pass
        segment.write_bytes(data)
    finally:
        server.run_sql("SET GLOBAL binlog_checksum = CRC32; INSERT INTO d.t (a) VALUES ('checked')")
    land(server, tmp_path)
    assert_is_the_servers(server, tmp_path)


def test_look_ups(server, lake):
    server.run_sql("INSERT INTO t (a) VALUES ('x'); FLUSH BINARY LOGS; INSERT INTO t (a) VALUES ('y'), ('z')", "d")
    server.run_sql("INSERT INTO t (a) VALUES ('x'); " * 20, "d")
    land(server, lake, segment_bytes=1000)
    stream = LandedStream.open(str(lake), "s")
    records = [record for _, record in stream.records()]
    done = stream.executed_before()
    for number, record in enumerate(records, 1):
        assert stream.seq_before(record.committed_at + 1) == max(
            other.seq for other in records if other.committed_at <= record.committed_at
        )
        place = BinlogPosition.from_offset(record.binlog_file, record.binlog_pos)
        assert stream.seq_at_position(place) == number - 1
        done = done.add(record.gtid)
        assert stream.executed_at(number) == done
        assert stream.seq_at(done) == number
        assert stream.record_at(number)[1] == record
    assert stream.seq_before(records[0].committed_at) == 0
    assert stream.seq_at(stream.executed_before()) == 0


def test_wrong_password_and_missing_grants(server, tmp_path):
    server.run_sql("CREATE USER poor IDENTIFIED BY 'sesame'; GRANT SELECT ON d.* TO poor")
    for password in ("wrong-sesame", "sesame"):
        with pytest.raises(AccessDeniedError) as caught:
            land_binlog(address_of(server, user="poor", password=password), lake=str(tmp_path), source="s")
        assert caught.value.source == "s"
        assert "sesame" not in f"{caught.value} {caught.value.__dict__}"
    also = ", BINLOG MONITOR" if isinstance(server, MariadbServer) else ""
    server.run_sql(f"GRANT REPLICATION SLAVE{also} ON *.* TO poor")
    land_binlog(address_of(server, user="poor", password="sesame"), lake=str(tmp_path), source="s")
    server.run_sql("DROP USER poor")


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(SourceUnavailableError):
        land_binlog(ServerAddress("127.0.0.1", 1), lake=str(tmp_path), source="s")


def test_a_lake_that_cannot_be_written(server, tmp_path):
    (tmp_path / "landing").write_text("a file")
    with pytest.raises(LakeUnavailableError):
        land(server, tmp_path)


def test_purged_and_reset_binlogs(server, lake):
    land(server, lake)
    landed = executed(server)
    server.run_sql("INSERT INTO t (a) VALUES ('lost'); FLUSH BINARY LOGS; INSERT INTO t (a) VALUES ('kept')", "d")
    purge = f"PURGE BINARY LOGS TO '{server.binlogs()[-1].name}'"
    # A file stays while a server sends it: it notices a closed connection late.
    wait_until(lambda: server.run_sql(purge) == "" and len(server.binlogs()) == 1)
    with pytest.raises(BinlogPurgedError) as caught:
        land(server, lake)
    gone = purged(server)
    assert str(gone) in caught.value.message
    assert caught.value.gtid == str(gone - landed)
    fresh = land(server, f"{lake}/fresh")
    assert (fresh.executed_before, fresh.transactions) == (str(gone), 1)
    assert_is_the_servers(server, f"{lake}/fresh")
    server.run_sql(f"{server.reset_sql}; INSERT INTO d.t (a) VALUES ('new life')")
    with pytest.raises(SourceDivergedError) as diverged:
        land(server, lake)
    assert diverged.value.gtid == str(landed - executed(server))
