"""The last spans of a stream: many readers that have caught up read what was decoded once.
Not here: decoding them (`stream.py`), what a reader wants of them (`selection.py`), readers (`serve/streaming/`)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from strata_cdc.position.file_position import FilePosition
from strata_cdc.streams.decoding import row_seqs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import StreamTransaction

_PLACE_BYTES: Final = 2000
"""About how much memory a transaction takes in addition to its rows."""


class SpanCursor(NamedTuple):
    """Where a reader is among the spans."""

    number: int
    """Number of the next span that the reader gets."""
    first_seq: int = 0
    """In this span, the first transaction that the reader does not have."""


class RecentPart(Struct, frozen=True, eq=False):
    """A span of a stream that excludes nothing."""

    span: StreamBatch
    begun: Ints
    """Ordinals of the transactions that begin in it, in order."""
    touched: Mapping[TableName, Ints]
    """By table, ordinals of the transactions that changed it, in this span or before."""
    open_seq: int | None
    """The transaction that does not end in the span, if there is such a transaction."""
    token: str | None
    """The token after the last transaction that ends in the span."""
    size: int
    """Approximate number of bytes."""


class RecentSpans:
    """The newest of the consecutive spans of a stream."""

    def __init__(self, start: SourcePosition, most_bytes: int) -> None:
        """Begins without spans.

        Args:
            start: The position before the first span; it is between two transactions.
            most_bytes: If all spans together are larger, the oldest are dropped; the newest always stays.
        """
        self.first = 0
        """Number of the oldest span that is kept."""
        self._spans: deque[RecentPart] = deque()
        self._tail = self._head = start
        """The position before the oldest span, and the position after the last transaction that has ended."""
        self._most, self._size = most_bytes, 0
        self._begun = -1
        self._open: tuple[int, list[TableName]] | None = None
        """The transaction that has not ended, and the tables that it has changed so far."""

    @property
    def next(self) -> int:
        """Number of the next span."""
        return self.first + len(self._spans)

    @property
    def head(self) -> SourcePosition:
        """The position after the last transaction that has ended."""
        return self._head

    def __getitem__(self, number: int) -> RecentPart:
        """Returns a span that is kept."""
        return self._spans[number - self.first]

    def append(self, span: StreamBatch) -> None:
        """Takes the next span."""
        touched = self._touched(span)
        newest = max((int(seqs[-1]) for seqs in touched.values()), default=-1)
        is_inside = bool(touched) and newest > (int(span.ended[-1]) if len(span.ended) else -1)
        self._open = (newest, [name for name, seqs in touched.items() if seqs[-1] == newest]) if is_inside else None
        seqs = np.append(span.ended, newest) if is_inside else span.ended
        begun = seqs[seqs > self._begun]
        self._begun = int(seqs[-1]) if len(seqs) else self._begun
        size = sum(rows.nbytes for _, rows in span.rows) + _PLACE_BYTES * (1 + len(begun))
        last = span.last
        inside = newest if is_inside else None
        self._spans.append(RecentPart(span, begun, touched, inside, last.after_text if last else None, size))
        if last is not None:
            self._head = last.after
        self._size += size
        while self._size > self._most and len(self._spans) > 1:
            self._drop()

    def _touched(self, span: StreamBatch) -> dict[TableName, Ints]:
        """The touched transactions by table, including the transaction that was open before."""
        seqs_of_table: dict[TableName, list[Ints]] = {}
        if self._open is not None:
            seq, tables = self._open
            seqs_of_table = {table: [np.array([seq])] for table in tables}
        for table, rows in span.rows:
            seqs_of_table.setdefault(table, []).append(row_seqs(rows))
        for ddl in span.ddl:
            for table in ddl.named:
                seqs_of_table.setdefault(table, []).append(np.array([ddl.transaction.record.seq]))
        return {table: np.unique(np.concatenate(seqs)) for table, seqs in seqs_of_table.items()}

    def _drop(self) -> None:
        dropped = self._spans.popleft()
        self._size -= dropped.size
        self.first += 1
        if dropped.span.last is not None:
            self._tail = dropped.span.last.after

    def find(self, position: SourcePosition) -> SpanCursor | None:
        """Finds where a reader continues that has everything before a position, and nothing after it; None if that is
        not kept here."""
        if position.parts or (position.source, position.lineage) != (self._head.source, self._head.lineage):
            return None
        at = bisect_left(self._spans, 1, key=lambda span: len(span.begun) > 0 and not _has(position, _last_begun(span)))
        for number, recent in enumerate(islice(self._spans, at, None), start=self.first + at):
            for begun in map(recent.span.transactions.__getitem__, recent.begun.tolist()):
                if not _has(position, begun):
                    is_here = self._is_before(position, begun)
                    return SpanCursor(number, begun.record.seq) if is_here else None
        return SpanCursor(self.next) if _is_same(position, self._head) and self._open is None else None

    def _is_before(self, position: SourcePosition, begun: StreamTransaction) -> bool:
        """Whether nothing is between a position and a transaction that does not come before it."""
        mine, tail = position.position, self._tail.position
        if isinstance(mine, FilePosition) and isinstance(tail, FilePosition):
            # Between two transactions of a file there may be other events; positions in files have a total order.
            return mine.counted == tail.counted and tail <= mine
        return begun.before.position == mine


def _has(position: SourcePosition, begun: StreamTransaction) -> bool:
    """Whether a position has a transaction."""
    mine = position.position
    return mine.counted == begun.before.position.counted and mine.contains(begun.transaction)


def _is_same(position: SourcePosition, other: SourcePosition) -> bool:
    return position.position == other.position and not other.parts


def _last_begun(recent: RecentPart) -> StreamTransaction:
    return recent.span.transactions[int(recent.begun[-1])]
