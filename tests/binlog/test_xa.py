"""What transactions have to do with XA: read from events, stored in the index, handed on from segment to segment."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.binlog.bytes.segment import SegmentName
from strata_cdc.binlog.events.index import SUFFIX, SegmentIndex
from strata_cdc.binlog.events.model import Query, QueryContext, XaMark, XaPrepare, XaStep
from strata_cdc.binlog.events.transactions import read_transactions
from strata_cdc.binlog.events.xa import PreparedTransaction, UndecidedTransactions, mark_of
from strata_cdc.binlog.sources.port import Transactions
from strata_cdc.changes.prepared_along import PreparedAlong
from strata_cdc.errors import StreamHoleError
from strata_cdc.landing.landed import LandedStream, landing_folder
from strata_cdc.landing.prepared import PreparedPlacement, decisions
from strata_cdc.landing.repair import repair_landing
from strata_cdc.pipeline.decode.file_ranges import PreparedInFiles
from tests.binlog.binlogs import SERVER, Binlog
from tests.binlog.test_transactions import MIXED


def query(text: str) -> Query:
    return Query("", text.encode(), 0, QueryContext())


@given(st.binary(max_size=64), st.binary(max_size=64), st.integers(0, 2**63), st.sampled_from(("COMMIT", "ROLLBACK")))
def test_both_events_of_one_xid_agree(gtrid, bqual, format_id, word):
    """XA_PREPARE has a format id of 32 bits, the statement has all of it (seen with 9.7.4: 8589934600 and 8)."""
    signed = int.from_bytes((format_id & 0xFFFFFFFF).to_bytes(4, "little"), "little", signed=True)
    prepared = mark_of(XaPrepare(signed, gtrid, bqual, one_phase=False))
    decided = mark_of(query(f"XA {word} X'{gtrid.hex()}',X'{bqual.hex()}',{format_id}"))
    assert prepared.xid == decided.xid
    assert (prepared.step, decided.step) == (XaStep.PREPARE, XaStep(f"XA {word}"))
    assert mark_of(XaPrepare(signed, gtrid, bqual, one_phase=True)) is None
    for mark in (prepared, decided):
        assert XaMark.parse(str(mark)) == mark


@pytest.mark.parametrize("text", ["COMMIT", "ROLLBACK", "XA END X'61',X'',1", "XA START X'61',X'',1", "XA RECOVER"])
def test_other_statements_are_no_step(text):
    assert mark_of(query(text)) is None


def test_a_statement_in_another_form_is_a_step_of_an_unknown_transaction():
    assert mark_of(query("xa commit 'a', 'b'")) == XaMark(XaStep.COMMIT, "'a', 'b'")


def test_marks_of_a_recorded_file():
    """Compressed or not; one phase is none."""
    with open_binlog(MIXED) as binlog:
        found = [str(record.mark) for record in read_transactions(binlog) if record.mark]
    assert found == ["XA PREPARE X'616263',X'',1", "XA COMMIT X'616263',X'',1"]


def test_an_xid_once_more_ends_the_one_before():
    undecided = UndecidedTransactions([PreparedTransaction(3, "x")])
    assert undecided.apply(5, XaMark(XaStep.PREPARE, "x")) == 3
    assert undecided.apply(6, XaMark(XaStep.ROLLBACK, "y")) is None
    assert undecided.prepared() == (PreparedTransaction(5, "x"),)
    assert undecided.apply(7, XaMark(XaStep.COMMIT, "x")) == 5


def landed(lake, *files: str) -> LandedStream:
    """Segments with a transaction for each letter: `a` prepares XID a, `A` commits it, `.` is another one; `(` prepares
    one without a row, `)` commits it."""
    folder = lake / "landing" / "s"
    folder.mkdir(parents=True)
    gno = 0
    for ordinal, steps in enumerate(files, 1):
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{gno}" if gno else "")
        for step in steps:
            gno += 1
            is_empty, name = step == "(", "(" if step == ")" else step.lower()
            xid = f"X'{name.encode().hex()}',X'',1"
            if step == ".":
                binlog.insert(gno, [gno])
                continue
            binlog.gtid(gno)
            binlog.query(f"XA START {xid}" if step.islower() or is_empty else f"XA COMMIT {xid}")
            if step.islower():
                binlog.table_map()
                binlog.write([gno])
            if step.islower() or is_empty:
                binlog.xa_prepare(step.encode())
        (folder / str(SegmentName(ordinal, f"binlog.{ordinal:06d}", 127))).write_bytes(binlog.data)
    repair_landing(landing_folder(str(lake), "s"))
    return LandedStream.open(str(lake), "s")


def test_what_is_undecided_is_handed_on(tmp_path):
    stream = landed(tmp_path, ".a.b", "..", "A.c.", ".bB")
    held = [[one.seq for one in stream.undecided_at(seq).prepared()] for seq in range(stream.last_seq + 1)]
    assert held == [[], [], [2], [2], [2, 4], [2, 4], [2, 4], [4], [4], [4, 9], [4, 9], [4, 9], [9, 12], [9]]
    found = [decisions(stream, segment) for segment in stream.segments]
    assert [each.committed for each in found] == [{2: 7}, {}, {}, {12: 13}]
    assert [[one.seq for one in each.undecided] for each in found] == [[], [], [9], []]


@pytest.mark.parametrize(
    ("steps", "without_first", "lost"),
    [
        ("(", ").", []),
        ("a", "A.", [2]),
        # A crash lost it, and its XID comes again.
        ("(", "().", []),
        ("a", "aA.", [2]),
    ],
)
def test_what_changed_nothing_has_no_rows_to_lose(tmp_path, steps, without_first, lost):
    """Also where its segment is deleted: the summary of the next one knows it."""
    stream = landed(tmp_path, steps, "", without_first)
    first = stream.segments[0]
    assert [prepared.is_empty for prepared in first.summary.prepared] == [steps == "("]
    for path in (first.url, f"{first.url}{SUFFIX}"):
        Path(path).unlink()
    stream = LandedStream.open(str(tmp_path), "s")
    placement = PreparedPlacement(stream, 1, stream.last_seq)
    assert [rows.error.gtid for rows in placement.lost()] == [f"{SERVER}:{seq}" for seq in lost]


@pytest.mark.parametrize(("steps", "outcome"), [("()", nullcontext()), ("aA", pytest.raises(StreamHoleError))])
def test_a_stream_that_begins_after_what_changed_nothing(tmp_path, steps, outcome):
    stream = landed(tmp_path, steps[0], "", steps[1])
    for path in (stream.segments[0].url, f"{stream.segments[0].url}{SUFFIX}"):
        Path(path).unlink()
    stream = LandedStream.open(str(tmp_path), "s")
    [(_, commit)] = stream.records()
    with outcome:
        # What comes with it is not read: nothing is prepared here.
        assert PreparedAlong(stream, 1).apply(Transactions(None, None, None), commit) is None


def test_an_xid_that_comes_again_after_one_that_changed_nothing(tmp_path):
    stream = landed(tmp_path, "(.(aa")
    [rows] = PreparedPlacement(stream, 0, stream.last_seq).lost()
    assert rows.error.gtid == f"{SERVER}:5"


def test_files_tell_only_of_what_has_rows(tmp_path):
    stream = landed(tmp_path, "(.(a")
    prepared = PreparedInFiles()
    for _, record in stream.records():
        prepared.apply("binlog", record)
    assert ([one.xid for one in prepared.undecided()], prepared.take_lost()) == (["X'61',X'',1"], [])


def as_form_2(path) -> None:
    """What an older Strata wrote: it knew nothing of XA."""
    summary = pq.read_metadata(path).metadata
    text = summary[b"strata.segment"].decode().replace('"format": 4', '"format": 2')
    head, _, _ = text.partition(', "prepared"')
    table = pq.read_table(path).drop_columns(["xa"])
    schema = pa.schema(table.schema, metadata={b"strata.segment": f"{head}}}".encode()})
    pq.write_table(table.cast(schema), path)


def test_older_indexes_are_made_anew_from_their_segments(tmp_path):
    stream = landed(tmp_path, ".a.b", "..", "A.c.", ".bB")
    folder = landing_folder(str(tmp_path), "s")
    before = [(list(s.index.records()), s.summary) for s in stream.segments]
    paths = [tmp_path / "landing" / "s" / f"{segment.name}{SUFFIX}" for segment in stream.segments]
    for path in paths:
        as_form_2(path)
    assert SegmentIndex.open(folder, paths[0].name).summary.prepared is None
    again = LandedStream.open(str(tmp_path), "s")
    assert [(list(s.index.records()), s.summary) for s in again.segments] == before
    # Killed in between: the oldest had been done.
    for path in paths[2:]:
        as_form_2(path)
    again = LandedStream.open(str(tmp_path), "s")
    assert [(list(s.index.records()), s.summary) for s in again.segments] == before
