"""Look-ups in a landed stream whose segments were written by hand."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.batch import add_gtids
from strata_cdc.binlog.events.index import SUFFIX, Resume, decode_summary, encode_summary
from strata_cdc.binlog.events.seal import FIELD
from strata_cdc.errors import DamagedFileError, StoreFormatError, StreamHoleError, Usage
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.repair import repair_landing
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import Gtid, GtidSet, GtidSetBuilder, Sid
from strata_cdc.progress.find_position import find_position
from tests.binlog.binlogs import SERVER, Binlog


def landed(lake, segments: list[list[int]], previous: str = "") -> LandedStream:
    """One transaction for each commit time (microseconds), numbered on from what preceded the stream."""
    folder = lake / "landing" / "s"
    folder.mkdir(parents=True, exist_ok=True)
    executed = GtidSet.parse(previous)
    for ordinal, times in enumerate(segments, 1):
        binlog = Binlog()
        binlog.previous(str(executed))
        for micros in times:
            gno = executed.count() + 1
            binlog.insert(gno, [gno], micros=micros)
            executed |= GtidSet.parse(f"{SERVER}:{gno}")
        (folder / str(SegmentName(ordinal, f"binlog.{ordinal:06d}", 127))).write_bytes(binlog.data)
    repair_landing(landing_folder(str(lake), "s"))
    for path in folder.glob(f"*{SUFFIX}"):
        # A large segment has many row groups.
        known = {name: value for name, value in pq.read_metadata(path).metadata.items() if name != FIELD}
        pq.write_table(pq.read_table(path).replace_schema_metadata(known), path, row_group_size=2)
    return LandedStream.open(str(lake), "s")


TIMES = st.lists(st.lists(st.integers(1, 50), max_size=6), max_size=5)


@given(TIMES, st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=30)
def test_spans_of_time_tile_the_stream_whatever_the_clock_did(tmp_path_factory, segments, cuts):
    stream = landed(tmp_path_factory.mktemp("lake"), segments)
    total = sum(len(times) for times in segments)
    assert stream.last_seq == total
    marks = [0, *(stream.seq_before(cut) for cut in sorted(cuts)), total]
    assert marks == sorted(marks)
    owned = [record.seq for a, b in itertools.pairwise(marks) for _, record in stream.records(a + 1, b)]
    assert owned == list(range(1, total + 1))
    for cut, seq in zip(sorted(cuts), marks[1:-1], strict=True):
        for _, record in stream.records():
            assert (record.committed_at < cut) == (record.seq <= seq)


@given(TIMES)
@settings(max_examples=20)
def test_every_point_has_all_of_its_forms(tmp_path_factory, segments):
    before = f"{SERVER}:1-7"
    stream = landed(tmp_path_factory.mktemp("lake"), segments, before)
    assert stream.seq_at(GtidSet.parse(before if segments else "")) == 0
    for segment, record in stream.records():
        executed = GtidSet.parse(f"{SERVER}:1-{7 + record.seq}")
        assert stream.executed_at(record.seq) == executed
        assert stream.seq_at(executed) == record.seq
        assert stream.record_at(record.seq) == (segment, record)
        position = BinlogPosition.from_offset(record.binlog_file, record.binlog_pos)
        assert stream.seq_at_position(position) == record.seq - 1


NUMBERED = st.lists(st.tuples(st.integers(-1, 2), st.integers(1, 12)), max_size=20)


@given(NUMBERED)
def test_columns_of_gtids_are_added_as_one_by_one(numbered):
    sids = (Sid(SERVER), Sid(SERVER, "tag"), Sid(SERVER.replace("1", "2")))
    one_by_one, at_once = GtidSetBuilder(), GtidSetBuilder(GtidSet.parse(f"{SERVER}:4-6"))
    one_by_one.add_span(sids[0], (4, 6))
    for slot, number in numbered:
        if slot >= 0:
            one_by_one.add(Gtid(sids[slot], number))
    columns = np.array(numbered, np.int64).reshape(-1, 2)
    add_gtids(at_once, sids, columns[:, 0], columns[:, 1])
    assert at_once.build() == one_by_one.build()


def test_points_that_are_not_in_the_stream(tmp_path):
    stream = landed(tmp_path, [[1, 2], [3]])
    for text in (f"{SERVER}:2", f"{SERVER}:1-9", f"{SERVER}:1:3"):
        with pytest.raises(Usage, match="never was"):
            stream.seq_at(GtidSet.parse(text))
    with pytest.raises(Usage, match="nothing has landed"):
        stream.seq_at_position(BinlogPosition.from_offset("binlog.000009", 4))
    with pytest.raises(Usage, match="the last is 3"):
        stream.executed_at(4)
    with pytest.raises(Usage, match="the last is 3"):
        stream.record_at(4)


STAMPS = st.tuples(
    st.integers(1, 40),
    st.sampled_from(("source", "replica", "old")),
    st.integers(1, 40),
    st.sampled_from((SERVER, SERVER.replace("3", "4"))),
)


@given(st.lists(st.lists(STAMPS, max_size=6), max_size=4), st.lists(st.integers(0, 45), max_size=6))
@settings(max_examples=30)
def test_the_clock_is_that_of_the_server_that_wrote_the_file_and_never_falls(tmp_path_factory, segments, cuts):
    """A replica keeps the source's time beside its own, an old server has whole seconds only, clocks jump back."""
    lake = tmp_path_factory.mktemp("lake")
    folder = lake / "landing" / "s"
    folder.mkdir(parents=True)
    executed, expected = GtidSetBuilder(), []
    for ordinal, stamps in enumerate(segments, 1):
        binlog = Binlog()
        binlog.previous(str(executed.build()))
        for halves, kind, original, server in stamps:
            expected.append(max([*expected[-1:], halves * 500_000 if kind != "old" else halves // 2 * 1_000_000]))
            micros = None if kind == "old" else halves * 500_000
            gno = len(expected)
            executed.add(Gtid(Sid(server), gno))
            binlog.gtid(gno, micros=micros, original=original * 500_000 if kind == "replica" else None, server=server)
            binlog.query("BEGIN", seconds=halves // 2)
            binlog.xid(seconds=halves // 2)
        (folder / str(SegmentName(ordinal, f"binlog.{ordinal:06d}", 127))).write_bytes(binlog.data)
    repair_landing(landing_folder(str(lake), "s"))
    stream = LandedStream.open(str(lake), "s")
    assert [record.committed_at for _, record in stream.records()] == expected
    for cut in (half * 500_000 for half in cuts):
        seq = stream.seq_before(cut)
        assert seq == sum(time < cut for time in expected)
        point = find_position(str(lake), "s", time=cut)
        assert (point.seq, find_position(str(lake), "s", gtid_set=point.gtid_executed).seq) == (seq, seq)


def test_an_empty_lake(tmp_path):
    stream = LandedStream.open(str(tmp_path), "s")
    assert (stream.last_seq, stream.clock, stream.executed(), list(stream.records())) == (0, 0, GtidSet(), [])
    assert (stream.seq_before(99), stream.executed_at(0)) == (0, GtidSet())


def test_a_missing_segment_is_a_hole(tmp_path):
    landed(tmp_path, [[1], [2], [3]])
    for path in (tmp_path / "landing" / "s").glob("0000000002*"):
        path.unlink()
    with pytest.raises(StreamHoleError, match="segment 2 is missing"):
        LandedStream.open(str(tmp_path), "s")


def test_a_segment_whose_index_is_not_there_yet_is_not_seen(tmp_path):
    landed(tmp_path, [[1], [2]])
    for path in (tmp_path / "landing" / "s").glob(f"0000000002*{SUFFIX}"):
        path.unlink()
    assert LandedStream.open(str(tmp_path), "s").last_seq == 1


FORM_1 = """{"format": 1, "segment": "0000000001-binlog.000001-000000000157.binlog", "binlog_file": "binlog.000001",
"server_uuid": "", "bytes": 500, "first_seq": 1, "transactions": 2, "clock_before": 0, "clock_after": 7,
"server_end": 473, "executed_before": "", "executed": ""}"""


def test_an_index_of_form_1_is_of_a_landing_by_gtid():
    summary = decode_summary(FORM_1.encode(), "x")
    assert (summary.last_seq, summary.resume) == (2, Resume.GTID)
    by_file = replace(summary, resume=Resume.FILE)
    assert decode_summary(encode_summary(by_file), "x") == by_file
    # Versions before this field read all indexes but those that need it, and those without its meaning.
    assert (summary.uncounted, b"uncounted" in encode_summary(summary)) == ((), False)
    uncounted = replace(summary, uncounted=(("shop", "old"),))
    assert decode_summary(encode_summary(uncounted), "x") == uncounted
    with pytest.raises(StoreFormatError):
        decode_summary(FORM_1.replace('"format": 1', '"format": 9').encode(), "x")


def test_a_footer_that_says_something_else_is_named_by_its_path():
    with pytest.raises(DamagedFileError, match=r"`\$\.transactions`") as caught:
        decode_summary(FORM_1.replace('"transactions": 2', '"transactions": "2"').encode(), "x.index.parquet")
    assert "strata land" in str(caught.value)
    assert caught.value.file == "x.index.parquet"


def test_several_threads_read_one_stream(tmp_path):
    times = list(range(1, 41))
    stream = landed(tmp_path, [times])

    def clocks(_: int) -> list[int]:
        return [stream.clock_at(seq) for seq in range(1, len(times) + 1)]

    with ThreadPoolExecutor(4) as pool:
        assert all(found == times for found in pool.map(clocks, range(20)))
