"""What snapshots of the live server settle: gaps that close, drift, and what stays open."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.schema.answers.changes import changes
from strata_cdc.schema.history.historian import Gap, History
from strata_cdc.schema.history.snapshot import SchemaSnapshot
from strata_cdc.schema.history.snapshot_ledger import add_snapshot
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.stream_positions import AtGtidSet, AtSeq
from strata_cdc.schema.history.versions import EVERY_TABLE, DatabaseEntry, NamePresence
from strata_cdc.schema.model.definition import Column, KeyPart, TableDefinition, TableName
from strata_cdc.schema.tracker.track import Tracker
from strata_cdc.store.database import open_store
from tests.schema.listed_at_end import assert_listed_as_each_answers
from tests.schema.streams import A, B, Stream, track

T, U = TableName("d", "t"), TableName("d", "u")


@pytest.fixture
def store():
    store = SchemaStore(open_store("sqlite://"))
    yield store
    assert_listed_as_each_answers(store)


def shape(*names):
    return TableDefinition(tuple(Column(name, "int") for name in names))


def snap(store, executed, tables, *, before=None, sees=None, hidden=(), at=None):
    fingerprints = store.store_definitions(tables.values())
    add_snapshot(
        store.engine,
        SchemaSnapshot(
            source="s",
            gtid_before=executed if before is None else before,
            gtid_executed=executed,
            taken_at=1,
            server_version=90704,
            lower_case_table_names=0,
            tables=dict(zip(tables, fingerprints, strict=True)),
            databases=(DatabaseEntry("d", NamePresence.PRESENT, "utf8mb4", "utf8mb4_0900_ai_ci"),),
            seen_databases=sees,
            hidden=hidden,
            position=BinlogPosition.parse(at) if at else None,
            server_uuid=A,
        ),
    )


def midway(gno=10):
    return Stream(gno=gno, executed=GtidSet.parse(f"{A}:1-{gno}"))


def test_a_stream_that_begins_with_a_snapshot_knows_what_never_was(store):
    snap(store, f"{A}:1-10", {T: shape("a")})
    track(store, midway(), "ALTER TABLE t ADD b INT", source="s")
    with pytest.raises(Usage, match=r"there never was a table d[.]tt: do you mean d[.]t[?]"):
        list(changes(store, "s", TableName("d", "tt")))
    with pytest.raises(Usage, match="there never was a column 'c'"):
        list(changes(store, "s", T, "c"))


def columns(store, seq, table=T):
    return [column.name for column in History(store, "s").at(table, AtSeq(seq)).definition.columns]


def refuses(store, seq, table=T):
    with pytest.raises(SchemaGapError) as caught:
        History(store, "s").at(table, AtSeq(seq))
    return caught.value.message


def test_what_nothing_touched_is_known_from_the_start(store):
    stream = midway()
    track(store, stream, "", "")
    assert "starts after" in refuses(store, 1)
    snap(store, f"{A}:1-13", {T: shape("a", "b")})
    track(store, stream, "")
    version = History(store, "s").at(T, AtSeq(0))
    assert (version.origin, version.seq) == ("reload", 0)
    assert columns(store, 3) == ["a", "b"]
    assert store.pending_snapshots("s") == []
    # A gap in which no transaction was is none.
    assert [(change.entry.name, change.entry.made_by) for change in changes(store, "s")] == [
        (T, f"known since the snapshot at {A}:1-10")
    ]


def test_it_waits_until_the_stream_has_reached_it(store):
    stream = midway()
    track(store, stream, "")
    snap(store, f"{A}:1-12", {T: shape("a")})
    track(store, stream)
    refuses(store, 1)
    track(store, stream, "")
    assert columns(store, 1) == ["a"]


def test_a_table_that_was_touched_is_known_from_that_statement_on(store):
    stream = midway()
    track(store, stream, "", "alter table t add b int", "")
    snap(store, f"{A}:1-14", {T: shape("a", "b"), U: shape("x")})
    track(store, stream, "")
    assert "starts after" in refuses(store, 1)
    assert columns(store, 2) == ["a", "b"]
    assert columns(store, 4) == ["a", "b"]
    assert columns(store, 0, U) == ["x"]


def test_a_statement_on_an_unknown_table_counts_as_a_touch_each_time(store):
    stream = midway()
    track(store, stream, "alter table t add b int", "alter table t add c int", "")
    snap(store, f"{A}:1-14", {T: shape("a", "b", "c")})
    track(store, stream, "")
    refuses(store, 1)
    assert columns(store, 2) == ["a", "b", "c"]


def test_ddl_while_the_snapshot_was_taken_leaves_its_tables_to_the_next(store):
    stream = midway()
    snap(store, f"{A}:1-12", {T: shape("a"), U: shape("x")}, before=f"{A}:1-10")
    track(store, stream, "", "alter table t add b int", "")
    assert columns(store, 3, U) == ["x"]
    refuses(store, 2)
    snap(store, f"{A}:1-13", {T: shape("a", "b"), U: shape("x")})
    track(store, stream, "")
    assert columns(store, 2) == ["a", "b"]
    refuses(store, 1)


def test_a_late_snapshot_says_nothing_of_what_was_touched_since(store):
    """The tracker is further than the snapshot when it finds it."""
    stream = midway()
    track(store, stream, "", "", "alter table t add b int")
    snap(store, f"{A}:1-11", {T: shape("a"), U: shape("x")})
    track(store, stream, "")
    refuses(store, 1)
    refuses(store, 3)
    assert columns(store, 1, U) == ["x"]


def test_an_unreadable_statement_is_closed_where_it_stands(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)", "alter table t frobnicate", "")
    snap(store, f"{A}:1-4", {T: shape("a", "z")})
    track(store, stream, "alter table t add b int")
    assert columns(store, 2) == ["a"]
    assert columns(store, 3) == ["a", "z"]
    assert columns(store, 5) == ["a", "z", "b"]


def test_a_hole_is_closed_at_its_end(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)", "create table gone (a int)")
    stream.gno, stream.executed = 5, GtidSet.parse(f"{A}:1-5")
    track(store, stream, "", file="binlog.000003")
    refuses(store, 4)
    snap(store, f"{A}:1-6", {T: shape("a", "b")})
    track(store, stream, "alter table t add c int")
    assert columns(store, 3) == ["a"]
    assert columns(store, 4) == ["a", "b"]
    assert columns(store, 5) == ["a", "b", "c"]
    assert "no such table" in refuses(store, 4, TableName("d", "gone"))
    history = History(store, "s")
    with pytest.raises(SchemaGapError, match="missing from the stream"):
        history.at(T, AtGtidSet(GtidSet.parse(f"{A}:1-4")))


def test_a_snapshot_from_inside_a_hole_says_nothing(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)")
    snap(store, f"{A}:1-4", {T: shape("a", "b")})
    stream.gno, stream.executed = 5, GtidSet.parse(f"{A}:1-5")
    report = track(store, stream, "", file="binlog.000003")
    refuses(store, 3)
    assert any("are not in the stream" in text for text in report.examples)
    assert store.pending_snapshots("s") == []


def test_a_snapshot_from_before_the_stream_says_nothing_unless_it_is_of_its_very_start(store):
    snap(store, f"{A}:1-8", {T: shape("old")})
    stream = midway()
    track(store, stream, "")
    refuses(store, 1)
    snap(store, f"{A}:1-10", {T: shape("a")})
    track(store, stream, "")
    assert columns(store, 0) == ["a"]


def test_drift_is_reported_and_corrected_from_there_on(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)", "create table u (x int)")
    snap(store, f"{A}:1-3", {T: shape("a", "sneaked_in"), TableName("d", "new"): shape("n")})
    report = track(store, stream, "", "alter table t add b int")
    assert report.drifts == 3
    assert columns(store, 3) == ["a"]
    version = History(store, "s").at(T, AtSeq(4))
    assert version.origin == "baseline"
    assert columns(store, 5) == ["a", "sneaked_in", "b"]
    assert columns(store, 4, TableName("d", "new")) == ["n"]
    assert columns(store, 3, U) == ["x"]
    assert "no such table" in refuses(store, 4, U)
    assert {str(drift.name) for drift in store.drifts("s")} == {"d.t", "d.u", "d.new"}


def parts(store, seq):
    definition = History(store, "s").at(T, AtSeq(seq)).definition
    return {key.name: [part.lengths for part in key.parts] for key in definition.keys}


def test_a_length_that_no_binlog_holds_is_told_by_a_snapshot(store):
    stream = Stream()
    made = "create table t (a varchar(255) character set utf8mb4, key k (a desc), key m (a(255)))"
    first = track(store, stream, "create database d", made, "")
    assert parts(store, 2) == {"k": [(None, 250)], "m": [(None, 250)]}
    assert first.examples == [
        f"d.t: the length of key `{key}`'s part `a` is not in the binlog: all or 250; `strata snapshot` tells it"
        for key in "km"
    ]
    replayed = History(store, "s").at(T, AtSeq(2)).definition
    reported = replace(replayed.keys[0], parts=(KeyPart("a", None, 250, descending=True),))
    snap(store, f"{A}:1-3", {T: replace(replayed, keys=(reported,), engine="MyISAM")})
    report = track(store, stream, "", "alter table t add key n (a)")
    assert (report.drifts, report.gaps) == (0, 0)
    assert "1 became known" in report.examples[0]
    version = History(store, "s").at(T, AtSeq(2))
    assert (version.origin, version.definition.engine) == ("reload", "MyISAM")
    # The server did not say how long m is, which it no longer has, so that is as open as before.
    assert parts(store, 2) == {"k": [(250,)], "m": [(None, 250)]}
    assert parts(store, 5)["n"] == [(250,)]


def test_agreement_makes_no_versions(store):
    stream = Stream()
    track(store, stream, "create database d", "create table t (a int)")
    before = store.all_entries("s")
    snap(store, f"{A}:1-2", {T: shape("a")})
    report = track(store, stream, "")
    assert (report.versions, report.drifts) == (0, 0)
    assert store.all_entries("s") == before


def test_tables_that_the_user_cannot_see_stay_unknown(store):
    stream = midway()
    snap(store, f"{A}:1-10", {T: shape("a")}, sees=frozenset({"d"}), hidden=("all tables but those of d",))
    report = track(store, stream, "", "create table if not exists u (x int)", "create table if not exists e.v (x int)")
    assert columns(store, 1) == ["a"]
    assert "no such table" in refuses(store, 1, U)
    assert columns(store, 2, U) == ["x"]
    assert "starts after" in refuses(store, 1, TableName("e", "v"))
    refuses(store, 3, TableName("e", "v"))
    assert any("all tables but those of d" in text for text in report.examples)


def test_a_closed_start_does_not_deny_what_was_dropped_later(store):
    """A table of unknown shape that a statement dropped was there before it."""
    stream = midway()
    track(store, stream, "", "drop table t", "create table w (a int)", "")
    snap(store, f"{A}:1-14", {U: shape("x"), TableName("d", "w"): shape("a")})
    track(store, stream, "")
    history = History(store, "s")
    assert "not known" in refuses(store, 1)
    assert "no such table" in refuses(store, 2)
    assert "no such table" in refuses(store, 1, TableName("d", "w"))
    listed = dict(history.tables(AtSeq(1)))
    assert isinstance(listed[T], Gap)
    assert EVERY_TABLE not in listed
    assert dict(history.tables(AtSeq(4))).keys() == {U, TableName("d", "w")}


def test_defaults_of_databases_come_with_it(store):
    stream = midway()
    track(store, stream, "create table t (a varchar(10))")
    refuses(store, 1)
    snap(store, f"{A}:1-11", {})
    track(store, stream, "create table u (a varchar(10))")
    definition = History(store, "s").at(U, AtSeq(2)).definition
    assert definition.columns[0].collation == "utf8mb4_0900_ai_ci"


def test_a_correction_of_the_past_does_not_hide_what_came_after_it(store):
    stream = midway()
    track(store, stream, "", "CREATE TABLE t (a INT)", "ALTER TABLE u ADD x INT", "")
    snap(store, f"{A}:1-14", {T: shape("a"), U: shape("b", "x")})
    track(store, stream, "", "DROP TABLE u", "CREATE TABLE w (c INT)", "ALTER TABLE v ADD y INT", "")
    snap(store, f"{A}:1-19", {T: shape("a"), TableName("d", "w"): shape("c"), TableName("d", "v"): shape("z", "y")})
    track(store, stream, "")
    assert {str(name) for name, gap in History(store, "s").names(AtSeq(10)) if gap is None} >= {"d.t", "d.w"}
    assert_listed_as_each_answers(store)


def test_the_second_run_settles_nothing_twice(store):
    stream = midway()
    track(store, stream, "")
    snap(store, f"{A}:1-11", {T: shape("a")})
    track(store, stream)
    before = store.all_entries("s")
    track(store, stream)
    assert store.all_entries("s") == before


class TestWithoutGtids:
    """A snapshot of a place in the server's files; transactions have a hundred bytes and begin at 157."""

    @pytest.fixture
    def stream(self):
        return Stream(anonymous=True, file="binlog.000007")

    @pytest.mark.parametrize("at", ["binlog.000007:157", "binlog.000007:257", "binlog.000007:357"])
    def test_what_nothing_touched_is_known_from_the_start(self, store, stream, at):
        snap(store, "", {T: shape("a", "b")}, at=at)
        track(store, stream, "", "")
        assert columns(store, 1) == columns(store, 2) == ["a", "b"]
        assert store.pending_snapshots("s") == []

    def test_it_waits_for_the_first_transaction_behind_it(self, store, stream):
        snap(store, "", {T: shape("a")}, at="binlog.000008:157")
        track(store, stream, "")
        refuses(store, 1)
        track(store, stream, "ALTER TABLE t ADD b INT", file="binlog.000008")
        assert columns(store, 1) == ["a"]
        assert columns(store, 2) == ["a", "b"]

    def test_ddl_in_front_of_it_is_in_it_and_ddl_behind_it_is_not(self, store, stream):
        track(store, stream, "ALTER TABLE t ADD b INT", "")
        snap(store, "", {T: shape("a", "b"), U: shape("a")}, at="binlog.000007:357")
        track(store, stream, "ALTER TABLE u ADD b INT")
        refuses(store, 0)
        assert columns(store, 1) == ["a", "b"]
        assert columns(store, 3, U) == ["a", "b"]

    def test_a_table_that_was_touched_since_waits_for_the_next(self, store, stream):
        track(store, stream, "", "ALTER TABLE t ADD b INT")
        snap(store, "", {T: shape("a"), U: shape("a")}, at="binlog.000007:257")
        track(store, stream, "")
        refuses(store, 3)
        assert columns(store, 3, U) == ["a"]

    @pytest.mark.parametrize("at", ["binlog.000006:900", "binlog.000007:156"])
    def test_it_says_nothing_of_a_stream_that_begins_behind_it(self, store, stream, at):
        snap(store, "", {T: shape("a")}, at=at)
        tracker = Tracker(store, "s")
        tracker.begin_file(replace(stream.start(), begin_pos=157))
        tracker.track(stream.transaction())
        tracker.end_file(stream.position)
        assert "begins after" in tracker.finish().examples[-1]
        refuses(store, 1)

    @pytest.mark.parametrize(("uuid", "waits"), [(A, 0), ("", 0), (B, 1)])
    def test_the_files_of_another_server_do_not_reach_it(self, store, stream, uuid, waits):
        snap(store, "", {T: shape("a")}, at="binlog.000007:157")
        tracker = Tracker(store, "s")
        tracker.begin_file(replace(stream.start(), identity=uuid, is_landed=True))
        tracker.track(stream.transaction())
        tracker.finish()
        assert len(store.pending_snapshots("s")) == waits

    def test_one_by_gtid_set_is_of_no_use_in_front_of_a_transaction_without(self, store, stream):
        snap(store, "", {T: shape("a")})
        report = track(store, stream, "ALTER TABLE t ADD a INT")
        assert any("taken by GTID set" in text for text in report.examples)
        assert store.pending_snapshots("s") == []
        refuses(store, 1)

    def test_no_gtid_set_tells_what_was_executed(self, store, stream):
        """Numbered transactions on both sides of the DDL tell; that of the moment itself does not."""
        stream = midway()
        track(store, stream, "CREATE TABLE t (a INT)")
        stream.anonymous = True
        track(store, stream, "ALTER TABLE t ADD b INT")
        stream.anonymous = False
        track(store, stream, "")
        history = History(store, "s")
        assert len(history.at(T, AtGtidSet(GtidSet.parse(f"{A}:1-12"))).definition.columns) == 2
        with pytest.raises(SchemaGapError, match="without a GTID"):
            history.at(T, AtGtidSet(GtidSet.parse(f"{A}:1-11")))
        assert [len(history.at(T, AtSeq(seq)).definition.columns) for seq in (1, 2, 3)] == [1, 2, 2]


def test_a_replaced_server_lost_a_database_and_its_table(store):
    """Both are unknown from one version on, and a snapshot of the new server says what they are."""
    first = midway()
    track(store, first, "create database d", "create table t (a int)")
    snap(store, f"{A}:1-12,{B}:1", {T: shape("b"), U: shape("c")})
    second = Stream(uuid=B, file="binlog.000007", time=first.time, created=9)
    tracker = Tracker(store, "s")
    tracker.begin_file(second.start(previous=GtidSet.parse(f"{A}:1-10")))
    tracker.track(second.transaction())
    tracker.end_file(second.position)
    assert tracker.finish().gaps == 2
    assert columns(store, 2) == ["a"]
    assert columns(store, 3) == ["b"]
    assert columns(store, 3, U) == ["c"]
