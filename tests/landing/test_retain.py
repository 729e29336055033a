"""Deleting landed segments: only what the settings do not keep, and never what somebody still needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

from strata_cdc.errors import StreamHoleError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.housekeep.retain_landed import retain_landed
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.position.sets import GtidSet
from strata_cdc.progress.find_position import find_position
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from tests.pipeline.test_plan import LIFE, Stream

pytestmark = pytest.mark.mysql
DAY = 86_400_000_000


@pytest.fixture
def stream(mysql_server, tmp_path):
    mysql_server.run_sql("DROP DATABASE IF EXISTS retained; CREATE DATABASE retained")
    return Stream(mysql_server, tmp_path, "retained")


def retain(stream, now, **limits):
    source = replace(stream.source, settings=structs.replace(stream.source.settings, **limits))
    return retain_landed(source, stream.engine, now=now)


def segments(stream):
    return [str(segment.name) for segment in LandedStream.open(stream.source.lake, "s").segments]


def publish(stream, plan, *tables, short=0):
    """What publishing notes, of the tables named; a number of rows left out."""
    state = IntervalState.BLOCKED if short else IntervalState.PUBLISHED
    TableIntervalLedger(stream.engine).put(
        TableInterval("s", one.interval, one.database, one.table, one.rows, state, published_rows=one.rows - short)
        for one in plan.tables
        if one.table in tables
    )


def test_only_what_is_published_is_deleted(stream):
    first_end = stream.live(LIFE + "FLUSH BINARY LOGS; INSERT INTO b VALUES (3)")
    later = first_end + 30 * DAY
    assert retain(stream, later).segments == ()
    assert retain(stream, later).held_by is None
    assert "no interval owns" in retain(stream, later, keep_days=1).held_by
    _, plan = stream.plan(RunRequest(end=first_end))
    publish(stream, plan, "a")
    assert "rows of retained.b" in retain(stream, later, keep_days=1).held_by
    publish(stream, plan, "b", short=1)
    assert "rows of retained.b" in retain(stream, later, keep_days=1).held_by
    publish(stream, plan, "b")
    assert retain(stream, first_end, keep_days=1).segments == (), "it is not old"
    assert retain(stream, later, keep_days=60, keep_gb=1).segments == ()
    before = segments(stream)
    report = retain(stream, later, keep_days=1)
    assert [one.segment for one in report.segments] == before[:-1]
    assert (segments(stream), report.kept, report.held_by) == (before[-1:], 1, None)
    (path,) = Path(stream.source.lake, "landing", "s", "deleted").iterdir()
    assert [one["segment"] for one in json.loads(path.read_text())] == before[:-1]
    assert retain(stream, later, keep_days=1).segments == (), "the newest stays"


def test_the_stream_goes_on_and_what_is_gone_is_refused(stream):
    first_end = stream.live(LIFE + "FLUSH BINARY LOGS")
    stream.live("INSERT INTO b VALUES (3)")
    _, plan = stream.plan(RunRequest(end=first_end))
    publish(stream, plan, "a", "b")
    publish(stream, stream.plan(RunRequest())[1], "a", "b")
    whole = LandedStream.open(stream.source.lake, "s")
    assert retain(stream, first_end, keep_gb=0).segments != ()
    assert retain(stream, first_end, keep_gb=0).held_by is None
    second_end = stream.live("INSERT INTO b VALUES (4)")
    left = LandedStream.open(stream.source.lake, "s")
    assert left.first_seq > 1
    assert left.last_seq == whole.last_seq + 1
    assert left.executed_at(left.first_seq - 1) == left.executed_before()
    assert left.clock_at(left.first_seq - 1) == left.segments[0].summary.clock_before
    for lost in (lambda: list(left.records(1)), lambda: left.executed_at(left.first_seq - 2)):
        with pytest.raises(StreamHoleError, match="its segment was deleted"):
            lost()
    point = find_position(stream.source.lake, "s", time=0)
    assert (point.seq, point.gtid_executed) == (left.first_seq - 1, str(left.executed_before()))
    report, plan = stream.plan(RunRequest(), now=second_end)
    assert sum(one.rows for one in plan.of_interval(plan.intervals[-1])) == 1
    assert len(stream.decode(report)) == 1
    with pytest.raises(StreamHoleError, match="its segment was deleted"):
        stream.plan(RunRequest(start=0, end=first_end))
    assert GtidSet.parse(find_position(stream.source.lake, "s", time=second_end).gtid_executed) == left.executed()


def test_a_first_segment_without_index_is_not_numbered_anew(stream):
    end = stream.live(LIFE + "FLUSH BINARY LOGS")
    stream.live("INSERT INTO b VALUES (3)")
    _, plan = stream.plan(RunRequest())
    publish(stream, plan, "a", "b")
    retain(stream, end, keep_gb=0)
    (segment,) = LandedStream.open(stream.source.lake, "s").segments
    segment.folder.delete(f"{segment.name}.index.parquet")
    with pytest.raises(StreamHoleError, match="has no index"):
        stream.live("INSERT INTO b VALUES (4)")
