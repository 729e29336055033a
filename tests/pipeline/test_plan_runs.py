"""Small transactions that are planned as one: what a plan asks of them is what each of them says."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from strata_cdc.changes.plan import cut_slices
from strata_cdc.landing.land_files import land_files
from strata_cdc.landing.landed import LandedStream
from strata_cdc.pipeline.plan.runs import RUN, records_in_runs
from strata_cdc.schema.history.versions import SchemaVersion, VersionOrigin
from strata_cdc.schema.model.definition import TableDefinition
from tests.binlog.binlogs import SERVER, Binlog

TRANSACTIONS = 1000
LARGE = (0, 3, 4, 300, 999)
"""Of the third file."""
ALONE = {TRANSACTIONS + TRANSACTIONS // 2 + 1, *(2 * TRANSACTIONS + at + 1 for at in LARGE)}
"""Ordinals of the DDL and of the large transactions."""


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> LandedStream:
    """Files of small transactions; in the second there is a DDL, in the third now and then a large transaction."""
    archive, lake = tmp_path_factory.mktemp("archive"), tmp_path_factory.mktemp("lake")
    gno = 0
    for number in (1, 2, 3):
        binlog = Binlog()
        binlog.previous(f"{SERVER}:1-{gno}" if gno else "")
        for at in range(TRANSACTIONS):
            gno += 1
            if number == 2 and at == TRANSACTIONS // 2:
                binlog.gtid(gno)
                binlog.query("CREATE TABLE d.other (a INT)")
            elif number == 3 and at in LARGE:
                binlog.insert(gno, list(range(120_000)), micros=1_700_000_000_000_000 + gno * 7919)
            else:
                binlog.insert(gno, list(range(1 + at % 3)), micros=1_700_000_000_000_000 + gno * 7919)
        (archive / f"binlog.{number:06d}").write_bytes(binlog.data)
    land_files(str(archive), lake=str(lake), source="s")
    return LandedStream.open(str(lake), "s")


@pytest.mark.parametrize(
    "span",
    [
        (1, 3 * TRANSACTIONS),
        (2, 999),
        (5, 5),
        (990, 1010),
        (1400, 1600),
        (7, 6),
        (1500, 1501),
        (2002, 2006),
        (2005, 3000),
    ],
)
def test_a_run_says_what_its_transactions_say(stream: LandedStream, span: tuple[int, int]) -> None:
    ones = list(stream.records(*span))
    runs = list(records_in_runs(stream, *span, lambda *_: True))
    counts = [Counter[tuple[str, str]](), Counter[tuple[str, str]]()]
    for found, count in zip((ones, runs), counts, strict=True):
        for _, record in found:
            for one in record.tables:
                count[one.database, one.table] += one.rows + 1000 * one.row_events
    assert counts[0] == counts[1]
    firsts = {record.seq: (segment, record) for segment, record in ones}
    ends = {(segment.url, record.end): record for segment, record in ones}
    before = None
    for segment, run in runs:
        first_segment, first = firsts[run.seq]
        last = ends[segment.url, run.end]
        assert first_segment.url == segment.url
        assert (run.gtid, run.begin, run.binlog_file, run.binlog_pos) == (
            first.gtid, first.begin, first.binlog_file, first.binlog_pos,
        )  # fmt: skip
        assert (run.committed_at, run.commit_timestamp) == (last.committed_at, last.commit_timestamp)
        assert run.seq == (span[0] if before is None else before.seq + 1)
        before = last
    assert (before.seq if before else span[1]) == span[1]
    assert {run.seq for _, run in runs} >= ALONE & {record.seq for _, record in ones}
    plain = sum(1 for _, record in ones if record.seq <= TRANSACTIONS)
    assert sum(run.seq <= TRANSACTIONS for _, run in runs) == -(-plain // RUN)


def test_what_is_alone_ends_a_run_and_no_more(stream: LandedStream) -> None:
    runs = [run for _, run in records_in_runs(stream, 1, 3 * TRANSACTIONS, lambda *_: True)]
    borders = sorted({*range(1, 3 * TRANSACTIONS + 2, TRANSACTIONS), *ALONE, *(seq + 1 for seq in ALONE)})
    assert len(runs) == sum(-(-(after - first) // RUN) for first, after in pairwise(borders))


def test_tables_that_change_are_taken_one_by_one(stream: LandedStream) -> None:
    asked = []

    def is_alike(*question: object) -> bool:
        asked.append(question)
        return False

    assert list(records_in_runs(stream, 3, 900, is_alike)) == list(stream.records(3, 900))
    assert [question[1:] for question in asked] == [(3, 900)]


def test_slices_of_runs_hold_the_same_bytes(stream: LandedStream) -> None:
    version = SchemaVersion(1, TableDefinition(()), "", 0, None, VersionOrigin.DDL)
    bytes_of = []
    for records in (stream.records(1, TRANSACTIONS), records_in_runs(stream, 1, TRANSACTIONS, lambda *_: True)):
        cut = cut_slices(
            (record for _, record in records), lambda *_: version, source="s", segment="x", target_bytes=100_000
        )
        assert len(cut.slices) > 1
        ranges = [(one.begin, one.end) for entry in cut.slices for one in entry.ranges()]
        assert all(end == begin for (_, end), (begin, _) in pairwise(ranges))
        bytes_of.append((ranges[0][0], ranges[-1][1]))
        assert {table.version_id for entry in cut.slices for table in entry.tables} == {1}
    assert bytes_of[0] == bytes_of[1]
