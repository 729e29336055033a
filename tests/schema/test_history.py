"""Answers of the historian, by every kind of position; and what it refuses."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_cdc.errors import AlreadyRunningError, SchemaGapError, UnknownSourceError
from strata_cdc.flavour import Flavour
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtBinlog, AtGtidSet, AtSeq, AtTime
from strata_cdc.schema.history.versions import EVERY_TABLE
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.database import open_store
from tests.schema.streams import FORMAT, SECOND, A, B, Stream, query, track

T = TableName("d", "t")


@pytest.fixture(params=["sql", "memory"])
def store(request):
    return SchemaStore(open_store("sqlite://")) if request.param == "sql" else MemoryStore()


def columns(history, position, table=T):
    return [column.name for column in history.at(table, position).definition.columns]


LIFE = ("create database d", "create table t (a int)", "", "alter table t add b int", "", "drop table t", "")


def test_each_transaction_sees_the_ddl_before_it(store):
    track(store, Stream(), *LIFE)
    history = History(store, "s")
    assert [columns(history, AtSeq(seq)) for seq in (2, 3, 4, 5)] == [["a"], ["a"], ["a", "b"], ["a", "b"]]
    for seq in (0, 1, 6, 7):
        with pytest.raises(SchemaGapError, match="no such table"):
            history.at(T, AtSeq(seq))


def test_it_says_how_long_a_version_lasts(store):
    track(store, Stream(), *LIFE)
    assert [History(store, "s").lasts(T, seq) for seq in range(8)] == [1, 1, 3, 3, 5, 5, 7, 7]


def test_all_kinds_of_positions_agree(store):
    stream = Stream()
    start = stream.time
    track(store, stream, *LIFE)
    history = History(store, "s")
    for seq in (2, 3, 4, 5):
        expected = columns(history, AtSeq(seq))
        assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-{seq}"))) == expected
        assert columns(history, AtBinlog(BinlogPosition.from_offset("binlog.000001", 157 + 100 * seq))) == expected
        assert columns(history, AtTime(start + seq * SECOND + 1)) == expected


def test_in_the_middle_of_a_transaction_the_offset_decides(store):
    """CREATE TABLE ... START TRANSACTION: the table is there for the rows behind it."""
    track(store, Stream(), "create database d", "create table t (a int)")
    history = History(store, "s")
    with pytest.raises(SchemaGapError):
        history.at(T, AtBinlog(BinlogPosition.from_offset("binlog.000001", 257 + 10)))
    assert columns(history, AtBinlog(BinlogPosition.from_offset("binlog.000001", 257 + 11))) == ["a"]


@pytest.mark.parametrize(
    "position",
    [
        AtSeq(8),
        AtGtidSet(GtidSet.parse(f"{A}:1-8")),
        AtGtidSet(GtidSet.parse(f"{B}:1")),
        AtBinlog(BinlogPosition.from_offset("binlog.000001", 858)),
        AtBinlog(BinlogPosition.from_offset("binlog.000002", 157)),
        AtTime(1_700_000_008 * SECOND),
    ],
    ids=str,
)
def test_beyond_what_was_tracked_it_refuses(store, position):
    track(store, Stream(), *LIFE)
    with pytest.raises(SchemaGapError, match="tracked") as caught:
        History(store, "s").at(T, position)
    assert "strata track" in caught.value.remedy


def test_a_set_that_lacks_an_earlier_ddl_is_ambiguous(store):
    track(store, Stream(), *LIFE)
    with pytest.raises(SchemaGapError, match="more than one version") as caught:
        History(store, "s").at(T, AtGtidSet(GtidSet.parse(f"{A}:1:3-5")))
    assert caught.value.gtid == f"{A}:2"


def test_a_set_that_lacks_only_later_ddl_is_fine(store):
    track(store, Stream(), *LIFE)
    assert columns(History(store, "s"), AtGtidSet(GtidSet.parse(f"{A}:1-3:5"))) == ["a"]


def test_an_unreadable_statement_refuses_its_table_only(store):
    stream = Stream()
    statement = "alter table t frobnicate x int"
    report = track(store, stream, "create database d", "create table t (a int)", "create table u (a int)", statement)
    assert report.gaps == 1
    history = History(store, "s")
    assert columns(history, AtSeq(3)) == ["a"]
    assert columns(history, AtSeq(4), TableName("d", "u")) == ["a"]
    with pytest.raises(SchemaGapError) as caught:
        history.at(T, AtSeq(4))
    error = caught.value
    assert statement in error.message
    assert (error.gtid, error.file, error.offset) == (f"{A}:4", "binlog.000001", 157 + 300 + 10)
    assert "strata snapshot" in error.remedy
    assert str(error.table) == "d.t"


def test_a_gap_of_a_whole_database_leaves_the_others(store):
    track(
        store,
        Stream(),
        *("create database d", "create table t (a int)", "create database e", "create table e.t (a int)"),
        "create table 'unterminated",
    )
    history = History(store, "s")
    with pytest.raises(SchemaGapError, match="not known"):
        history.at(T, AtSeq(5))
    assert columns(history, AtSeq(5), TableName("e", "t")) == ["a"]


def test_a_table_made_after_a_gap_is_known(store):
    track(store, Stream(), "create database d", "create table 'unterminated", "create table t (a int)")
    assert columns(History(store, "s"), AtSeq(3)) == ["a"]


def test_a_hole_between_files_refuses_everything_behind_it(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)")
    stream.gno += 3
    stream.executed |= GtidSet.parse(f"{A}:3-5")
    report = track(store, stream, "", "create table u (a int)", file="binlog.000003")
    assert report.gaps == 1
    history = History(store, "s")
    assert columns(history, AtSeq(2)) == ["a"]
    for position in (AtSeq(3), AtGtidSet(GtidSet.parse(f"{A}:1-3")), AtGtidSet(GtidSet.parse(f"{A}:1-6"))):
        with pytest.raises(SchemaGapError, match="missing from the stream"):
            history.at(T, position)
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-2"))) == ["a"]
    assert columns(history, AtBinlog(BinlogPosition.from_offset("binlog.000001", 357))) == ["a"]
    with pytest.raises(SchemaGapError, match="missing from the stream"):
        history.at(T, AtBinlog(BinlogPosition.from_offset("binlog.000003", 157)))


def test_a_stream_that_starts_midway_knows_only_what_is_made_in_it(store):
    stream = Stream(gno=10, executed=GtidSet.parse(f"{A}:1-10"))
    report = track(store, stream, "", "create database d", "create table t (a int)", "alter table e.x add b int")
    history = History(store, "s")
    assert columns(history, AtSeq(3)) == ["a"]
    with pytest.raises(SchemaGapError, match="starts after"):
        history.at(TableName("e", "x"), AtSeq(1))
    with pytest.raises(SchemaGapError):
        history.at(TableName("e", "x"), AtSeq(4))
    with pytest.raises(SchemaGapError, match="starts after"):
        history.at(T, AtGtidSet(GtidSet.parse(f"{A}:1-9")))
    # The start is said, and is no fault of a statement; that e.x was altered is.
    assert report.gaps == 1
    assert dict(history.tables(AtSeq(1))) == {
        TableName("e", "x"): Gap(*_gap(history, 1)),
        EVERY_TABLE: Gap(*_gap(history, 1)),
    }


def _gap(history, seq):
    found = dict(history.tables(AtSeq(seq)))[EVERY_TABLE]
    return found.reason, found.entry


def test_failover_continues_the_stream_under_another_uuid(store):
    first = Stream()
    track(store, first, "create database d", "create table t (a int)", "")
    # The replica's file begins with transactions that were tracked from the first server.
    second = Stream(uuid=B, file="binlog.000001", time=first.time)
    tracker = Tracker(store, "s")
    tracker.begin_file(second.start(previous=GtidSet.parse(f"{A}:1")))
    replayed = Stream(gno=1, position=157)
    for sql in ("create table t (a int)", ""):
        tracker.track(replayed.transaction(sql) if sql else replayed.transaction())
    second.position = replayed.position
    tracker.track(second.transaction("alter table t add b int"))
    tracker.end_file(second.position)
    report = tracker.finish()
    assert (report.transactions, report.skipped) == (1, 2)
    history = History(store, "s")
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-3"))) == ["a"]
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-3,{B}:1"))) == ["a", "b"]
    assert columns(history, AtSeq(4)) == ["a", "b"]
    # Two servers have a file of that name: where both have the offset, nobody can tell which is meant.
    with pytest.raises(SchemaGapError, match="more than one server"):
        history.at(T, AtBinlog(BinlogPosition.from_offset("binlog.000001", 400)))
    assert columns(history, AtBinlog(BinlogPosition.from_offset("binlog.000001", 300))) == ["a"]


def test_failover_that_lost_a_ddl_refuses_its_table(store):
    first = Stream()
    track(
        store, first, "create database d", "create table t (a int)", "create table u (a int)", "alter table t add b int"
    )
    second = Stream(uuid=B, file="binlog.000007", time=first.time, created=9)
    tracker = Tracker(store, "s")
    tracker.begin_file(second.start(previous=GtidSet.parse(f"{A}:1-3")))
    tracker.track(second.transaction())
    tracker.track(second.transaction("create table v (a int)"))
    tracker.end_file(second.position)
    assert tracker.finish().gaps == 1
    history = History(store, "s")
    assert columns(history, AtSeq(4)) == ["a", "b"]
    with pytest.raises(SchemaGapError, match="never executed"):
        history.at(T, AtSeq(5))
    # By its own set, that server has the table as it was before the statement that it never saw.
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-3,{B}:1"))) == ["a"]
    assert columns(history, AtSeq(5), TableName("d", "u")) == ["a"]
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:1-3,{B}:1-2")), TableName("d", "v")) == ["a"]


def test_a_lost_ddl_refuses_its_table_once(store):
    """All files of the server that never executed it lack it; what they do to the table is known."""
    first = Stream()
    track(store, first, "create database d", "create table t (a int)", "alter table t add b int")
    second = Stream(uuid=B, file="binlog.000007", time=first.time, created=9, executed=GtidSet.parse(f"{A}:1-2"))
    assert track(store, second, "").gaps == 1
    assert track(store, second, "drop table t", "create table t (c int)", file="binlog.000008").gaps == 0
    assert track(store, second, "", file="binlog.000009").gaps == 0
    history = History(store, "s")
    with pytest.raises(SchemaGapError, match="never executed"):
        history.at(T, AtSeq(4))
    assert columns(history, AtSeq(6)) == ["c"]
    assert columns(history, AtSeq(7)) == ["c"]


def test_tagged_gtids(store):
    stream = Stream(tag="blue")
    track(store, stream, "create database d", "create table t (a int)", "alter table t add b int")
    history = History(store, "s")
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:blue:1-2"))) == ["a"]
    assert columns(history, AtGtidSet(GtidSet.parse(f"{A}:blue:1-3"))) == ["a", "b"]
    with pytest.raises(SchemaGapError):
        history.at(T, AtGtidSet(GtidSet.parse(f"{A}:1-3")))


def test_a_stream_without_gtids(store):
    """Such a server writes an empty PREVIOUS_GTIDS into every file; only its first one starts with nothing."""
    stream = Stream(anonymous=True)
    first = ["create database d", "create table t (a int)"]
    track(store, stream, *first)
    track(store, stream, "alter table t add b int")
    track(store, stream, "", file="binlog.000002")
    history = History(store, "s")
    assert [columns(history, AtSeq(seq)) for seq in (2, 3, 4)] == [["a"], ["a", "b"], ["a", "b"]]
    assert columns(history, AtBinlog(BinlogPosition.from_offset("binlog.000001", 357))) == ["a"]
    again = Stream(anonymous=True)
    assert track(store, again, *first).transactions == 0
    assert track(store, stream, "", file="binlog.000004").gaps == 1
    late = Stream(anonymous=True, file="binlog.000007")
    track(store, late, "create table if not exists d.t (a int)", source="late")
    with pytest.raises(SchemaGapError):
        History(store, "late").at(T, AtSeq(1))


def test_lost_events_make_everything_unknown(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)")
    tracker = Tracker(store, "s")
    tracker.begin_file(stream.start())
    tracker.track(stream.transaction(lost="disk full"))
    tracker.track(stream.transaction("create table u (a int)"))
    tracker.finish()
    history = History(store, "s")
    assert columns(history, AtSeq(2)) == ["a"]
    with pytest.raises(SchemaGapError, match="disk full"):
        history.at(T, AtSeq(3))
    with pytest.raises(SchemaGapError, match="disk full"):
        history.at(T, AtSeq(4))


def test_two_trackers_cannot_both_win(store):
    stream = Stream()
    track(store, stream, "create database d")
    slow, start = Tracker(store, "s"), stream.start()
    statement = stream.transaction("create table t (a int)")
    for tracker in (slow, Tracker(store, "s")):
        tracker.begin_file(start)
        tracker.track(statement)
    tracker.finish()
    with pytest.raises(AlreadyRunningError, match="another tracker"):
        slow.finish()
    assert columns(History(store, "s"), AtSeq(2)) == ["a"]


def test_an_unknown_source_names_the_known_ones(store):
    track(store, Stream(), "create database d")
    with pytest.raises(UnknownSourceError, match="it has: s"):
        History(store, "other").at(T, AtSeq(0))


def test_names_compare_exactly(store):
    track(store, Stream(), "create database d", "create table t (a int)", "create table T (b int)")
    history = History(store, "s")
    assert columns(history, AtSeq(3)) == ["a"]
    assert columns(history, AtSeq(3), TableName("d", "T")) == ["b"]


# Properties -------------------------------------------------------------------------------------

_NAMES = st.sampled_from(["t", "u", "v"])
_STATEMENTS = st.one_of(
    st.just(""),
    st.builds("create table {} (a int)".format, _NAMES),
    st.builds("create table if not exists {} (z int)".format, _NAMES),
    st.builds("alter table {} add c{} int".format, _NAMES, st.integers(0, 99)),
    st.builds("alter table {} frobnicate".format, _NAMES),
    st.builds("drop table if exists {}".format, _NAMES),
    st.builds("rename table {} to {}".format, _NAMES, st.sampled_from(["t", "u", "v", "w"])),
    st.just("create table 'unterminated"),
    # A table cannot be made in a database that is not there, so no log has it.
    st.just("drop database d; create database d"),
    st.just("create database if not exists d"),
)


def lives(longest):
    pieces = st.lists(_STATEMENTS, min_size=1, max_size=longest)
    return pieces.map(lambda found: [sql for piece in found for sql in piece.split("; ")])


# One store for all examples: making its tables costs more than an example. Each has a source of its own.
_STORE = SchemaStore(open_store("sqlite://"))
_SOURCES = (f"source {number}" for number in count())


def _answers(source, last):
    history = History(_STORE, source)
    found = {}
    for name in ("t", "u", "v", "w"):
        for seq in range(last + 1):
            for position in (AtSeq(seq), AtGtidSet(GtidSet.parse(f"{A}:1-{seq}" if seq else ""))):
                try:
                    found[name, position] = history.at(TableName("d", name), position).fingerprint
                except SchemaGapError as error:
                    found[name, position] = error.message
    return found


@given(st.lists(lives(5), min_size=1, max_size=4))
@settings(max_examples=25)
def test_appending_never_changes_an_earlier_answer(runs):
    source, stream = next(_SOURCES), Stream()
    track(_STORE, stream, "create database d", source=source)
    seq, before = 1, {}
    for run in runs:
        seq += len(run)
        track(_STORE, stream, *run, source=source)
        now = _answers(source, seq)
        assert {key: now[key] for key in before} == before
        before = now


@given(lives(12), st.integers(1, 12))
@settings(max_examples=25)
def test_tracking_in_pieces_gives_the_same_versions_as_at_once(statements, cut):
    whole, pieces = next(_SOURCES), next(_SOURCES)
    track(_STORE, Stream(), "create database d", *statements, source=whole)
    stream = Stream()
    track(_STORE, stream, "create database d", *statements[:cut], source=pieces)
    track(_STORE, stream, *statements[cut:], source=pieces)
    last = len(statements) + 1
    assert _answers(pieces, last) == _answers(whole, last)


@given(lives(10))
@settings(max_examples=25)
def test_a_list_of_tables_agrees_with_each_of_them(statements):
    source = next(_SOURCES)
    track(_STORE, Stream(), "create database d", *statements, source=source)
    history = History(_STORE, source)
    for seq in range(len(statements) + 2):
        listed = {name: found for name, found in history.tables(AtSeq(seq)) if not isinstance(found, Gap)}
        for name in ("t", "u", "v", "w"):
            table = TableName("d", name)
            try:
                answer = history.at(table, AtSeq(seq))
            except SchemaGapError:
                answer = None
            assert listed.get(table) == answer


def test_the_tracker_needs_no_statement_text_to_be_a_known_charset():
    assert query("create table é (a int)").statement.decode() == "create table é (a int)"
    assert FORMAT.flavour == Flavour.mysql(90704)
