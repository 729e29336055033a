from __future__ import annotations

import os
import random
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.index import from_arrow, to_arrow
from strata_cdc.binlog.events.model import SplitPoint, TableRows
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.events.transactions import ddl_events, read_transactions, scan_transactions
from strata_cdc.errors import (
    ChecksumError,
    CorruptEventError,
    StrataError,
    TruncatedEventError,
    UnsupportedEventError,
)
from strata_cdc.position.clock import CommitClock
from tests.binlog.binlogs import SERVER, Binlog
from tests.binlog.naive import naive_transactions

MIXED = Path(__file__).parent / "golden" / "mixed.binlog"


def records_of(tmp_path, binlog: Binlog, name: str = "binlog.000001", **options):
    path = tmp_path / name
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        return list(read_transactions(opened, **options))


def read_until_fault(path):
    found, fault = [], None
    try:
        with open_binlog(path) as binlog:
            for record in read_transactions(binlog):
                found.append(record)  # noqa: PERF402 - what precedes the fault is kept
    except StrataError as error:
        fault = error
    return found, fault


def test_a_recorded_file_of_every_kind_of_transaction():
    with open_binlog(MIXED) as binlog:
        found = list(read_transactions(binlog))
        statements = [[one.query.statement.decode() for one in ddl_events(binlog, record)] for record in found]
        expected = naive_transactions(binlog)
    uuid = found[0].gtid.sid.uuid
    gtids = [str(record.gtid).removeprefix(uuid + ":") for record in found]
    assert gtids == ["1", "2", "3", "4", "foo_tag:1", "foo_tag:2", *(str(gno) for gno in range(5, 12))]
    assert [record.seq for record in found] == list(range(1, 14))
    assert [(r.begin, r.end, str(r.gtid)) for r in found] == [(n.begin, n.end, n.gtid) for n in expected]
    counts = [{(t.database, t.table): [t.row_events, t.rows] for t in record.tables} for record in found]
    assert counts == [n.tables for n in expected]
    assert [list(record.ddl_offsets) for record in found] == [n.statements for n in expected]
    assert [len(one) for one in statements] == [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]
    assert statements[12][0].startswith("CREATE TABLE `w`")
    assert found[6].tables == (TableRows("d", "t", 1, 2),), "compressed"
    assert found[10].tables == (TableRows("d", "u", 1, 1),), "one-phase XA"
    assert all(record.committed_at == record.commit_timestamp > 1_700_000_000_000_000 for record in found)
    assert all(before.end == after.begin for before, after in pairwise(found))


def truncate_at(sizes, tmp_path):
    data = MIXED.read_bytes()
    whole, _ = read_until_fault(MIXED)
    ends = [record.end for record in whole]
    path = tmp_path / "cut"
    path.write_bytes(data)
    for size in sorted(sizes, reverse=True):
        os.truncate(path, size)  # quicker than to write it anew
        found, fault = read_until_fault(path)
        kept = sum(end <= size for end in ends)
        assert [(r.seq, r.gtid, r.begin, r.tables) for r in found] == [
            (r.seq, r.gtid, r.begin, r.tables) for r in whole[:kept]
        ]
        if size in (*ends, 127, 158) or size == len(data):
            assert fault is None
            continue
        assert fault is not None
        assert fault.file == str(path)
        if size > 4 + 123:
            assert isinstance(fault, TruncatedEventError)
            assert (ends[kept - 1] if kept else 127) <= fault.offset <= size


@pytest.mark.slow
def test_truncated_at_every_byte(tmp_path):
    truncate_at(range(MIXED.stat().st_size), tmp_path)


def test_truncated_in_every_event(tmp_path):
    """At its first byte, in its header, behind its header, in its body and in front of its last byte."""
    sizes = {0, 3, 4, 50}
    with open_binlog(MIXED) as binlog:
        index = index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format)
        for begin, length in zip(index.positions.tolist(), index.lengths.tolist(), strict=True):
            sizes |= {begin, begin + 9, begin + 19, begin + 25, begin + length - 1}
    truncate_at(sizes, tmp_path)


def test_any_changed_byte_is_found_and_what_precedes_it_is_right(tmp_path):
    data = MIXED.read_bytes()
    whole, _ = read_until_fault(MIXED)
    chance = random.Random(7)
    path = tmp_path / "changed"
    for at in chance.sample(range(127, len(data)), 400):
        changed = bytearray(data)
        changed[at] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        found, fault = read_until_fault(path)
        assert isinstance(fault, CorruptEventError)
        kept = sum(record.end <= at for record in whole)
        assert [record.gtid for record in found] == [record.gtid for record in whole[:kept]]
        inside = kept < len(whole) and fault.offset > whole[kept].begin
        assert not inside or fault.gtid == str(whole[kept].gtid)


@pytest.mark.parametrize("seed", range(3))
def test_damage_without_checksums_ends_in_an_error_of_ours_or_in_other_records(tmp_path, seed):
    binlog = Binlog(checksum=False)
    binlog.previous()
    for gno in range(1, 30):
        binlog.insert(gno, [1, 2, 3])
    chance = random.Random(seed)
    path = tmp_path / "changed"
    for _ in range(150):
        changed = bytearray(binlog.data)
        for at in chance.sample(range(127, len(changed)), chance.randrange(1, 4)):
            changed[at] = chance.randrange(256)
        path.write_bytes(changed)
        read_until_fault(path)


def test_a_fault_names_file_offset_and_gtid(tmp_path):
    binlog = Binlog()
    binlog.insert(1, [1])
    binlog.gtid(2)
    binlog.query("BEGIN")
    binlog.table_map()
    at = binlog.write([5])
    binlog.data[at + 30] ^= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    found, fault = read_until_fault(path)
    assert [record.gtid.gno for record in found] == [1]
    assert isinstance(fault, ChecksumError)
    assert (fault.file, fault.offset, fault.gtid) == (str(path), at, f"{SERVER}:2")


def test_without_gtids_and_checksums_as_before_5_6(tmp_path):
    binlog = Binlog(version="5.5.62", checksum=False)
    create = binlog.query("CREATE TABLE t (a INT)", seconds=100)
    begin = binlog.query("BEGIN", seconds=200)
    binlog.table_map()
    row = (1).to_bytes(6, "little") + b"\1\0" + b"\1\1" + b"\0\7\0\0\0"
    binlog.event(23, row)
    end = binlog.xid(seconds=201) + 27
    statement = binlog.event(13, bytes(16))
    insert = binlog.query("INSERT INTO t VALUES (RAND())", seconds=202)
    first, second, third = records_of(tmp_path, binlog)
    assert first.gtid is second.gtid is third.gtid is None
    assert (first.begin, first.ddl_offsets, first.committed_at) == (create, (create,), 100_000_000)
    assert (second.begin, second.end, second.tables) == (begin, end, (TableRows("d", "t", 1, 1),))
    assert (third.begin, third.ddl_offsets, third.commit_timestamp) == (statement, (insert,), 202_000_000)


def test_anonymous_transactions(tmp_path):
    binlog = Binlog()
    binlog.event(34, b"\1" + bytes(16) + bytes(8) + b"\2" + bytes(16) + (5_000_000).to_bytes(7, "little"))
    binlog.query("CREATE TABLE t (a INT)")
    (record,) = records_of(tmp_path, binlog)
    assert (record.gtid, record.commit_timestamp) == (None, 5_000_000)


def test_the_commit_clock_never_goes_back(tmp_path):
    binlog = Binlog()
    for gno, micros in enumerate([50, 30, 70, 60], 1):
        binlog.insert(gno, [1], micros=micros)
    clock = CommitClock(40)
    found = records_of(tmp_path, binlog, clock=clock, first_seq=11)
    assert [record.committed_at for record in found] == [50, 50, 70, 70]
    assert [record.commit_timestamp for record in found] == [50, 30, 70, 60]
    assert [record.seq for record in found] == [11, 12, 13, 14]
    assert clock.now == 70


def test_what_frames_a_transaction_is_no_statement(tmp_path):
    binlog = Binlog()
    binlog.gtid(1)
    binlog.query("BEGIN")
    binlog.query("SAVEPOINT `a`")
    noticed = [binlog.query("insert into t values (1)"), binlog.query("CREATE TABLE `x` (a int) START TRANSACTION")]
    binlog.query("ROLLBACK TO `a`")
    noticed.append(binlog.query("DROP TEMPORARY TABLE `x`"))
    binlog.query("RELEASE SAVEPOINT `a`")
    binlog.query("COMMIT")
    for gno, text in enumerate(["XA COMMIT X'61',X'',1", "XA ROLLBACK X'61',X'',1", "ROLLBACK", "TRUNCATE t"], 2):
        binlog.gtid(gno)
        at = binlog.query(text)
    found = records_of(tmp_path, binlog)
    assert [list(record.ddl_offsets) for record in found] == [noticed, [], [], [], [at]]


def test_statement_of_load_data(tmp_path):
    binlog = Binlog()
    binlog.gtid(1)
    binlog.query("BEGIN")
    binlog.event(17, b"\1\0\0\0some,data")
    at = binlog.event(18, bytes(8) + b"\1\0\0\0\0" + bytes(13) + b"d\0LOAD DATA INFILE 'x' INTO TABLE t")
    binlog.xid()
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        (record,) = read_transactions(opened)
        assert record.ddl_offsets == (at,)
        (statement,) = ddl_events(opened, record)
        assert statement.query.statement.startswith(b"LOAD DATA")


def test_several_statements_tables_and_ids(tmp_path):
    binlog = Binlog()
    binlog.gtid(1)
    binlog.query("BEGIN")
    binlog.table_map(1, table="a")
    binlog.table_map(2, table="b")
    binlog.write([1, 2], 1, last=False, padding=9)
    binlog.write([3], 2, last=False)
    binlog.write([4], 1)
    binlog.table_map(3, table="a")
    binlog.write([5], 3)
    binlog.event(30, b"\xff\xff\xff\xff\xff\xff\1\0\2\0\0\0")
    binlog.xid()
    (record,) = records_of(tmp_path, binlog)
    assert record.tables == (TableRows("d", "a", 3, 4), TableRows("d", "b", 1, 1))


def test_incidents_are_told(tmp_path):
    binlog = Binlog()
    binlog.gtid(1)
    binlog.event(26, b"\1\0\4oops")
    binlog.insert(2, [1])
    first, second = records_of(tmp_path, binlog)
    assert (first.incident, second.incident) == ("oops", None)


def test_events_that_change_nothing_and_ignorable_ones_are_passed_over(tmp_path):
    binlog = Binlog()
    binlog.gtid(1)
    binlog.query("BEGIN")
    binlog.event(37, b"view:1".ljust(52, b"\0"))
    binlog.event(99, b"whatever", flags=0x80)
    binlog.query("COMMIT")
    binlog.event(27, b"binlog.000001")
    binlog.event(3, b"")
    assert len(records_of(tmp_path, binlog)) == 1


def begun(binlog: Binlog) -> Binlog:
    binlog.insert(1, [1])
    binlog.gtid(2)
    binlog.query("BEGIN")
    return binlog


def faults():
    yield "unknown type", UnsupportedEventError, lambda b: b.event(99, b"")
    yield "rows before 5.1", UnsupportedEventError, lambda b: b.event(20, b"")
    yield "nested", CorruptEventError, lambda b: b.gtid(3)
    yield "begin twice", CorruptEventError, lambda b: b.query("BEGIN")
    yield "rows without map", CorruptEventError, lambda b: b.write([1])
    yield "file ends", TruncatedEventError, lambda b: b.event(4, b"\4" + bytes(7) + b"binlog.000002")
    yield "map too short", CorruptEventError, lambda b: b.event(19, b"\1\0\0")
    yield "map garbage", CorruptEventError, lambda b: b.event(19, bytes(8) + b"\1d\0\1t\0\7\3")
    yield "map with no such type", CorruptEventError, lambda b: b.event(19, bytes(8) + b"\1d\0\1t\0\1\x80\0\1")
    yield "query too short", CorruptEventError, lambda b: b.event(2, bytes(5))
    yield "query lies", CorruptEventError, lambda b: b.event(2, bytes(8) + b"\xff\0\0\0\0")
    yield "misplaced payload", CorruptEventError, lambda b: b.event(40, bytes(9))


@pytest.mark.parametrize(("error", "add"), [pytest.param(*rest, id=name) for name, *rest in faults()])
def test_faults(tmp_path, error, add):
    binlog = begun(Binlog())
    at = add(binlog)
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    found, fault = read_until_fault(path)
    assert len(found) == 1
    assert type(fault) is error
    assert (fault.offset, fault.gtid) == (at, f"{SERVER}:2")


def test_rows_that_end_early(tmp_path):
    binlog = begun(Binlog())
    binlog.table_map()
    at = binlog.event(30, b"\1\0\0\0\0\0\1\0\2\0\1\1\0\7\0")
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    _, fault = read_until_fault(path)
    assert isinstance(fault, CorruptEventError)
    assert fault.offset == at


@pytest.mark.parametrize("body", [b"\1" + bytes(23), b"\1" + bytes(16) + bytes(8)])
def test_gtid_events_that_cannot_be(tmp_path, body):
    binlog = Binlog()
    at = binlog.event(33, body)
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    found, fault = read_until_fault(path)
    assert (found, type(fault), fault.offset) == ([], CorruptEventError, at)


def test_split_points_are_event_boundaries_with_the_maps_in_force(tmp_path):
    path = tmp_path / "binlog.000001"
    binlog = Binlog()
    binlog.insert(1, [1])
    binlog.gtid(2)
    binlog.query("BEGIN")
    row_events: dict[int, tuple[int, tuple[int, ...]]] = {}
    rows = 0
    for _ in range(40):
        maps = (binlog.table_map(1, table="a"),)
        row_events[maps[0]] = (rows, ())
        maps += (binlog.table_map(2, table="b"),)
        row_events[maps[1]] = (rows, maps[:1])
        row_events[binlog.write([1, 2, 3], 1, last=False)] = (rows, maps)
        row_events[binlog.write([1, 2], 2)] = (rows + 3, maps)
        rows += 5
    binlog.xid()
    binlog.insert(3, [1])
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        for batch_events in (1000, 7):
            scan = TransactionScanner(
                opened.format, chain=chain_of(opened, 4), binlog_file=opened.name, split_bytes=500
            )
            found, at = [], 4
            while at < len(opened.buffer):
                index = index_events(opened.buffer, at, len(opened.buffer), opened.format, batch_events)
                for batch in scan.scan(opened.buffer, index):
                    found += from_arrow(to_arrow(batch), opened.name).records()
                at = index.next
            scan.finish(at)
            assert [len(record.splits) > 10 for record in found] == [False, True, False]
            assert found[1].tables == (TableRows("d", "a", 40, 120), TableRows("d", "b", 40, 80))
            for split in found[1].splits:
                assert split == SplitPoint(split.offset, *row_events[split.offset])
            steps = [split.offset for split in found[1].splits]
            assert all(500 <= after - before < 700 for before, after in pairwise(steps))


@given(st.integers(1, 40), st.lists(st.integers(0, 3), max_size=30))
@settings(max_examples=25)
def test_batches_of_any_size_give_the_same(tmp_path_factory, batch_events, kinds):
    binlog = Binlog()
    for gno, kind in enumerate(kinds, 1):
        if kind == 0:
            binlog.gtid(gno)
            binlog.query("ALTER TABLE t ADD b INT")
            continue
        binlog.gtid(gno)
        binlog.query("BEGIN")
        for number in range(kind):
            binlog.table_map(number, table=f"t{number}")
            binlog.write([number] * kind, number)
        binlog.xid()
    path = tmp_path_factory.getbasetemp() / "batches"
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        scan = TransactionScanner(opened.format, chain=chain_of(opened, 4), binlog_file=opened.name)
        found, at = [], 4
        while at < len(opened.buffer):
            index = index_events(opened.buffer, at, len(opened.buffer), opened.format, batch_events)
            for batch in scan.scan(opened.buffer, index):
                found += batch.records()
            at = index.next
        assert found == list(read_transactions(opened))
        assert [(r.begin, r.end) for r in found] == [(n.begin, n.end) for n in naive_transactions(opened)]
        stored = [from_arrow(to_arrow(batch), batch.binlog_file) for batch in scan_transactions(opened)]
        assert [record for batch in stored for record in batch.records()] == found


def test_an_index_holds_nothing_that_was_in_memory_before(tmp_path):
    """Of a name that is twice in a dictionary, Parquet's writer would write what was in memory: ten tables of one
    database, and memory that held something else."""
    binlog = Binlog()
    binlog.gtid(1)
    binlog.query("BEGIN")
    for number in range(10):
        binlog.table_map(number, table=f"t{number}")
        binlog.write([number], number)
    binlog.xid()
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    with open_binlog(path) as opened:
        [batch] = scan_transactions(opened)
        written = set()
        for secret in (b"first secret", b"other secret"):
            for _ in range(3):
                use_memory(secret)
                sink = pa.BufferOutputStream()
                # As an index, but not compressed.
                with pq.ParquetWriter(sink, to_arrow(batch).schema, compression="none") as writer:
                    writer.write_batch(to_arrow(batch))
                written.add(sink.getvalue().to_pybytes())
    assert not [content for content in written if b"secret" in content]
    assert len(written) == 1


def use_memory(content: bytes) -> None:
    """Fills memory that Arrow will use again."""
    used = [pa.allocate_buffer(size) for size in range(64, 4097, 64) for _ in range(100)]
    for buffer in used:
        np.frombuffer(buffer, np.uint8)[:] = np.resize(np.frombuffer(content, np.uint8), buffer.size)


def test_positions_of_a_landed_segment_are_those_of_the_servers_file(tmp_path):
    server = Binlog()
    server.previous()
    for gno in range(1, 6):
        server.insert(gno, [gno])
    from_gno_3 = [record.begin for record in records_of(tmp_path, server)][2:]
    head = bytes(server.data[: 4 + int.from_bytes(server.data[13:17], "little")])
    segment = Binlog()
    segment.data = bytearray(head) + server.data[from_gno_3[0] :]
    found = records_of(tmp_path, segment, str(SegmentName(2, "binlog.000001", from_gno_3[0])))
    assert [record.binlog_pos for record in found] == from_gno_3
    assert [record.begin for record in found] == [at - from_gno_3[0] + len(head) for at in from_gno_3]
    assert {record.binlog_file for record in found} == {"binlog.000001"}


def test_a_segment_beyond_four_gigabytes(tmp_path):
    """Headers hold 32 bits of the position only; a file grows beyond them when a transaction is that large."""
    segment = Binlog()
    start = len(segment.data)
    for gno in range(1, 4):
        segment.insert(gno, [1])
    size = (len(segment.data) - start) // 3
    first = (1 << 32) - size - 10
    for number, at in enumerate(record.begin for record in records_of(tmp_path, segment)):
        position = at
        while position < at + size:
            length = int.from_bytes(segment.data[position + 9 : position + 13], "little")
            behind = first + number * size + position - at + length
            segment.data[position + 13 : position + 17] = (behind & 0xFFFFFFFF).to_bytes(4, "little")
            segment.data[position + length - 4 : position + length] = zlib.crc32(
                segment.data[position : position + length - 4]
            ).to_bytes(4, "little")
            position += length
    found = records_of(tmp_path, segment, str(SegmentName(1, "binlog.000001", first)))
    assert [record.binlog_pos for record in found] == [first, first + size, first + 2 * size]
