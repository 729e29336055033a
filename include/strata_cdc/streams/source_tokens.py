"""The tokens of the transactions of a source's stream. If there are many, they are described a column at a time.
Not here: the texts of tokens (`changes/token_texts.py`), one token (`events.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.changes.token_texts import GrowingTokens, Growth, TokensAfter, TokensInside
from strata_cdc.position.executed import is_executed
from strata_cdc.position.token_packed import growing, packed_source_position
from strata_cdc.streams.transactions import MANY, StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.texts import TextSource
    from strata_cdc.streams.events import StreamTransaction


class SpanTokens(Struct, frozen=True, eq=False):
    """The tokens of some transactions."""

    inside: TokensInside
    """The begin of the tokens inside each."""
    after: TokensAfter
    """The token after each."""
    more_keys: TextSource | None = None
    """More keys of the lines of each, as JSON after other keys; None: no line has any."""


def source_tokens(transactions: Mapping[int, StreamTransaction], seqs: Ints) -> SpanTokens:
    """Returns the tokens of some transactions, which have one source.

    Args:
        transactions: The transactions of a span.
        seqs: The ordinals of those that are wanted, in order.
    """
    if not isinstance(transactions, StreamTransactions) or len(seqs) < MANY:
        return tokens_one_by_one([transactions[seq] for seq in seqs.tolist()])
    return joined_tokens(list(_runs(transactions, seqs)))


def tokens_one_by_one(transactions: Sequence[StreamTransaction]) -> SpanTokens:
    """Returns the tokens of some transactions, from the texts of each."""
    return SpanTokens(
        TokensInside([[transaction.steps for transaction in transactions]]),
        TokensAfter([[transaction.after_text for transaction in transactions]]),
    )


def joined_tokens(parts: Sequence[SpanTokens], more_keys: TextSource | None = None) -> SpanTokens:
    """Returns the tokens of all parts, one part after the other, with other keys."""
    return SpanTokens(
        TokensInside([run for part in parts for run in part.inside.runs]),
        TokensAfter([run for part in parts for run in part.after.runs]),
        more_keys,
    )


def _runs(transactions: StreamTransactions, seqs: Ints) -> Iterator[SpanTokens]:
    """Yields the tokens of transactions that one server has numbered consecutively, and of which one of the packed
    numbers grows; or of which each is made alone."""
    batch = transactions.batch
    breaks = (np.diff(batch.sid_numbers, prepend=-2) != 0) | (np.diff(batch.numbers, prepend=0) != 1)
    begins = np.flatnonzero(np.diff(np.cumsum(breaks)[seqs - batch.first_seq], prepend=-1))
    for begin, end in pairwise([*begins.tolist(), len(seqs)]):
        at = begin
        while at < end:
            count, tokens = _first_tokens(transactions, seqs[at:end])
            yield tokens or tokens_one_by_one([transactions[seq] for seq in seqs[at : at + count].tolist()])
            at += count


def _first_tokens(transactions: StreamTransactions, run: Ints) -> tuple[int, SpanTokens | None]:
    """How many of the first transactions of a run have tokens of one form, and these; None: they are made one by one.
    The form of a set changes with a server's first transaction, and where one of its intervals joins the next."""
    if len(run) < MANY:
        return len(run), None
    first, batch = transactions[int(run[0])], transactions.batch
    gtid, position = first.record.gtid, first.before
    growth = None if gtid is None else growing(position, gtid)
    if growth is None:
        return (1 if is_executed(position.position) else len(run)), None
    index, limit = growth
    rows = run - batch.first_seq
    rows = rows[: int(np.searchsorted(batch.numbers[rows], limit))]
    if not len(rows):
        return 1, None
    numbers, times = batch.numbers[rows], batch.committed_at[rows]
    inside = GrowingTokens([packed_source_position(first.inside)], {0: Growth(index, numbers - 1, times)})
    after = GrowingTokens([packed_source_position(position)], {0: Growth(index, numbers, times)})
    return len(rows), SpanTokens(TokensInside([inside]), TokensAfter([after]))
