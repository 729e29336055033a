"""Rows are given soon at first, then more at a time; and what has been given says up to where that is all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.bytes.files import open_binlog
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.decode import decode_blocks
from strata_cdc.changes.decode_plans import DecodePlans
from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.changes.plan import Slice
from strata_cdc.changes.port import ChangeBatch, Watermark
from strata_cdc.changes.windows import FlushPace, read_windows
from tests.binlog.binlogs import Binlog

if TYPE_CHECKING:
    from pathlib import Path


@given(st.lists(st.integers(1, 300), min_size=1), st.integers(1, 50), st.integers(50, 400))
def test_each_time_twice_as_many_bytes_up_to_the_most(sizes, first, most):
    pace, waiting, wanted = FlushPace(DecodeLimits(first_bytes=first, flush_bytes=most)), 0, first
    for size in sizes:
        waiting += size
        is_due = pace.is_due(waiting)
        assert is_due == (waiting >= wanted)
        if is_due:
            waiting, wanted = 0, min(2 * wanted, most)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    binlog = Binlog()
    binlog.previous()
    for number in range(1, 41):
        binlog.gtid(number)
        binlog.query("BEGIN")
        for table in ("a", "b") if number % 3 else ("b",):
            binlog.table_map(ord(table), table=table)
            binlog.write([number] * (number % 5 + 1), ord(table))
        binlog.xid()
    found = tmp_path / "binlog.000001"
    found.write_bytes(binlog.data)
    return found


@pytest.mark.parametrize("window", [64, 300, 1000])
def test_what_has_been_given_is_all_there_is_in_front(path: Path, window: int):
    given, marks, between = list[tuple[int, int]](), list[Watermark](), list[bool]()
    with open_binlog(path) as binlog:
        begin = binlog.first_event
        whole = Slice("s", str(path), binlog.name, begin, len(binlog.buffer), begin, 1, 0, 0)
        reader = RowReader(binlog, DecodePlans(None, wanted=lambda _: True))
        found = reader.read_blocks(
            read_windows(binlog, whole.ranges(), None, FlushPace(DecodeLimits(window_bytes=window, first_bytes=500)))
        )
        for step in decode_blocks(found, binlog.name):
            if isinstance(step, ChangeBatch):
                seqs = step.batch.column("_seq").to_pylist()
                # Nothing comes of a transaction that was over.
                assert not marks or min(seqs) >= marks[-1].unended_seq
                given += [(seq, row) for seq, row in zip(seqs, step.batch.column("_row").to_pylist(), strict=True)]
            elif isinstance(step, Watermark):
                assert step.unended_seq - 1 in {seq for seq, _ in given}
                marks.append(step)
                between.append(max(given)[0] < step.unended_seq)
    assert len(marks) > 3
    assert [mark.is_last for mark in marks] == [False] * (len(marks) - 1) + [True]
    assert marks[-1].unended_seq == 41
    expected = [(seq, row) for seq in range(1, 41) for row in range((seq % 5 + 1) * (2 if seq % 3 else 1))]
    assert sorted(given) == expected
    # A transaction that has ended is over with its rows.
    assert any(between[:-1])
