"""What landing has to do for MariaDB alone: domains, servers that take over, numbers that go back, files of one
transaction. What holds for each family is in the other files of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.errors import SourceDivergedError, Usage
from strata_cdc.landing.first_landing import FirstMoment
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.domains import DomainSet
from tests.landing.landing import assert_is_the_servers, executed, land
from tests.mariadb_server import FAMILIES, start_family
from tests.streams.world import World
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql
MIXED = Path("tests/binlog/golden/mixed.binlog")


@pytest.fixture(scope="module", params=[family for family in FAMILIES if family != "mysql"])
def pair(request, tmp_path_factory) -> Iterator[tuple[MysqlServer, MysqlServer]]:
    """A primary and its replica, which writes what it applies to its own binlog."""
    folder = tmp_path_factory.mktemp("pair")
    with (
        start_family(folder / "a", request.param) as primary,
        start_family(folder / "b", request.param, "--server-id=2", "--log-slave-updates") as replica,
    ):
        yield primary, replica


@pytest.fixture(autouse=True)
def as_new(pair) -> None:
    primary, replica = pair
    replica.run_sql(
        "STOP SLAVE; RESET SLAVE ALL; DROP DATABASE IF EXISTS d; RESET MASTER; SET GLOBAL gtid_slave_pos = ''"
    )
    primary.run_sql("DROP DATABASE IF EXISTS d; RESET MASTER; CREATE DATABASE d")
    primary.run_sql("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a LONGTEXT)", "d")


def replicate(replica: MysqlServer, primary: MysqlServer) -> None:
    replica.run_sql(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='root',"
        " MASTER_USE_GTID=slave_pos, MASTER_SSL=0; START SLAVE"
    )
    assert "0" in replica.run_sql(f"SELECT MASTER_GTID_WAIT('{executed(primary)}', 60)")


def gtids(lake: Path) -> list[str]:
    return [str(record.gtid) for _, record in LandedStream.open(str(lake), "s").records()]


def test_a_replica_goes_on_in_the_domain(pair, tmp_path):
    primary, replica = pair
    primary.run_sql("INSERT INTO t (a) VALUES ('x'); SET gtid_domain_id = 3; INSERT INTO t (a) VALUES ('y')", "d")
    land(primary, tmp_path)
    primary.run_sql("INSERT INTO t (a) VALUES ('not landed from here')", "d")
    replicate(replica, primary)
    replica.run_sql("STOP SLAVE; FLUSH BINARY LOGS; INSERT INTO d.t (a) VALUES ('by the other server')")
    report = land(replica, tmp_path)
    assert report.executed == "0-2-5,3-1-1"
    assert gtids(tmp_path) == ["0-1-1", "0-1-2", "0-1-3", "3-1-1", "0-1-4", "0-2-5"]
    # The old primary lacks the last transaction, and has another one with its number.
    with pytest.raises(SourceDivergedError) as lacks:
        land(primary, tmp_path)
    assert lacks.value.gtid == "0-2-5..5"
    primary.run_sql("INSERT INTO t (a) VALUES ('other')", "d")
    with pytest.raises(SourceDivergedError):
        land(primary, tmp_path)


def test_numbers_that_are_used_again(pair, tmp_path):
    primary, _ = pair
    insert = "INSERT INTO d.t (a) VALUES ('a')"
    primary.run_sql(f"{insert}; {insert}")
    land(primary, tmp_path)
    primary.run_sql("RESET MASTER; " + "; ".join(["INSERT INTO d.t (a) VALUES ('b')"] * 5))
    with pytest.raises(SourceDivergedError, match=r"not the binlog|another transaction"):
        land(primary, tmp_path)
    assert len(gtids(tmp_path)) == 4


def test_numbers_that_go_back(pair, tmp_path):
    primary, _ = pair
    primary.run_sql("SET gtid_seq_no = 100; INSERT INTO d.t (a) VALUES ('a')")
    primary.run_sql("FLUSH BINARY LOGS; SET gtid_seq_no = 50; INSERT INTO d.t (a) VALUES ('back')")
    with pytest.raises(SourceDivergedError, match="lacks transactions") as back:
        land(primary, tmp_path)
    assert "gtid_strict_mode" in back.value.remedy
    assert gtids(tmp_path)[-1] == "0-1-100", "what came before has landed"
    primary.run_sql("SET gtid_seq_no = 200; INSERT INTO d.t (a) VALUES ('forward again')")
    with pytest.raises(SourceDivergedError, match="sequence number") as between:
        land(primary, tmp_path)
    assert between.value.gtid == "0-1-50"
    assert gtids(tmp_path)[-1] == "0-1-100"


def test_a_domain_that_was_deleted(pair, tmp_path):
    primary, _ = pair
    primary.run_sql("SET gtid_domain_id = 7; INSERT INTO d.t (a) VALUES ('a')")
    land(primary, tmp_path)
    primary.run_sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS")
    last = primary.binlogs()[-1].name
    wait_until(lambda: primary.run_sql(f"PURGE BINARY LOGS TO '{last}'") == "" and len(primary.binlogs()) == 1)
    primary.run_sql("FLUSH BINARY LOGS DELETE_DOMAIN_ID = (7)")
    with pytest.raises(SourceDivergedError, match="lacks transactions") as refused:
        land(primary, tmp_path)
    assert (refused.value.gtid, "DELETE_DOMAIN_ID" in refused.value.remedy) == ("7-1-1", True)


def test_a_number_that_the_binlog_lacks(pair, tmp_path):
    """The server would begin at the next number of the same writer, and leave out what another one wrote before it."""
    primary, _ = pair
    for server_id, number in ((1, 99), (2, 101), (1, 102)):
        primary.run_sql(f"SET server_id = {server_id}, gtid_seq_no = {number}; INSERT INTO d.t (a) VALUES ('a')")
    with pytest.raises(SourceDivergedError, match="missing the GTID 0-1-100"):
        land(primary, tmp_path, begins=[FirstMoment(DomainSet.parse("0-1-100"))])
    assert land(primary, tmp_path, begins=[FirstMoment(DomainSet.parse("0-1-99"))]).transactions == 2


def test_a_position_that_was_never_in_the_binlog(pair, tmp_path):
    """A replica that wrote nothing of what it applied, and became the primary: its `gtid_current_pos` is no position
    of its binlog."""
    _, replica = pair
    replica.run_sql("SET GLOBAL gtid_slave_pos = '0-1-50,4-1-9'; FLUSH BINARY LOGS")
    assert replica.run_sql("SELECT @@gtid_current_pos").split()[-1] == "0-1-50,4-1-9"
    moment = FirstMoment(executed(replica))
    first = land(replica, tmp_path, begins=[moment])
    assert (first.transactions, first.executed) == (0, "")
    replica.run_sql("CREATE DATABASE d; SET gtid_domain_id = 4; CREATE TABLE d.t (id INT)")
    assert land(replica, tmp_path).executed == "0-2-51,4-2-10"
    assert gtids(tmp_path) == ["0-2-51", "4-2-10"]


def test_a_server_without_transactions(pair, tmp_path):
    primary, _ = pair
    primary.run_sql("RESET MASTER")
    assert land(primary, tmp_path).segments == 1
    primary.run_sql("FLUSH BINARY LOGS; INSERT INTO d.t (a) VALUES ('first')")
    assert land(primary, tmp_path).transactions == 1
    assert gtids(tmp_path) == ["0-1-1"]


def test_files_land_as_the_stream_does(pair, tmp_path):
    primary, _ = pair
    archive = tmp_path / "archive"
    archive.mkdir()
    for number in range(4):
        primary.run_sql(
            f"SET gtid_domain_id = {number % 2}; INSERT INTO d.t (a) VALUES ('x'), ('y'); FLUSH BINARY LOGS"
        )
    for path in primary.binlogs()[:3]:
        shutil.copy(path, archive / path.name)
    first = land_files(str(archive), lake=str(tmp_path / "files"), source="s")
    for path in primary.binlogs():
        shutil.copy(path, archive / path.name)
    last = land_files(str(archive), lake=str(tmp_path / "files"), source="s")
    land(primary, tmp_path / "stream")
    assert (first.transactions, last.transactions) == (5, 1)
    assert gtids(tmp_path / "files") == gtids(tmp_path / "stream")
    primary.run_sql("INSERT INTO d.t (a) VALUES ('goes on from the server')")
    assert land(primary, tmp_path / "files").transactions == 1
    assert_is_the_servers(primary, tmp_path / "files")


def test_files_of_the_other_family(pair, tmp_path):
    primary, _ = pair
    archive, mixed = tmp_path / "archive", tmp_path / "mixed"
    for folder in (archive, mixed):
        folder.mkdir()
        shutil.copy(MIXED, folder / "binlog.000001")
    land_files(str(archive), lake=str(tmp_path), source="s")
    with pytest.raises(SourceDivergedError, match=r"mariadb server.* mysql server"):
        land(primary, tmp_path)
    shutil.copy(primary.binlogs()[0], mixed / "binlog.000002")
    with pytest.raises(Usage, match="two kinds of servers"):
        land_files(str(mixed), lake=str(tmp_path / "other"), source="s")
    # The other way round, and a file of the other family that comes later.
    land(primary, tmp_path / "mariadb")
    landed = gtids(tmp_path / "mariadb")
    with pytest.raises(SourceDivergedError, match=r"mysql server.* mariadb server"):
        land_files(str(archive), lake=str(tmp_path / "mariadb"), source="s")
    (archive / "binlog.000001").unlink()
    shutil.copy(primary.binlogs()[0], archive / "binlog.000002")
    with pytest.raises(SourceDivergedError, match=r"mariadb server.* mysql server"):
        land_files(str(archive), lake=str(tmp_path), source="s")
    primary.run_sql("INSERT INTO d.t (a) VALUES ('goes on')")
    land(primary, tmp_path / "mariadb")
    assert gtids(tmp_path / "mariadb") == [*landed, f"0-1-{len(landed) + 1}"]


def test_the_file_of_a_large_transaction(pair, tmp_path):
    primary, _ = pair
    if primary.version != "11.8":
        pytest.skip("from 11.7 on")
    primary.run_sql("SET GLOBAL binlog_large_commit_threshold = 10 * 1024 * 1024")
    insert = "INSERT INTO t (a) VALUES (REPEAT('x', 3000000))"
    primary.run_sql(f"INSERT INTO t (a) VALUES ('before'); BEGIN; {';'.join([insert] * 5)}; COMMIT", "d")
    primary.run_sql("INSERT INTO t (a) VALUES ('after')", "d")
    land(primary, tmp_path)
    found = assert_is_the_servers(primary, tmp_path)
    assert len(found) == 5
    with open_binlog(primary.binlogs()[1]) as binlog:
        [large, *_] = read_transactions(binlog)
        begin = large.begin
        assert int.from_bytes(binlog.buffer[begin + 9 : begin + 13].tobytes(), "little") > 3000, "a padded GTID event"
        assert large.tables[0].rows == 5


def test_what_has_landed_is_what_the_server_says(pair, tmp_path):
    primary, _ = pair
    primary.run_sql("SET gtid_domain_id = 9, server_id = 77; INSERT INTO d.t (a) VALUES ('x')")
    primary.run_sql("FLUSH BINARY LOGS; SET gtid_seq_no = 5000; INSERT INTO d.t (a) VALUES ('x')")
    # A file stays while a replica reads it.
    wait_until(lambda: primary.run_sql("PURGE BINARY LOGS TO 'binlog.000002'") == "" and len(primary.binlogs()) == 1)
    fresh = land(primary, tmp_path)
    assert fresh.executed_before == "0-1-2,9-77-1"
    assert DomainSet.parse(fresh.executed) == executed(primary)
    assert gtids(tmp_path) == ["0-1-5000"]


def test_numbers_that_jump_name_points_of_the_stream(pair, tmp_path):
    """A position contains all numbers below its newest: how many it contains says nothing about how many landed."""
    primary, _ = pair
    world = World(primary, tmp_path)
    for number in (7, 8, 100, 5000):
        primary.run_sql(f"SET gtid_seq_no = {number}; INSERT INTO d.t (a) VALUES ('x')")
        primary.run_sql(f"SET gtid_domain_id = 4, gtid_seq_no = {2 * number}; INSERT INTO d.t (a) VALUES ('y')")
    world.land()
    world.track()
    stream = LandedStream.open(world.lake, "s")
    points = {seq: stream.executed_at(seq) for seq in range(stream.last_seq + 1)}
    assert [stream.seq_at(executed) for executed in points.values()] == list(points)
    lines = [line for line in world.lines() if "op" in line]
    assert len(lines) == 8
    for point in points.values():
        parts = [*world.lines(until=point), *world.lines(point)]
        assert [line for line in parts if "op" in line] == lines, point
    # Nobody has 0-1-60: what comes next is already after it.
    assert len([line for line in world.lines(until=DomainSet.parse("0-1-60,4-1-16")) if "op" in line]) == 4
