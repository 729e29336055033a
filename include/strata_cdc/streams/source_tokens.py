"""The tokens of the transactions of a source's stream. If there are many, they are made a column at a time.
Not here: the texts of tokens with the same head (`token_texts.py`), one token (`events.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.position.executed import is_executed
from strata_cdc.position.token_packed import growing, packed_place
from strata_cdc.streams.token_texts import (
    MANY,
    Growth,
    SpanTokens,
    heads_of,
    joined_tokens,
    tokens_of,
    tokens_one_by_one,
)
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.streams.events import StreamTransaction


def source_tokens(transactions: Mapping[int, StreamTransaction], seqs: Ints) -> SpanTokens:
    """Makes the tokens of some transactions, which have one source.

    Args:
        transactions: The transactions of a span.
        seqs: The ordinals of those that are wanted, in order.
    """
    if not isinstance(transactions, StreamTransactions) or len(seqs) < MANY:
        return tokens_one_by_one([transactions[seq] for seq in seqs.tolist()])
    return joined_tokens([_of_run(transactions, run, index) for run, index in _runs(transactions, seqs)])


def _of_run(transactions: StreamTransactions, run: Ints, index: int | None) -> SpanTokens:
    """The tokens of transactions of which one of the packed numbers grows; None: they are made one by one."""
    if index is None:
        return tokens_one_by_one([transactions[seq] for seq in run.tolist()])
    first, batch = transactions[int(run[0])], transactions.batch
    numbers, times = batch.numbers[run - batch.first_seq], batch.committed_at[run - batch.first_seq]
    return SpanTokens(
        heads_of([packed_place(first.inside)], {0: Growth(index, numbers - 1, times)}),
        tokens_of([packed_place(first.before)], {0: Growth(index, numbers, times)}),
    )


def _runs(transactions: StreamTransactions, seqs: Ints) -> Iterator[tuple[Ints, int | None]]:
    """Yields runs of transactions that one server has numbered consecutively, and which of the packed numbers grows
    with them; None: their tokens have to be made one by one."""
    batch = transactions.batch
    breaks = (np.diff(batch.sid_numbers, prepend=-2) != 0) | (np.diff(batch.numbers, prepend=0) != 1)
    begins = np.flatnonzero(np.diff(np.cumsum(breaks)[seqs - batch.first_seq], prepend=-1))
    for begin, end in pairwise([*begins.tolist(), len(seqs)]):
        at = begin
        while at < end:
            index, count = _grows(transactions, seqs[at:end])
            yield seqs[at : at + count], index
            at += count


def _grows(transactions: StreamTransactions, run: Ints) -> tuple[int | None, int]:
    """Which of the packed numbers grows with the first transactions of a run, and how many these are: the form of a set
    changes with a server's first transaction, and where one of its intervals joins the next."""
    if len(run) < MANY:
        return None, len(run)
    first, batch = transactions[int(run[0])], transactions.batch
    gtid, position = first.record.gtid, first.before
    growth = None if gtid is None else growing(position, gtid)
    if growth is None:
        return None, 1 if is_executed(position.position) else len(run)
    index, limit = growth
    count = int(np.searchsorted(batch.numbers[run - batch.first_seq], limit))
    return (index, count) if count else (None, 1)
