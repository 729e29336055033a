"""The tokens of the transactions of a source's stream. If there are many, they are made a column at a time.
Not here: the texts of tokens with the same head (`token_texts.py`), one token (`events.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from strata_cdc.changes.texts import Texts
from strata_cdc.position.executed import is_executed
from strata_cdc.position.token_packed import growing, packed_place
from strata_cdc.streams.token_texts import Growth, heads_of, heads_one_by_one, joined_heads, tokens_of
from strata_cdc.streams.transaction_texts import MANY
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import TransactionColumns
    from strata_cdc.streams.events import StreamTransaction
    from strata_cdc.streams.token_texts import TokenHeads


class SpanTokens(Protocol):
    """The tokens of a span's transactions, as lines have them. The ordinals of transactions are in order."""

    @property
    def own(self) -> Mapping[int, StreamTransaction]:
        """The transactions in the source's own stream."""

    def after(self, seqs: Ints) -> Texts:
        """Returns the token after each of some transactions."""

    def inside(self, seqs: Ints) -> TokenHeads:
        """Returns the begin of the tokens inside each of some transactions."""

    def more_keys(self, seqs: Ints) -> Texts | None:
        """Returns more keys of the lines of some transactions, as JSON after other keys; None: no line has any."""


class SourceTokens:
    """The tokens of one source."""

    def __init__(self, transactions: Mapping[int, StreamTransaction]) -> None:
        """Takes the transactions of a span."""
        self.own = transactions

    def after(self, seqs: Ints) -> Texts:
        """Returns the token after each of some transactions."""
        parts = []
        for run, index in self._runs(seqs):
            if index is None:
                parts.append(Texts.of([self.own[seq].after_text.encode() for seq in run.tolist()]))
            else:
                first, growth = self._growth(run, index, 0)
                parts.append(tokens_of([packed_place(first.before)], {0: growth}))
        return Texts.joined(parts)

    def inside(self, seqs: Ints) -> TokenHeads:
        """Returns the begin of the tokens inside each of some transactions."""
        parts = []
        for run, index in self._runs(seqs):
            if index is None:
                parts.append(heads_one_by_one([self.own[seq].steps for seq in run.tolist()]))
            else:
                first, growth = self._growth(run, index, 1)
                parts.append(heads_of([packed_place(first.inside)], {0: growth}))
        return joined_heads(parts)

    def more_keys(self, seqs: Ints) -> None:
        """Returns None: there are none."""
        del seqs

    def _growth(self, run: Ints, index: int, before: int) -> tuple[StreamTransaction, Growth]:
        """The first transaction of a run, and what changes along the run: numbers that are less by `before` than those
        of the transactions."""
        first = self.own[int(run[0])]
        batch = first.batch
        rows = run - batch.first_seq
        return first, Growth(index, batch.numbers[rows] - before, batch.committed_at[rows])

    def _runs(self, seqs: Ints) -> Iterator[tuple[Ints, int | None]]:
        """Yields runs of transactions that one server has numbered consecutively, and which of the packed numbers grows
        with them; None: their tokens have to be made one by one."""
        if not isinstance(self.own, StreamTransactions) or len(seqs) < MANY:
            yield seqs, None
            return
        batch = self.own.batch
        breaks = (np.diff(batch.sid_numbers, prepend=-2) != 0) | (np.diff(batch.numbers, prepend=0) != 1)
        begins = np.flatnonzero(np.diff(np.cumsum(breaks)[seqs - batch.first_seq], prepend=-1))
        for begin, end in pairwise([*begins.tolist(), len(seqs)]):
            at = begin
            while at < end:
                index, count = self._grows(seqs[at:end], batch)
                yield seqs[at : at + count], index
                at += count

    def _grows(self, run: Ints, batch: TransactionColumns) -> tuple[int | None, int]:
        """Which of the packed numbers grows with the first transactions of a run, and how many these are: the form of a
        set changes with a server's first transaction, and where one of its intervals joins the next."""
        if len(run) < MANY:
            return None, len(run)
        first = self.own[int(run[0])]
        gtid, position = first.record.gtid, first.before
        growth = None if gtid is None else growing(position, gtid)
        if growth is None:
            return None, 1 if is_executed(position.position) else len(run)
        index, limit = growth
        count = int(np.searchsorted(batch.numbers[run - batch.first_seq], limit))
        return (index, count) if count else (None, 1)
