"""A landing looks at the newest segments, and once an hour at all; readers list what they need."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from strata_cdc.binlog.events.index import SUFFIX
from strata_cdc.errors import StreamHoleError
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.repair import LookLimits, repair_landing
from tests.binlog.test_xa import landed

LIMITS = LookLimits(newest=3)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    landed(tmp_path, *["..."] * 8)
    for _ in range(2):
        repair_landing(landing_folder(str(tmp_path), "s"), LIMITS)
    return tmp_path


def segments(lake: Path) -> list[Path]:
    return sorted((lake / "landing" / "s").glob("*.binlog"))


def look(lake: Path) -> bool:
    return repair_landing(landing_folder(str(lake), "s"), LIMITS)


def an_hour_later(lake: Path) -> None:
    path = lake / "landing" / "s" / "newest.json"
    stored = json.loads(path.read_text())
    assert abs(stored["looked_at"] - time.time()) < 1000
    path.write_text(json.dumps({**stored, "looked_at": stored["looked_at"] - 3600}))


def test_readers_find_what_they_find_in_a_full_listing(lake: Path) -> None:
    stream, whole = LandedStream.open(str(lake), "s"), LandedStream.open(str(lake), "s")
    whole.require_whole()
    assert stream.segments._all is None
    assert (stream.last_seq, stream.first_seq, stream.clock) == (24, 1, whole.clock)
    assert stream.executed() == whole.executed()
    for seq in range(1, 25):
        each = LandedStream.open(str(lake), "s")
        assert each.record_at(seq)[1] == whole.record_at(seq)[1]
        assert (each.segments._all is None) is (seq <= 3 or seq > 18), "what lies between is listed"
        for find in (
            lambda one, seq=seq: [record.seq for _, record in one.records(seq, seq + 4)],
            lambda one, seq=seq: [str(segment.name) for segment in one.segments_after(seq)],
            lambda one, seq=seq: [str(segment.name) for segment in one.segments_of(seq, 24)],
            lambda one, seq=seq: one.executed_at(seq),
            lambda one, seq=seq: one.seq_before(whole.clock_at(seq)),
            lambda one, seq=seq: one.undecided_at(seq).prepared(),
        ):
            assert find(LandedStream.open(str(lake), "s")) == find(whole)
    assert [str(one.name) for one in stream.segments] == [path.name for path in segments(lake)]


def test_a_lost_index_of_the_newest_comes_again_at_once_and_an_older_one_within_the_hour(lake: Path) -> None:
    old, new = (Path(f"{segments(lake)[at]}{SUFFIX}") for at in (1, -2))
    were = [path.read_bytes() for path in (old, new)]
    for path in (old, new):
        path.unlink()
    assert not look(lake)
    assert new.read_bytes() == were[1]
    assert not old.exists()
    with pytest.raises(StreamHoleError, match="segment 2 of the landed stream has no index"):
        list(LandedStream.open(str(lake), "s").records())
    an_hour_later(lake)
    assert look(lake)
    assert old.read_bytes() == were[0]
    assert len(list(LandedStream.open(str(lake), "s").records())) == 24


def test_a_lost_segment_is_an_error_of_whoever_reads_older_ones_and_of_the_full_look(lake: Path) -> None:
    for path in (segments(lake)[3], Path(f"{segments(lake)[3]}{SUFFIX}")):
        path.unlink()
    stream = LandedStream.open(str(lake), "s")
    assert [record.seq for _, record in stream.records(20)] == [20, 21, 22, 23, 24]
    for use in (lambda: list(stream.records(14, 15)), stream.require_whole, stream.bytes, lambda: len(stream.segments)):
        with pytest.raises(StreamHoleError, match="segment 4 is missing"):
            use()


def test_segments_that_age_has_deleted_and_somebody_restores_are_there_again(lake: Path) -> None:
    gone = {path: path.read_bytes() for path in (lake / "landing" / "s").glob("000000000[12]-*")}
    for path in gone:
        path.unlink()
    assert LandedStream.open(str(lake), "s").first_seq == 7
    with pytest.raises(StreamHoleError, match="its segment was deleted"):
        list(LandedStream.open(str(lake), "s").records(5))
    an_hour_later(lake)
    assert look(lake)
    for path, content in gone.items():
        path.write_bytes(content)
    assert [record.seq for _, record in LandedStream.open(str(lake), "s").records(5, 8)] == [5, 6, 7, 8]


def test_a_hint_that_is_not_true_costs_a_listing_and_nothing_else(lake: Path) -> None:
    path = lake / "landing" / "s" / "newest.json"
    stored = json.loads(path.read_text())
    for text in ("{", json.dumps({**stored, "first": "0000000099-binlog.000099-000000000127.binlog"}), "[]"):
        path.write_text(text)
        assert len(list(LandedStream.open(str(lake), "s").records())) == 24
    assert look(lake)
    assert json.loads(path.read_text())["first"] == stored["first"]
