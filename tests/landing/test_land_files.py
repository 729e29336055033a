"""Archives of binlogs in the place of a server: order, holes, compression, resuming."""

from __future__ import annotations

import gzip
import itertools
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
import zstandard

from strata_cdc.binlog.bytes import segment as segments
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.errors import (
    AlreadyRunningError,
    ChecksumError,
    EncryptedBinlogError,
    LakeUnavailableError,
    SourceDivergedError,
    SourceSettingsError,
    StreamHoleError,
    TruncatedEventError,
    Usage,
)
from strata_cdc.landing import recorder
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.sets import GtidSet
from tests.binlog.binlogs import MARIADB_LENGTHS, SERVER, Binlog
from tests.interposed import interposed
from tests.landing.landing import assert_is_the_servers, executed, land
from tests.s3_server import BUCKET

WRITES = (recorder, "publish_file"), (segments, "publish_once")
"""Of an index and of its segment, on an object store."""
MIXED = Path("tests/binlog/golden/mixed.binlog")


def land_archive(archive: Path, lake: Path, **options):
    return land_files(str(archive), lake=str(lake), source="s", **options)


def landed_values(lake: Path) -> list[int]:
    return [record.gtid.gno for _, record in LandedStream.open(str(lake), "s").records()]


def three_files(*, transactions: int = 4) -> list[bytes]:
    """Files of one server that follow each other; names are given by the tests."""
    files, gno = [], 1
    for number in range(3):
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{gno - 1}" if gno > 1 else "")
        for _ in range(transactions):
            binlog.insert(gno, [gno, number])
            gno += 1
        binlog.event(4, (4).to_bytes(8, "little") + b"binlog.000009")
        files.append(bytes(binlog.data))
    return files


def write(archive: Path, files: dict[str, bytes]) -> None:
    archive.mkdir(exist_ok=True)
    (archive / "binlog.index").write_text("./binlog.000001\n")
    for name, data in files.items():
        packed = gzip.compress(data) if name.endswith(".gz") else data
        packed = zstandard.compress(data) if name.endswith(".zst") else packed
        (archive / name).write_bytes(packed)


@pytest.mark.parametrize("name", ["relay-bin.000004", "relay-bin.000005"])
def test_a_relay_log_is_refused_beside_binlogs(tmp_path, name):
    archive = tmp_path / "archive"
    archive.mkdir()
    shutil.copy(MIXED, archive / "binlog.000001")
    shutil.copy(MIXED.with_name(name), archive)
    with pytest.raises(Usage, match="this is a replica's relay log") as fault:
        land_archive(archive, tmp_path)
    assert fault.value.file == str(archive / name)
    assert not list((tmp_path / "landing" / "s").glob("*.binlog"))


@pytest.mark.parametrize("names", list(itertools.permutations(["a.000003", "b.000001.gz", "c.000002.zst"])))
def test_order_comes_from_what_the_files_say(tmp_path, names):
    write(tmp_path / "archive", dict(zip(names, three_files(), strict=True)))
    report = land_archive(tmp_path / "archive", tmp_path)
    assert (report.transactions, report.executed) == (12, f"{SERVER}:1-12")
    assert landed_values(tmp_path) == list(range(1, 13))
    stream = LandedStream.open(str(tmp_path), "s")
    assert [segment.name.binlog_file for segment in stream.segments] == [
        name.removesuffix(".gz").removesuffix(".zst") for name in names
    ]
    for data, segment in zip(three_files(), stream.segments, strict=True):
        with open_binlog(segment.url) as landed:
            assert landed.buffer.tobytes() == data
    again = land_archive(tmp_path / "archive", tmp_path)
    assert (again.transactions, again.segments) == (0, 0)


def test_a_hole_is_named_and_mended(tmp_path):
    one, two, three = three_files()
    write(tmp_path / "archive", {"x.000001": one, "x.000003": three})
    with pytest.raises(StreamHoleError) as caught:
        land_archive(tmp_path / "archive", tmp_path)
    assert caught.value.gtid == f"{SERVER}:5-8"
    assert caught.value.file.endswith("x.000003")
    assert caught.value.source == "s"
    assert landed_values(tmp_path) == [1, 2, 3, 4]
    write(tmp_path / "archive", {"x.000002": two})
    assert land_archive(tmp_path / "archive", tmp_path).transactions == 8
    assert landed_values(tmp_path) == list(range(1, 13))


def test_a_file_that_was_still_written_to(tmp_path):
    """A copy may end anywhere: whole transactions land, the rest comes with a later copy."""
    one, two, _ = three_files()
    for cut in range(len(one) - 400, len(one), 37):
        lake = tmp_path / str(cut)
        write(tmp_path / "archive", {"x.000001": one[:cut]})
        landed = land_archive(tmp_path / "archive", lake).transactions
        assert landed == sum(record.end <= cut for record in transactions_of(tmp_path, one))
        write(tmp_path / "archive", {"x.000001": one, "x.000002": two})
        land_archive(tmp_path / "archive", lake)
        assert landed_values(lake) == list(range(1, 9))
        (tmp_path / "archive" / "x.000002").unlink()


def transactions_of(folder: Path, data: bytes) -> list:
    (folder / "whole.000001").write_bytes(data)
    with open_binlog(folder / "whole.000001") as binlog:
        return list(read_transactions(binlog))


def test_copies_and_overlaps_land_once(tmp_path):
    one, two, three = three_files()
    overlap = Binlog()
    overlap.previous(f"{SERVER}:1-2")
    for gno in range(3, 11):
        overlap.insert(gno, [gno, 9])
    write(tmp_path / "archive", {"x.1": one, "y.1.gz": one, "overlap.1": bytes(overlap.data), "x.2": two, "x.3": three})
    assert land_archive(tmp_path / "archive", tmp_path, segment_bytes=300).transactions == 12
    assert landed_values(tmp_path) == list(range(1, 13))


def test_what_cannot_be_landed(tmp_path):
    one, two, _ = three_files()
    with pytest.raises(Usage, match="no binlog files"):
        land_archive(tmp_path / "nowhere", tmp_path)
    write(tmp_path / "encrypted", {"x.1": b"\xfdbin" + one[4:]})
    with pytest.raises(EncryptedBinlogError, match=r"x\.1"):
        land_archive(tmp_path / "encrypted", tmp_path)
    write(tmp_path / "damaged", {"x.1": one, "x.2": two[:-300] + bytes([two[-300] ^ 1]) + two[-299:]})
    with pytest.raises(ChecksumError, match=r"x\.2"):
        land_archive(tmp_path / "damaged", tmp_path)
    assert landed_values(tmp_path)[:4] == [1, 2, 3, 4]
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "x.1.gz").write_bytes(gzip.compress(one)[:-20])
    with pytest.raises(TruncatedEventError, match=r"x\.1\.gz"):
        land_archive(tmp_path / "packed", tmp_path / "other")
    bare = Binlog()
    bare.event(34, b"\1" + bytes(24))
    write(tmp_path / "bare", {"x.1": bytes(bare.data)})
    with pytest.raises(Usage, match="does not say"):
        land_archive(tmp_path / "bare", tmp_path / "other")


def test_transactions_without_a_number_are_refused(tmp_path):
    binlog = Binlog()
    binlog.previous()
    binlog.event(34, b"\1" + bytes(24) + b"\2" + bytes(16))
    binlog.query("CREATE TABLE t (a INT)")
    write(tmp_path / "archive", {"x.1": bytes(binlog.data)})
    with pytest.raises(SourceSettingsError, match=r"has no GTID.*x\.1"):
        land_archive(tmp_path / "archive", tmp_path)


def assert_indexes_are_those_of_a_walk(lake: Path, data: bytes) -> None:
    """What a walk over each segment finds is what its index says, and the segments have the bytes of the file."""
    landed, clock = b"", CommitClock()
    stream = LandedStream.open(str(lake), "s")
    records = [record for _, record in stream.records()]
    for segment in stream.segments:
        with open_binlog(segment.url) as binlog:
            summary = segment.summary
            walked = list(read_transactions(binlog, first_seq=summary.first_seq, clock=clock))
            assert walked == [record for record in records if summary.first_seq <= record.seq <= summary.last_seq]
            landed += binlog.buffer[walked[0].begin : walked[-1].end].tobytes()
    assert landed in data


def event_offsets(data: bytes) -> list[int]:
    found, at = [], 4
    while at < len(data):
        found.append(at)
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return found


def test_a_large_file_in_several_segments_is_walked_over_once(tmp_path):
    binlog = Binlog()
    binlog.previous()
    for gno in range(1, 501):
        binlog.gtid(gno)
        binlog.query("BEGIN")
        binlog.table_map()
        binlog.write([gno], padding=60_000)
        binlog.xid()
    write(tmp_path / "archive", {"x.1": bytes(binlog.data)})
    seen: list[int] = []

    def count(function, scanner, buffer, index):
        seen.append(len(index))
        return function(scanner, buffer, index)

    with interposed(count, (TransactionScanner, "scan")):
        assert land_archive(tmp_path / "archive", tmp_path, segment_bytes=6 << 20).segments > 2
    # Each event once, but for some of the first and for what a segment leaves to the next.
    assert len(event_offsets(bytes(binlog.data))) <= sum(seen) < len(event_offsets(bytes(binlog.data))) + 100
    assert landed_values(tmp_path) == list(range(1, 501))
    assert_indexes_are_those_of_a_walk(tmp_path, bytes(binlog.data))


@pytest.mark.parametrize("landed", [0, 3, 9])
def test_damage_is_named_where_it_is(tmp_path, landed):
    """Transactions before it land, whether or not some of the file had landed."""
    data = MIXED.read_bytes()
    records = transactions_of(tmp_path, data)
    write(tmp_path / "archive", {"x.1": data[: records[landed].begin]})
    assert land_archive(tmp_path / "archive", tmp_path).transactions == landed
    at = max(offset for offset in event_offsets(data) if offset < records[10].end)
    write(tmp_path / "archive", {"x.1": data[: at + 20] + bytes([data[at + 20] ^ 1]) + data[at + 21 :]})
    with pytest.raises(ChecksumError, match=r"x\.1") as caught:
        land_archive(tmp_path / "archive", tmp_path)
    assert (caught.value.offset, caught.value.gtid) == (at, str(records[10].gtid))
    assert [record.gtid for _, record in LandedStream.open(str(tmp_path), "s").records()] == [
        record.gtid for record in records[:10]
    ]
    assert_indexes_are_those_of_a_walk(tmp_path, data)


def test_landed_and_new_transactions_alternate(tmp_path):
    """As in the file of a replica that commits in another order."""
    files = {}
    for name, numbers in (("x.1", (2, 4, 5)), ("x.2", (1, 2, 3, 4, 5, 6))):
        binlog = Binlog()
        binlog.previous()
        for gno in numbers:
            binlog.insert(gno, [gno])
        files[name] = bytes(binlog.data)
        write(tmp_path / "archive", files)
        land_archive(tmp_path / "archive", tmp_path)
    assert landed_values(tmp_path) == [2, 4, 5, 1, 3, 6]
    damaged = files["x.2"][:-40] + bytes([files["x.2"][-40] ^ 1]) + files["x.2"][-39:]
    write(tmp_path / "archive", {"x.2": damaged})
    with pytest.raises(ChecksumError):
        land_archive(tmp_path / "archive", tmp_path / "other")


def test_a_number_of_mariadb_that_was_set_back(tmp_path):
    """Even if its file had landed in part, and the number is that of a transaction that landed."""
    binlog = Binlog(version="11.8.2-MariaDB-log", lengths=MARIADB_LENGTHS)
    binlog.event(163, bytes(4), flags=8)
    begins = []
    for number in (1, 2, 3, 2):
        begins.append(binlog.domain_gtid(number, flags=1))
        binlog.query("CREATE TABLE t (a INT)")
    write(tmp_path / "archive", {"x.1": bytes(binlog.data[: begins[2]])})
    assert land_archive(tmp_path / "archive", tmp_path).transactions == 2
    write(tmp_path / "archive", {"x.1": bytes(binlog.data)})
    with pytest.raises(SourceDivergedError, match="sequence number") as caught:
        land_archive(tmp_path / "archive", tmp_path)
    assert (caught.value.gtid, caught.value.offset) == ("0-1-2", begins[3])


@pytest.mark.mysql
def test_a_server_and_its_archive_take_turns(mysql_server, tmp_path):
    mysql_server.run_sql("CREATE DATABASE archived; CREATE TABLE archived.t (a INT); FLUSH BINARY LOGS")
    land(mysql_server, tmp_path)
    archive = tmp_path / "archive"
    archive.mkdir()
    for round_ in range(2):
        mysql_server.run_sql(
            f"INSERT INTO t VALUES ({round_}); FLUSH BINARY LOGS; INSERT INTO t VALUES (9)", "archived"
        )
        for path in mysql_server.binlogs():
            shutil.copy(path, archive / path.name)
        mysql_server.run_sql("INSERT INTO t VALUES (10)", "archived")
        assert land_archive(archive, tmp_path).transactions == 2
        assert land(mysql_server, tmp_path).transactions == 1
    mysql_server.run_sql("DROP DATABASE archived")
    land(mysql_server, tmp_path)
    assert executed(mysql_server) == GtidSet.parse(land_archive(archive, tmp_path).executed)
    assert_is_the_servers(mysql_server, tmp_path)


def on_another_machine(archive: Path, lake: str, writes: int) -> None:
    """A landing with a temporary folder of its own, which dies before a write."""
    left = iter(range(writes))

    def dying(write_file, *given):
        if next(left, None) is None:
            raise LakeUnavailableError("as if the process had died")
        return write_file(*given)

    with (
        tempfile.TemporaryDirectory() as apart,
        interposed(lambda _: apart, (tempfile, "gettempdir")),
        interposed(dying, *WRITES),
        suppress(LakeUnavailableError),
    ):
        land_archive(archive, lake)


@pytest.mark.slow
@pytest.mark.parametrize("writes", [2, pytest.param(100, marks=pytest.mark.soak)])
def test_of_two_landings_in_a_bucket_one_ends_and_nothing_is_twice(tmp_path, s3_environment, monkeypatch, writes):
    """While one lands, another one on another machine makes some writes; of the last file it has less, or more."""
    for name, value in s3_environment.items():
        monkeypatch.setenv(name, value)
    files = dict(zip(("binlog.000001", "binlog.000002", "binlog.000003"), three_files(), strict=True))
    short = three_files(transactions=4)[2]
    whole, part = tmp_path / "whole", tmp_path / "part"
    write(whole, files)
    write(part, files | {"binlog.000003": short[: len(short) // 2]})
    ended = set()
    for (mine, others), at in itertools.product([(whole, part), (part, whole)], range(7)):
        lake, count = f"s3://{BUCKET}/{uuid4().hex}", itertools.count()

        def between(write_file, *given, at=at, count=count, others=others, lake=lake):
            if next(count) == at:
                on_another_machine(others, lake, writes)
            return write_file(*given)

        with interposed(between, *WRITES):
            try:
                land_archive(mine, lake)
                ended.add("whole")
            except AlreadyRunningError:
                ended.add("second")
        land_archive(whole, lake)
        assert landed_values(lake) == list(range(1, 13))
    assert ended == {"second", "whole"}
