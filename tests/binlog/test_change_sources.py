"""The contract of change sources: over plain files, landed segments and a live server, the same life gives the same
transactions, statements, rows and schema versions; however a live stream is cut."""

from __future__ import annotations

import random
import struct
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.binlog.bytes.codes import EventFlag, EventType
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes, Until
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.files import FileSource
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import FileEnd, NothingNew, Transactions
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.decode import decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans, OnMismatch
from strata_cdc.changes.plan import Range
from strata_cdc.changes.port import ChangeBatch
from strata_cdc.changes.windows import read_windows
from strata_cdc.errors import ChecksumError
from strata_cdc.landing.change_source import LandedSource
from strata_cdc.landing.land_binlog import land_binlog
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.tracking.feed_tracker import feed
from tests.landing.landing import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.sources.port import ChangeSource, Item
    from tests.mysql_server import MysqlServer

pytestmark = pytest.mark.mysql

LIFE = """
CREATE DATABASE d; USE d;
CREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, REPEAT('x', 5000)), (2, 'y');
SET binlog_transaction_compression = ON; CREATE TABLE u AS SELECT * FROM t; UPDATE t SET a = a + 2;
ALTER TABLE u ADD c INT; SET binlog_transaction_compression = OFF; SET gtid_next = 'automatic:tagged';
CREATE TABLE v AS SELECT a FROM t; BEGIN; INSERT INTO v VALUES (9); DELETE FROM t; COMMIT;
FLUSH BINARY LOGS;
SET binlog_format = STATEMENT; BEGIN; INSERT INTO v VALUES (10); UPDATE v SET a = 11; COMMIT;
SET binlog_format = ROW, gtid_next = automatic; ALTER TABLE t ADD c INT FIRST;
XA START 'x'; INSERT INTO t VALUES (7, 7, 'seven'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
FLUSH BINARY LOGS;
INSERT INTO u VALUES (5, REPEAT('z', 30000), 5); DROP TABLE v;
"""
WHOLE = 1 << 30
KINDS = ("files", "landed", "live")


class World:
    """A server that has lived, and what has landed of it."""

    def __init__(self, address: ServerAddress, files: list[Path], lake: str) -> None:
        self.address, self.lake = address, lake
        self.files = [str(path) for path in files]
        land_binlog(address, lake=lake, source="s")
        self.landed = LandedStream.open(lake, "s")

    def read(self, kind: str, after: int = 0) -> Iterator[Item]:
        """The items of a source that begins behind a transaction."""
        if kind == "live":
            yield from self._live(self.landed.executed_at(after))
        elif kind == "landed":
            yield from LandedSource(self.landed, after).read_items()
        else:
            yield from FileSource(self.files).read_items()

    def _live(self, executed: GtidSet) -> Iterator[Item]:
        with closing(BinlogStream.open(self.address)) as stream:
            items = stream.read_events(encode_gtid_set(executed), Until.END_OF_BINLOG)
            yield from LiveSource(items, executed, "uuid").read_items()


@pytest.fixture(scope="module")
def world(server: MysqlServer, tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("changes")
    server.run_sql(LIFE)
    return World(address_of(server), server.binlogs(), str(folder / "lake"))


def rows_of(found: Transactions) -> list[dict[str, Any]]:
    """The changes by the TABLE_MAPs alone, in stream order; their ordinals are the source's own."""
    batch, binlog = found.batch, found.bytes()
    whole = Range(int(batch.begins[0]), int(batch.ends[-1]), int(batch.positions[0]), batch.first_seq, 0)
    reader = RowReader(binlog, DecodePlans(None, wanted=lambda _: True, on_mismatch=OnMismatch.FAIL))
    steps = decode_blocks(reader.read_blocks(read_windows(binlog, [whole], found.chain())), binlog.name)
    rows = [
        {"table": str(step.table), **row}
        for step in steps
        if isinstance(step, ChangeBatch)
        for row in step.batch.to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["_seq"], row["_row"]))


def reported(items: Iterator[Item], *, with_rows: bool = True) -> list[tuple[Any, ...]]:
    """All that a source says of each transaction but its ordinal."""
    transactions = []
    for item in items:
        if not isinstance(item, Transactions):
            continue
        rows = rows_of(item) if with_rows else []
        for record in item.records():
            mine = [{**row, "_seq": None} for row in rows if row["_seq"] == record.seq]
            statements = [query.statement for _, query, _ in item.statements(record)]
            maps = [(one.database, one.table) for one in item.table_maps(record)]
            where = (record.binlog_file, record.binlog_pos, record.end - record.begin)
            told_of = (record.tables, record.incident, str(record.mark))
            transactions.append((str(record.gtid), record.committed_at, *where, told_of, statements, maps, mine))
    return transactions


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same(world: World, kind: str) -> None:
    found = reported(world.read(kind))
    assert found == reported(world.read("files"))
    assert len(found) == world.landed.last_seq
    counted = [one.rows for *_, (tables, *_), _, _, _ in found for one in tables]
    assert sum(len(rows) for *_, rows in found) == sum(counted) > 10
    words = {text.split()[0] for *_, statements, _, _ in found for text in map(bytes.decode, statements)}
    assert {"CREATE", "ALTER", "INSERT", "UPDATE", "DROP"} <= words


@pytest.mark.parametrize("kind", KINDS)
def test_each_file_has_a_beginning_and_an_end(world: World, kind: str) -> None:
    items = [item for item in world.read(kind) if not isinstance(item, NothingNew)]
    kinds = [type(item) for item in items if not isinstance(item, Transactions)]
    assert kinds == [FileStart, FileEnd] * len(world.files)
    starts = [item for item in items if isinstance(item, FileStart)]
    assert [start.binlog_file for start in starts] == [path.rpartition("/")[2] for path in world.files]
    assert [start.previous for start in starts] == [
        item.previous for item in FileSource(world.files).read_items() if isinstance(item, FileStart)
    ]
    reached = 0
    for item in items:
        if isinstance(item, Transactions):
            *_, last = item.records()
            reached = last.binlog_pos + last.end - last.begin
        elif isinstance(item, FileEnd):
            assert item.end_pos >= reached > 0
            reached = 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_tracker_the_same_versions(world: World, kind: str) -> None:
    def versions(source: ChangeSource) -> list[Any]:
        store = MemoryStore()
        report = feed(Tracker(store, "s"), source)
        assert (report.gaps, report.transactions) == (0, world.landed.last_seq)
        return [(one.name, one.gtid, one.fingerprint, one.gtid_executed) for one in store.all_entries("s")]

    class Read:
        def read_items(self) -> Iterator[Item]:
            return world.read(kind)

    assert versions(Read()) == versions(FileSource(world.files))


def test_a_stream_goes_over_from_landed_segments_to_the_live_server_without_a_seam(world: World) -> None:
    whole = reported(world.read("landed"), with_rows=False)
    for after in range(len(whole) + 1):
        behind = reported(world.read("live", after), with_rows=False)
        assert whole[:after] + behind == whole
        assert reported(world.read("landed", after), with_rows=False) == behind


def pieces(path: str, most: int) -> Iterator[EventBytes | Control]:
    """A file as a server would send it, in pieces of at most so many bytes."""
    choose = random.Random(most)
    with open_binlog(path) as binlog:
        head = index_events(binlog.buffer, binlog.first_event, len(binlog.buffer), binlog.format, 2)
        begin = int(head.positions[1] + head.lengths[1])
        name = binlog.name.encode()
        yield Control(
            struct.pack("<IBIIIHQ", 0, EventType.ROTATE, 1, 27 + len(name), 0, EventFlag.ARTIFICIAL, 4) + name
        )
        yield Control(binlog.buffer[4 : int(head.positions[1])].tobytes())
        data = binlog.buffer[begin:].tobytes()
        last = index_events(binlog.buffer, begin, len(binlog.buffer), binlog.format)
        data = data[: int(last.positions[-1]) - begin]
        while data:
            size = min(most, choose.randint(1, most))
            yield EventBytes(memoryview(data[:size]), 0)
            data = data[size:]


@pytest.mark.parametrize("in_memory", [100, 1 << 30])
@pytest.mark.parametrize("most", [1, 40, 1000, WHOLE])
def test_the_same_in_pieces_of_any_size(world: World, most: int, in_memory: int) -> None:
    source = LiveSource(pieces(world.files[0], most), GtidSet(), "uuid", memory_bytes=in_memory)
    assert reported(source.read_items()) == reported(FileSource(world.files[:1]).read_items())


def test_damage_is_refused_behind_what_stands_before_it(world: World) -> None:
    *controls, piece = pieces(world.files[0], WHOLE)
    data = bytearray(piece.data)
    with open_binlog(world.files[0]) as binlog:
        first, _, third, *_ = read_transactions(binlog)
    data[third.end - first.begin - 10] ^= 0xFF
    read = LiveSource([*controls, EventBytes(memoryview(bytes(data)), 0)], GtidSet(), "uuid").read_items()
    found = []
    with pytest.raises(ChecksumError):
        found.extend(read)
    assert [len(item.batch) for item in found if isinstance(item, Transactions)] == [2]
