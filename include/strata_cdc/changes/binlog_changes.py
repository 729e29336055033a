"""The binlog as a source of row-level changes: planned slices of landed segments, and the rows of transactions of a
stream.
Not here: what a source has to give (`port.py`), cutting slices (`plan.py`), decoding (`decode.py`), where a stream's
transactions come from (`binlog/sources/`)."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.files import open_extents
from strata_cdc.changes.blocks import RowReader
from strata_cdc.changes.commit_times import commit_times
from strata_cdc.changes.decode import decode_blocks, decode_slice
from strata_cdc.changes.decode_plans import DecodePlans, OnMismatch
from strata_cdc.changes.plan import Range, cut_slices
from strata_cdc.changes.port import Watermark
from strata_cdc.changes.windows import FlushPace, read_windows
from strata_cdc.errors import StreamHoleError
from strata_cdc.schema.history.stream_positions import AtSeq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import ChangeBatch, DecodedItem, Hole, Near, QuarantinedRows, WantedRows
    from strata_cdc.changes.prepared_along import PreparedAlong
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.landing.prepared import PreparedPlacement
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.model.definition import TableName

_NONE: Final = np.zeros(0, np.int64)


def read_slice(
    slice_: Slice, columns: frozenset[str] | None = None, near: Near | None = None
) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
    """The rows of a slice of a landed segment, as `ReadSlice`.

    Args:
        slice_: The slice.
        columns: As of `decode_slice`.
        near: Likewise.

    Raises:
        CorruptEventError: As `decode_slice`.
        LakeUnavailableError: The storage does not answer.
    """
    with open_extents(slice_.segment, ((part.begin, part.end) for part in slice_.ranges())) as binlog:
        yield from decode_slice(slice_, binlog, columns=columns, near=near)


def changes_of_table(
    stream: LandedStream, history: History, table: TableName, placement: PreparedPlacement, span: tuple[int, int]
) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
    """The landed changes of one table, decoded without a plan.

    Args:
        stream: What has landed.
        history: Of the source.
        table: The table.
        placement: The prepared transactions of the span.
        span: Transactions first < seq <= last.

    Raises:
        StrataError: A version is not known, or rows cannot be decoded.
    """
    first, last = span
    for segment, records in groupby(stream.records(first + 1, last), key=itemgetter(0)):
        cut = cut_slices(
            placement.place(segment, (record for _, record in records)),
            lambda name, seq: history.at(name, AtSeq(seq)),
            source=stream.source,
            segment=segment.url,
            clock=stream.clock_at(max(first, segment.summary.first_seq - 1)),
            wanted=table.__eq__,
        )
        for refusal in cut.refused:
            raise refusal.error
        for part in cut.slices:
            yield from read_slice(part, near=history.neighbours)


class BinlogRows:
    """Reads the rows of one stream's transactions, in the stream's order."""

    def __init__(self, wanted: WantedRows, prepared: PreparedAlong) -> None:
        """Begins without transactions.

        Args:
            wanted: Which rows.
            prepared: The transactions that are prepared where the stream begins.
        """
        self._prepared = prepared
        self._plans = DecodePlans(
            wanted.lookup,
            wanted=wanted.tables,
            on_mismatch=OnMismatch.FAIL,
            columns=wanted.columns,
        )
        self._pace = FlushPace(wanted.limits)

    def pass_over(self, item: Transactions, records: Iterable[TransactionRecord]) -> None:
        """Takes the transactions with an XA mark that are not wanted themselves."""
        for record in records:
            with suppress(StreamHoleError):
                self._prepared.apply(item, record)

    def decode(self, item: Transactions, rows: Ints) -> Iterator[DecodedItem]:
        """Yields the rows of some transactions, as `TransactionChanges.rows`.

        Args:
            item: The next item of the stream.
            rows: The transactions' rows in its batch, in order.
        """
        chain = None if item.is_landed else item.chain()
        for part in _decoded_parts(item.batch, rows):
            if part.xa is None:
                yield from self._decode(item.bytes(), part.ranges, chain)
                continue
            yield Watermark(part.xa.seq)
            prepared = self._prepared.apply(item, part.xa)
            if prepared is not None:
                with prepared.open() as binlog:
                    yield from self._decode(binlog, [prepared.range], None)

    def _decode(self, binlog: BinlogFile, ranges: Sequence[Range], chain: EventChain | None) -> Iterator[DecodedItem]:
        binlog.expect((part.begin, part.end) for part in ranges)
        windows = read_windows(binlog, ranges, chain, self._pace)
        blocks = RowReader(binlog, self._plans).read_blocks(windows)
        return decode_blocks(blocks, binlog.name)


class _DecodedPart(Struct, frozen=True):
    """Consecutive transactions of an item that are decoded from one file: the item's file, or the file of a prepared
    transaction."""

    ranges: list[Range]
    """In the item's file."""
    xa: TransactionRecord | None = None
    """A transaction with an XA mark: if it has rows, they are elsewhere."""


def _decoded_parts(batch: TransactionBatch, rows: Ints) -> list[_DecodedPart]:
    """Cuts the transactions at those with an XA mark."""
    begin, parts = 0, list[_DecodedPart]()
    marked = np.flatnonzero(np.isin(rows, [row for row, _ in batch.marks])) if batch.marks else _NONE
    for at in marked.tolist():
        if begin < at:
            parts.append(_DecodedPart(_ranges(batch, rows[begin:at])))
        begin = at + 1
        parts.append(_DecodedPart([], batch.record(int(rows[at]))))
    if begin < len(rows):
        parts.append(_DecodedPart(_ranges(batch, rows[begin:])))
    return parts


def _ranges(batch: TransactionBatch, rows: Ints) -> list[Range]:
    """Ranges of bytes without gaps, of some transactions of a batch."""
    breaks = np.flatnonzero(batch.begins[rows[1:]] != batch.ends[rows[:-1]]) + 1
    firsts, lasts = rows[np.append(0, breaks)], rows[np.append(breaks - 1, len(rows) - 1)]
    # The clock before a range is not later than the range's own time, and nothing else about it matters.
    seqs, clocks = firsts + batch.first_seq, batch.committed_at[firsts]
    columns = (batch.begins[firsts], batch.ends[lasts], batch.positions[firsts], seqs, clocks)
    times = (commit_times(batch, first, last + 1) for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True))
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [
        Range(begin, end, position, seq, clock, times=own)
        for (begin, end, position, seq, clock), own in zip(numbers, times, strict=True)
    ]
