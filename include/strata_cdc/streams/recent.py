"""The last spans of a stream, so that many readers who have caught up read what was decoded once.
Not here: decoding them (`stream.py`), what of them a reader wants (`selection.py`), readers (`serve/streaming/`)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from msgspec import Struct

from strata_cdc.position.file_position import FilePosition
from strata_cdc.streams.decoding import row_seqs
from strata_cdc.streams.positions import Begin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import TransactionPlace

_PLACE_BYTES: Final = 2000
"""About what one transaction takes beside its rows."""


class SpanCursor(NamedTuple):
    """Where a reader is among the spans."""

    number: int
    """Of the next span that he gets."""
    first_seq: int = 0
    """In it, the first transaction that he does not have."""


class RecentPart(Struct, frozen=True, eq=False):
    """A span of a stream that leaves nothing out."""

    span: StreamBatch
    begun: Ints
    """Ordinals of the transactions that begin in it, in order."""
    touched: Mapping[TableName, Ints]
    """By table, ordinals of the transactions that had something of it, in this span or before."""
    open_seq: int | None
    """The transaction that does not end in it, if one does not."""
    behind: str | None
    """The token behind the last transaction that ends in it."""
    size: int
    """Bytes, about."""


class Recent:
    """Spans that come one behind the other, the last ones of them."""

    def __init__(self, start: SourcePosition, most_bytes: int) -> None:
        """Begins with none.

        Args:
            start: The place in front of the first; between two transactions.
            most_bytes: The oldest are dropped when all are larger; the newest stays in any case.
        """
        self.first = 0
        """Number of the oldest span that is there."""
        self._spans: deque[RecentPart] = deque()
        self._tail = self._head = start
        """In front of the oldest, and behind the last transaction that has ended."""
        self._most, self._size = most_bytes, 0
        self._begun = -1
        self._open: tuple[int, list[TableName]] | None = None
        """The transaction that has not ended, and what it has touched so far."""

    @property
    def next(self) -> int:
        """Number of the span that comes next."""
        return self.first + len(self._spans)

    @property
    def head(self) -> SourcePosition:
        """Behind the last transaction that has ended."""
        return self._head

    def __getitem__(self, number: int) -> RecentPart:
        """A span that is there."""
        return self._spans[number - self.first]

    def take(self, span: StreamBatch) -> None:
        """Takes the next span."""
        touched = self._touched(span)
        newest = max((int(seqs[-1]) for seqs in touched.values()), default=-1)
        is_inside = bool(touched) and newest > (int(span.ended[-1]) if len(span.ended) else -1)
        self._open = (newest, [one for one, seqs in touched.items() if seqs[-1] == newest]) if is_inside else None
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
        """By table; the transaction that was open before among the others."""
        found: dict[TableName, list[Ints]] = {}
        if self._open is not None:
            seq, tables = self._open
            found = {table: [np.array([seq])] for table in tables}
        for table, rows in span.rows:
            found.setdefault(table, []).append(row_seqs(rows))
        for ddl in span.ddl:
            for table in ddl.named:
                found.setdefault(table, []).append(np.array([ddl.place.record.seq]))
        return {table: np.unique(np.concatenate(seqs)) for table, seqs in found.items()}

    def _drop(self) -> None:
        dropped = self._spans.popleft()
        self._size -= dropped.size
        self.first += 1
        if dropped.span.last is not None:
            self._tail = dropped.span.last.after

    def find(self, place: SourcePosition) -> SpanCursor | None:
        """Where a reader goes on who has all in front of a place, and nothing behind it; None if that is not here."""
        if place.parts or (place.source, place.lineage) != (self._head.source, self._head.lineage):
            return None
        begin = Begin.of(place)
        at = bisect_left(
            self._spans, 1, key=lambda one: len(one.begun) > 0 and begin.is_in_front_of(_last_begun(one).record)
        )
        for number, recent in enumerate(islice(self._spans, at, None), start=self.first + at):
            for begun in map(recent.span.places.__getitem__, recent.begun.tolist()):
                if begin.is_in_front_of(begun.record):
                    is_here = self._is_in_front_of(place, begun)
                    return SpanCursor(number, begun.record.seq) if is_here else None
        return SpanCursor(self.next) if _is_same(place, self._head) and self._open is None else None

    def _is_in_front_of(self, place: SourcePosition, begun: TransactionPlace) -> bool:
        """Whether nothing is between a place and a transaction that is not in front of it."""
        mine, tail = place.position, self._tail.position
        if isinstance(mine, FilePosition) and isinstance(tail, FilePosition):
            # Between two transactions of a file there may be other events; files have a total order.
            return mine.counted == tail.counted and tail <= mine
        return begun.before.position == mine


def _is_same(one: SourcePosition, other: SourcePosition) -> bool:
    return one.position == other.position and not other.parts


def _last_begun(recent: RecentPart) -> TransactionPlace:
    return recent.span.places[int(recent.begun[-1])]
