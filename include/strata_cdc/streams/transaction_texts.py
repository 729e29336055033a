"""What lines state about their transactions: tokens, GTIDs, commit times, as texts. If there are many transactions, the
texts are made a column at a time.
Not here: lines (`writing.py`), tokens (`source_tokens.py`), which transactions (`transactions.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.changes.lines import LineColumn
from strata_cdc.changes.texts import Constants, Digits, ListedTexts, Moments
from strata_cdc.streams.transactions import MANY, StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import TransactionColumns
    from strata_cdc.changes.texts import TextSource
    from strata_cdc.streams.events import StreamTransaction
    from strata_cdc.streams.source_tokens import SpanTokens

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TransactionTexts(Struct, frozen=True, eq=False):
    """The transactions of a span, as its lines have them: of each text, one for each transaction."""

    source: str
    """Name of the source of all; empty if there is no transaction."""
    seqs: Ints
    """Their ordinals, in order."""
    statements: Ints
    """How many statements each has."""
    gtids: list[LineColumn]
    """Columns of a line for each transaction, as JSON: in quotes, or `null`."""
    times: TextSource
    """Commit times, as `time_text` returns them."""
    tokens: SpanTokens

    def gtids_of(self, chosen: Ints) -> list[LineColumn]:
        """Returns the columns of GTIDs for other lines.

        Args:
            chosen: For each line, the number of its transaction.
        """
        return [
            LineColumn(column.texts, chosen if column.chosen is None else column.chosen[chosen], column.is_absent)
            for column in self.gtids
        ]


def texts_of_transactions(
    transactions: Mapping[int, StreamTransaction], seqs: Ints, tokens: SpanTokens
) -> TransactionTexts:
    """Makes the texts of some transactions.

    Args:
        transactions: Transactions of a source's own stream.
        seqs: The ordinals of those that are wanted, in order.
        tokens: Their tokens.
    """
    source = transactions[int(seqs[0])].source if len(seqs) else ""
    if isinstance(transactions, StreamTransactions) and len(seqs) >= MANY:
        batch = transactions.batch
        rows = seqs - batch.first_seq
        moments = Moments(batch.committed_at[rows], "T", 6, "Z")
        return TransactionTexts(source, seqs, transactions.count_statements(rows), _gtids(batch, rows), moments, tokens)
    each = [transactions[seq] for seq in seqs.tolist()]
    statements = np.array([transaction.statements for transaction in each], np.int64)
    gtids = ListedTexts([b'"%b"' % transaction.gtid.encode() if transaction.gtid else b"null" for transaction in each])
    times = ListedTexts([time_text(transaction.record.committed_at).encode() for transaction in each])
    return TransactionTexts(source, seqs, statements, [LineColumn(gtids)], times, tokens)


def _gtids(batch: TransactionColumns, rows: Ints) -> list[LineColumn]:
    sids, is_none = batch.sid_numbers[rows], batch.sid_numbers[rows] < 0
    servers = (*(f'"{sid.prefix}'.encode() for sid in batch.sids), b"null")
    return [
        LineColumn(Constants(servers), np.where(is_none, len(batch.sids), sids)),
        LineColumn(Digits(batch.numbers[rows]), None, is_none),
        LineColumn(Constants((b'"', b"")), is_none.astype(np.int64)),
    ]


def time_text(micros: int) -> str:
    """Returns a commit time as `2026-11-21T03:30:00.000000Z`."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{_second_text(seconds)}.{fraction:06}Z"


@lru_cache(1 << 10)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
