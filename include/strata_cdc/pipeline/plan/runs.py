"""Small transactions in a row as one record, if a plan needs no difference between them.
Not here: what a plan makes of records (`changes/plan.py`), transactions one by one (`landing/landed.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.events.model import TableRows, TransactionRecord
from strata_cdc.changes.commit_times import times_to_keep
from strata_cdc.position.sets import Gtid
from strata_cdc.schema.model.definition import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.landing.landed import LandedSegment, LandedStream

RUN: Final = 256
"""Transactions of a record at most."""
_RUN_BYTES: Final = 1 << 20
"""Of a record at most: slices end at its borders."""


def records_in_runs(
    stream: LandedStream, first_seq: int, last_seq: int, is_alike: Callable[[TableName, int, int], bool]
) -> Iterator[tuple[LandedSegment, TransactionRecord]]:
    """Transactions with first_seq <= seq <= last_seq and the segment of each, as `LandedStream.records` gives them; but
    where they only change rows, have GTIDs and lie one after the other, one record represents several.

    It has the ordinal, the GTID and the position of the first, the end and the clock of the last, the rows of all.

    Args:
        stream: What has landed.
        first_seq: Ordinal of the first.
        last_seq: Of the last.
        is_alike: Whether a table is the same from one transaction to another.

    Raises:
        StreamHoleError: The first of them have landed, and are not here any more.
    """
    for segment in stream.segments_of(first_seq, last_seq):
        for batch in segment.index.batches(first_seq):
            low, high = max(first_seq - batch.first_seq, 0), min(last_seq - batch.first_seq + 1, len(batch))
            if high <= low:
                break
            for record in _records(batch, low, high, is_alike):
                yield segment, record


def _records(
    batch: TransactionBatch, low: int, high: int, is_alike: Callable[[TableName, int, int], bool]
) -> Iterator[TransactionRecord]:
    """The transactions of some rows of a batch."""
    starts = _starts(batch, low, high)
    if len(starts) * 2 > high - low:
        yield from (record for record in batch.records() if low <= record.seq - batch.first_seq < high)
        return
    for first, after in zip(starts, [*starts[1:], high], strict=True):
        if after - first > 1 and _stay(batch, first, after, is_alike):
            yield from _runs(batch, first, after)
        else:
            yield from map(batch.record, range(first, after))


def _starts(batch: TransactionBatch, low: int, high: int) -> list[int]:
    """The rows of a batch that do not go on with the row before: they or it are more than a small change of rows that
    has a GTID, they do not lie directly after it, or not all of them have the commit time that a plan keeps."""
    rows = slice(low, high)
    is_small = (batch.ends[rows] - batch.begins[rows] <= _RUN_BYTES // 2) & (batch.sid_numbers[rows] >= 0)
    for end in (batch.statements_end, batch.splits_end):
        is_small &= np.diff(end[rows], prepend=end[low - 1] if low else 0) == 0
    for row, _ in (*batch.incidents, *batch.marks):
        if low <= row < high:
            is_small[row - low] = False
    goes_on = is_small[1:] & is_small[:-1] & (batch.begins[low + 1 : high] == batch.ends[low : high - 1])
    # The decoder gets these from the plan.
    goes_on &= np.diff(times_to_keep(batch, low, high)) == 0
    return [low, *(low + 1 + np.flatnonzero(~goes_on)).tolist()]


def _stay(batch: TransactionBatch, low: int, high: int, is_alike: Callable[[TableName, int, int], bool]) -> bool:
    """Whether the tables of some rows of a batch stay as they are."""
    begin, end = _entries(batch, low, high)
    names = (TableName(*batch.tables[at]) for at in np.flatnonzero(np.bincount(batch.entry_tables[begin:end])))
    return all(is_alike(name, batch.first_seq + low, batch.first_seq + high - 1) for name in names)


def _runs(batch: TransactionBatch, low: int, high: int) -> Iterator[TransactionRecord]:
    together = min(RUN, _RUN_BYTES // int(np.max(batch.ends[low:high] - batch.begins[low:high])))
    for first in range(low, high, together):
        last = min(first + together, high) - 1
        yield TransactionRecord(
            batch.first_seq + first,
            Gtid(batch.sids[batch.sid_numbers[first]], int(batch.numbers[first])),
            int(batch.begins[first]),
            int(batch.ends[last]),
            batch.binlog_file,
            int(batch.positions[first]),
            int(batch.committed_at[last]),
            int(batch.commit_timestamps[last]),
            _tables(batch, *_entries(batch, first, last + 1)),
            (),
            (),
        )


def _entries(batch: TransactionBatch, low: int, high: int) -> tuple[int, int]:
    return (int(batch.entries_end[low - 1]) if low else 0), int(batch.entries_end[high - 1])


def _tables(batch: TransactionBatch, begin: int, end: int) -> tuple[TableRows, ...]:
    """What some entries did to each table, together."""
    of, count = batch.entry_tables[begin:end], len(batch.tables)
    events, rows = (np.bincount(of, column[begin:end], count) for column in (batch.entry_events, batch.entry_rows))
    return tuple(TableRows(*batch.tables[at], int(events[at]), int(rows[at])) for at in np.flatnonzero(np.bincount(of)))
