"""Index, tracker and decoder read what a reader that shares no code with them reads, whatever the input."""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, given, settings

from strata_cdc.binlog.bytes.codes import EventFlag, EventType
from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.binlog.protocol.replication import Control, EventBytes
from strata_cdc.binlog.sources.files import FileSource
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.changes.port import ChangeBatch, Hole
from strata_cdc.errors import StrataError, UnsupportedEventError, Usage
from strata_cdc.pipeline.decode.decode_files import decode_files, decode_files_physically, track_in_memory
from strata_cdc.position.executed import NOTHING
from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.tracking.feed_tracker import feed
from tests.binlog.binlogs import MARIADB_LENGTHS, Binlog
from tests.binlog.sequences import (
    MARIADB_SINGLE,
    MARIADB_WHOLE,
    SINGLE,
    WHOLE,
    build,
    build_mariadb,
    sequences,
)
from tests.naive.grammar import Reader


def indexed(path):
    found = []
    try:
        with open_binlog(path) as binlog:
            found.extend(read_transactions(binlog))
    except StrataError as error:
        return found, fault(error)
    return found, None


def tracked(path):
    tracker = Tracker(MemoryStore(), "s")
    try:
        feed(tracker, FileSource([path]))
    except StrataError as error:
        return tracker.position.seq, fault(error)
    return tracker.position.seq, None


def decoded(path):
    rows = []
    try:
        for step in decode_files_physically([path], wanted=lambda _: True):
            if isinstance(step, ChangeBatch):
                for row in step.batch.to_pylist():
                    value = row["@1"] if row["_op"] != "delete" else row["_before"]["@1"]
                    rows.append((row["_seq"], row["_row"], row["_gtid"], str(step.table), value))
    except StrataError as error:
        return sorted(rows), fault(error)
    return sorted(rows), None


def fault(error):
    return type(error).__name__, error.offset


def compare(moves, folder, built=build):
    path = str(folder / "binlog.000001")
    data = bytes(built(moves).data)
    with open(path, "wb") as file:  # noqa: PTH123 - called often
        file.write(data)
    naive = Reader(data)
    expected = naive.fault and (naive.fault.kind, naive.fault.offset)
    records, of_index = indexed(path)
    assert of_index == expected
    assert [(r.begin, r.end, r.gtid and str(r.gtid)) for r in records] == [(n.begin, n.end, n.gtid) for n in naive.done]
    assert [list(r.ddl_offsets) for r in records] == [n.statements for n in naive.done]
    assert [r.incident is not None for r in records] == [n.lost for n in naive.done]
    counts = [{f"{t.database}.{t.table}": t.rows for t in r.tables if t.rows} for r in records]
    assert counts == [Counter(table for table, _ in n.rows) for n in naive.done]
    assert [r.seq for r in records] == list(range(1, len(records) + 1))
    assert tracked(path) == (len(naive.done), expected)
    rows, of_decoder = decoded(path)
    assert of_decoder == expected
    assert rows == naive.effects()


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_whole_transactions(kind, tmp_path):
    compare([(name, 3) for name in ("gtid", "ddl", *WHOLE[kind], *WHOLE["rows"])], tmp_path)


@pytest.mark.parametrize("before", [(), ("gtid",), ("gtid", "begin"), ("gtid", "begin", "map"), ("part",)])
@pytest.mark.parametrize("single", SINGLE)
def test_any_event_anywhere(single, before, tmp_path):
    compare([(name, 3) for name in (*before, single, "xid", *WHOLE["rows"])], tmp_path)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("single", [single for single in SINGLE if "payload" not in single])
def test_any_event_anywhere_in_a_payload(single, at, tmp_path):
    inner = ["begin", "map", "write", "xid"]
    inner.insert(at, single)
    compare([(name, 3) for name in ("gtid", "[", *inner, "]", *WHOLE["rows"])], tmp_path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequences())
def test_any_sequence(tmp_path, moves):
    compare(moves, tmp_path)


@pytest.mark.parametrize("kind", sorted(MARIADB_WHOLE))
def test_whole_transactions_of_mariadb(kind, tmp_path):
    whole = ("alone", "ddl", *MARIADB_WHOLE[kind], *MARIADB_WHOLE["rows"])
    compare([(name, 3) for name in whole], tmp_path, build_mariadb)


@pytest.mark.parametrize("before", [(), ("group",), ("alone",), ("group", "map"), ("group", "map", "packed write")])
@pytest.mark.parametrize("single", MARIADB_SINGLE)
def test_any_event_of_mariadb_anywhere(single, before, tmp_path):
    compare([(name, 3) for name in (*before, single, "xid", *MARIADB_WHOLE["rows"])], tmp_path, build_mariadb)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sequences(MARIADB_WHOLE, MARIADB_SINGLE))
def test_any_sequence_of_mariadb(tmp_path, moves):
    compare(moves, tmp_path, build_mariadb)


def test_an_incident_without_a_gtid_is_a_transaction_for_all(tmp_path):
    """Else a row behind it would be decoded by the version before its own, under the name of before a RENAME."""
    binlog = Binlog()
    binlog.previous()
    binlog.event(26, b"\1\0\4oops")
    for text in ("CREATE TABLE d.t (a INT)", "ALTER TABLE d.t RENAME COLUMN a TO b"):
        binlog.anonymous()
        binlog.query(text)
    binlog.anonymous()
    for name in ("BEGIN", "COMMIT"):
        binlog.query(name)
        if name == "BEGIN":
            binlog.table_map()
            binlog.write([7])
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    tracked = track_in_memory([str(path)], "s", None)
    assert tracked.fault is None
    lost, rows = [
        step
        for step in decode_files([str(path)], tracked.versions, "s", wanted=lambda _: True)
        if isinstance(step, ChangeBatch | Hole)
    ]
    assert lost.error.message.endswith("oops")
    assert [(row["_seq"], row["b"]) for row in rows.batch.to_pylist()] == [(4, 7)]


@pytest.mark.parametrize("files", [[("group", 0), ("group of 7", 0)], [("group", 50), ("group", 3)]])
def test_numbers_of_mariadb_only_grow_within_a_file(files, tmp_path):
    """By a position, a number that was set back has come before: its rows would be left out."""
    binlog = Binlog(version="11.8.9-MariaDB", lengths=MARIADB_LENGTHS)
    for kind, number in files:
        binlog.domain_gtid(number + 1, domain=7 if "7" in kind else 0, flags=1)
        binlog.query("CREATE TABLE d.t (a INT)")
    path = tmp_path / "binlog.000001"
    path.write_bytes(binlog.data)
    seq, fault_ = tracked(str(path))
    grows = "7" in files[1][0]
    assert (seq, fault_ and fault_[0]) == ((2, None) if grows else (0, "UnsupportedEventError"))
    with nullcontext() if grows else pytest.raises(UnsupportedEventError, match="is not above those before it"):
        assert sum(len(item.batch) for item in sent(path) if isinstance(item, Transactions)) == 2


def sent(path):
    """The items of a live server that sends the events of a file."""
    with open_binlog(path) as binlog:
        begin = int(index_events(binlog.buffer, 4, len(binlog.buffer), binlog.format, 1).next)
        data = binlog.buffer.tobytes()
    name = b"binlog.000001"
    rotate = struct.pack("<IBIIIHQ", 0, EventType.ROTATE, 1, 27 + len(name), 0, EventFlag.ARTIFICIAL, 4) + name
    items = [Control(rotate), Control(data[4:begin]), EventBytes(memoryview(data)[begin:], 0)]
    yield from LiveSource(items, NOTHING, "uuid").read_items()


def test_files_of_two_kinds_of_servers(tmp_path):
    paths = [str(tmp_path / f"binlog.00000{number}") for number in (1, 2)]
    for path, built in zip(paths, (build, build_mariadb), strict=True):
        with open(path, "wb") as file:  # noqa: PTH123 - as above
            file.write(built([]).data)
    with pytest.raises(Usage, match=r"binlog\.000001 is of mysql, and binlog\.000002 of mariadb"):
        list(FileSource(paths).read_items())
