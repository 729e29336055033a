"""Landing over a failover, with a real pair of servers: the stream goes on by GTID set, whoever sends it."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

import pymysql
import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.cli.main import run
from strata_cdc.errors import SourceDivergedError
from strata_cdc.landing.count_rows import count_rows
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.model.definition import TableName
from tests.landing.landing import executed, land
from tests.mysql_server import MysqlServer, start_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.mysql
SECONDS = 60


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> Iterator[tuple[MysqlServer, MysqlServer]]:
    """A primary and its replica; the replica has written a file more, so that names and offsets differ."""
    folder = tmp_path_factory.mktemp("pair")
    with (
        start_server(folder / "a", "--binlog-transaction-compression=ON") as primary,
        start_server(folder / "b", "--server-id=2") as replica,
    ):
        replica.run_sql("FLUSH BINARY LOGS")
        replicate(replica, primary)
        primary.run_sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, a TEXT)")
        catch_up(replica, primary)
        yield primary, replica


def replicate(replica: MysqlServer, primary: MysqlServer) -> None:
    replica.run_sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={primary.port}, SOURCE_USER='root',"
        " SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA;"
    )


def catch_up(replica: MysqlServer, primary: MysqlServer) -> None:
    done = replica.run_sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed(primary)}', {SECONDS})")
    assert done.split("\n")[1] == "0"


class Writer:
    """Writes to one server after the other, without a pause, as an application would over a failover."""

    def __init__(self, server: MysqlServer) -> None:
        self.server, self.stopped, self.written = server, threading.Event(), 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while not self.stopped.is_set():
            server = self.server
            try:
                with server.connect("d") as connection, connection.cursor() as cursor:
                    while server is self.server and not self.stopped.is_set():
                        cursor.execute("INSERT INTO t (a) VALUES (REPEAT('w', %s))", (self.written % 400,))
                        self.written += 1
            except pymysql.err.OperationalError as refused:
                if refused.args[0] != 1290:  # read only: until it is told of the new primary
                    raise
                time.sleep(0.01)

    def wait_for(self, count: int) -> None:
        wanted, deadline = self.written + count, time.monotonic() + SECONDS
        while self.written < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def promote(replica: MysqlServer, primary: MysqlServer) -> None:
    primary.run_sql("SET GLOBAL super_read_only = ON")
    catch_up(replica, primary)
    replica.run_sql("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF")


def test_promotion_in_the_middle_of_writes(pair, tmp_path):
    primary, replica = pair
    writer = Writer(primary)
    try:
        for new in (replica, primary):
            old = writer.server
            writer.wait_for(150)
            land(old, tmp_path, segment_bytes=20_000)
            old.run_sql("FLUSH BINARY LOGS")
            writer.wait_for(150)
            promote(new, old)
            writer.server = new
            writer.wait_for(50)
            land(new, tmp_path, segment_bytes=20_000)
            replicate(old, new)
    finally:
        writer.stopped.set()
        writer.thread.join()
    report = land(primary, tmp_path)
    assert GtidSet.parse(report.executed) == executed(primary)
    assert_every_transaction_landed_once(pair, tmp_path)
    assert (executed(primary) - GtidSet.parse(report.executed_before)).count() == report.transactions
    catch_up(replica, primary)


def assert_every_transaction_landed_once(pair, lake) -> None:
    """In the bytes of the server that each segment came from."""
    written: dict[tuple[str, str], bytes] = {}
    uuids = []
    for server in pair:
        uuid = server.run_sql("SELECT @@GLOBAL.server_uuid").split()[1]
        uuids.append(uuid)
        for path in server.binlogs():
            with open_binlog(path) as binlog:
                for record in read_transactions(binlog):
                    written[uuid, str(record.gtid)] = binlog.buffer[record.begin : record.end].tobytes()
    stream = LandedStream.open(str(lake), "s")
    found = list(stream.records())
    gtids = [str(record.gtid) for _, record in found]
    assert len(gtids) == len(set(gtids)) == executed(pair[0]).count()
    assert [record.seq for _, record in found] == list(range(1, len(found) + 1))
    origins = [segment.summary.server_uuid for segment in stream.segments]
    assert [uuid for at, uuid in enumerate(origins) if at == 0 or origins[at - 1] != uuid] == [*uuids, uuids[0]]
    for segment in stream.segments:
        with open_binlog(segment.url) as binlog:
            for of, record in found:
                if of.name == segment.name:
                    landed = binlog.buffer[record.begin : record.end].tobytes()
                    assert landed == written[segment.summary.server_uuid, str(record.gtid)]


def numbers_of(server: MysqlServer) -> list[int]:
    found = []
    for path in server.binlogs():
        with open_binlog(path) as binlog:
            found += [record.gtid.gno for record in read_transactions(binlog)]
    return found


def rows_of(files: list[Path], out: Path, capsys, *options: str) -> tuple[list[dict], dict]:
    capsys.readouterr()
    assert run(["--json", "decode", *map(str, files), "--out", str(out), *options]) == 0, capsys.readouterr().err
    return [json.loads(line) for line in out.read_text().splitlines()], json.loads(capsys.readouterr().out)


def values_of(rows: list[dict]) -> list[tuple[str, int]]:
    return sorted((row["table"], row["after"]["a"]) for row in rows)


def on_server(server: MysqlServer, database: str, tables: list[str]) -> list[tuple[str, int]]:
    found = []
    for table in tables:
        lines = server.run_sql(f"SELECT a FROM {database}.{table}").split("\n")[1:]
        found += [(table, int(line)) for line in lines if line]
    return sorted(found)


def test_a_parallel_replica_that_keeps_no_order(pair, tmp_path, capsys):
    primary, replica = pair
    catch_up(replica, primary)
    tables = [f"t{n}" for n in range(4)]
    create = "".join(f"CREATE TABLE p.{table} (a INT PRIMARY KEY, b TEXT);" for table in tables)
    primary.run_sql(f"CREATE DATABASE p; {create}")
    catch_up(replica, primary)
    replica.run_sql("STOP REPLICA; SET GLOBAL replica_preserve_commit_order=OFF, GLOBAL replica_parallel_workers=4")
    many = ",".join(f"({n}, REPEAT('x', 500))" for n in range(2000))
    few = "".join(f"INSERT INTO p.{table} VALUES ({n}, '');" for n in range(10) for table in tables[1:])
    primary.run_sql(f"INSERT INTO p.t0 VALUES {many}; {few}")
    replica.run_sql("START REPLICA")
    catch_up(replica, primary)
    try:
        numbers = numbers_of(replica)
        assert numbers != sorted(numbers), "the replica has written in another order"
        expected = on_server(primary, "p", tables)
        rows, _ = rows_of(replica.binlogs(), tmp_path / "rows.jsonl", capsys, "--table", "p.*")
        assert values_of(rows) == expected
        # What has landed from the primary is left out of the replica's stream, wherever it stands there.
        land(primary, tmp_path / "lake")
        primary.run_sql("INSERT INTO p.t1 VALUES (7777, '')")
        catch_up(replica, primary)
        assert land(replica, tmp_path / "lake").transactions == 1
        segments = sorted((tmp_path / "lake" / "landing" / "s").glob("*.binlog"))
        rows, _ = rows_of(segments, tmp_path / "rows.jsonl", capsys, "--table", "p.*")
        assert values_of(rows) == sorted([*expected, ("t1", 7777)])
    finally:
        replica.run_sql("STOP REPLICA; SET GLOBAL replica_preserve_commit_order=ON; START REPLICA")


def test_what_is_prepared_before_and_committed_after(pair, tmp_path):
    """XA: the rows take effect with the commit on the other server."""
    primary, replica = pair
    primary.run_sql("XA START 'f'; INSERT INTO t (a) VALUES ('held'); XA END 'f'; XA PREPARE 'f'", "d")
    land(primary, tmp_path)
    prepared = LandedStream.open(str(tmp_path), "s").last_seq
    try:
        promote(replica, primary)
        replica.run_sql("FLUSH BINARY LOGS; INSERT INTO t (a) VALUES ('other'); XA COMMIT 'f'", "d")
        land(replica, tmp_path)
    finally:
        replicate(primary, replica)
        promote(primary, replica)
        replicate(replica, primary)
    stream = LandedStream.open(str(tmp_path), "s")
    last = stream.last_seq
    assert str(stream.record_at(last)[1].mark) == "XA COMMIT X'66',X'',1"
    assert [one.seq for one in stream.undecided_at(last - 1).prepared()] == [prepared]
    assert [count_rows(stream, seq - 1, seq) for seq in (prepared, last - 1, last)] == [
        {},
        {TableName("d", "t"): 1},
        {TableName("d", "t"): 1},
    ]
    assert stream.undecided_at(last).prepared() == ()


def test_a_server_that_lacks_what_was_landed(pair, tmp_path):
    primary, replica = pair
    catch_up(replica, primary)
    replica.run_sql("STOP REPLICA")
    before = executed(replica)
    primary.run_sql("INSERT INTO t (a) VALUES ('never replicated'), ('x'); INSERT INTO t (a) VALUES ('nor this')", "d")
    landed = executed(primary)
    land(primary, tmp_path)
    segments = sorted(path.name for path in (tmp_path / "landing" / "s").glob("*.binlog"))
    replica.run_sql("SET GLOBAL super_read_only = OFF; INSERT INTO t (id, a) VALUES (1000000, 'errant')", "d")
    with pytest.raises(SourceDivergedError) as caught:
        land(replica, tmp_path)
    assert str(executed(replica)) in caught.value.message
    assert str(landed) in caught.value.message
    assert caught.value.gtid == str(landed - before)
    assert sorted(path.name for path in (tmp_path / "landing" / "s").glob("*.binlog")) == segments
    primary.run_sql("INSERT INTO t (a) VALUES ('y')", "d")
    assert land(primary, tmp_path).transactions == 1
