"""The transactions of a batch that a reader gets, each as a `StreamTransaction` that is made when it is requested.
Not here: which transactions (`positions.py`), what is in them (`decoding.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from strata_cdc.streams.events import StreamTransaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import TransactionColumns
    from strata_cdc.streams.events import Along

MANY: Final = 48
"""From this number of transactions on, columns are faster than one transaction at a time."""


class TransactionItem(Protocol):
    """Transactions that came together."""

    @property
    def batch(self) -> TransactionColumns:
        """Their columns."""

    def statements(self, record: Any, /) -> Iterator[Any]:
        """The statements of one of them."""


class StreamTransactions(Mapping[int, StreamTransaction]):
    """By ordinal, in the order of the stream."""

    def __init__(self, along: Along, item: TransactionItem, rows: Ints) -> None:
        """Takes what the transactions have in common, the item that they are in, and their rows in its batch, in
        order."""
        self.batch: TransactionColumns = item.batch
        self.rows = rows
        self.seqs: Ints = rows + self.batch.first_seq
        """The ordinals of the transactions."""
        self._along, self._item = along, item
        self._statements = {seq: self._count_statements(seq) for seq in self.with_statements()}
        self._made: dict[int, StreamTransaction] = {}

    def with_statements(self) -> list[int]:
        """Returns the ordinals of the transactions that have statements, in order."""
        batch = self.batch
        if not len(batch) or not batch.statements_end[-1]:
            return []
        seqs: list[int] = self.seqs[np.diff(batch.statements_end, prepend=0)[self.rows] > 0].tolist()
        return seqs

    def count_statements(self, rows: Ints) -> Ints:
        """Returns how many statements some of the transactions have."""
        counts = np.zeros(len(rows), np.int64)
        for seq, count in self._statements.items():
            counts[rows == seq - self.batch.first_seq] = count
        return counts

    def _count_statements(self, seq: int) -> int:
        return sum(1 for _ in self._item.statements(self.batch.record(seq - self.batch.first_seq)))

    def __getitem__(self, seq: int) -> StreamTransaction:
        transaction = self._made.get(seq)
        if transaction is None:
            if seq not in self:
                raise KeyError(seq)
            row = seq - self.batch.first_seq
            transaction = self._made[seq] = StreamTransaction(
                self._along, self.batch, row, self._statements.get(seq, 0)
            )
        return transaction

    def __contains__(self, seq: object) -> bool:
        at = int(np.searchsorted(self.seqs, seq))  # type: ignore[call-overload]  # an ordinal
        return at < len(self.seqs) and bool(self.seqs[at] == seq)

    def __iter__(self) -> Iterator[int]:
        # In most cases only the first is needed.
        return map(int, self.seqs)

    def __len__(self) -> int:
        return len(self.seqs)


def ordinals_in(known: Ints, some: Ints) -> Ints:
    """Returns the indexes of some numbers among known numbers, which ascend. If the known numbers are consecutive, no
    search is needed."""
    first, last = (int(known[0]), int(known[-1])) if len(known) else (0, 0)
    if last - first + 1 == len(known):
        return some - first
    return np.searchsorted(known, some)
