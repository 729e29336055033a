"""What lines state about their transactions besides tokens: GTID, commit time, number of statements. If there are many
transactions, the texts are made a column at a time.
Not here: lines (`writing.py`), tokens (`source_tokens.py`), which transactions (`transactions.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from strata_cdc.changes.texts import Texts
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.streams.events import StreamTransaction

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MANY: Final = 48
"""From this number of transactions on, columns are faster than one transaction at a time."""


class TransactionTexts:
    """Makes the texts of some transactions of a span, in order."""

    def __init__(self, transactions: Mapping[int, StreamTransaction], seqs: Ints) -> None:
        """Takes the transactions of the span, and the ordinals of those that are wanted."""
        self._places, self._seqs = transactions, seqs
        self._columns = transactions if isinstance(transactions, StreamTransactions) and len(seqs) >= MANY else None

    def _each(self) -> list[StreamTransaction]:
        return [self._places[seq] for seq in self._seqs.tolist()]

    def statements(self) -> Ints:
        """Returns how many statements each transaction has."""
        if self._columns is not None:
            return self._columns.count_statements(self._seqs - self._columns.batch.first_seq)
        return np.array([transaction.statements for transaction in self._each()], np.int64)

    def gtids(self) -> tuple[Texts, Ints]:
        """Returns GTIDs as JSON, in quotes, or `null`; and which of these texts each transaction has."""
        if self._columns is None:
            texts = Texts.of(
                [b'"%b"' % transaction.gtid.encode() if transaction.gtid else b"null" for transaction in self._each()]
            )
            return texts, np.arange(len(texts))
        return self._mine(self._columns.gtid_texts, self._columns)

    def times(self) -> tuple[Texts, Ints]:
        """Returns commit times as `time_text` does; and which of these texts each transaction has."""
        if self._columns is None:
            texts = Texts.of([time_text(transaction.record.committed_at).encode() for transaction in self._each()])
            return texts, np.arange(len(texts))
        return self._mine(self._columns.time_texts, self._columns)

    def _mine(self, texts: Texts, columns: StreamTransactions) -> tuple[Texts, Ints]:
        """From the texts of all transactions of a span, a range that has the texts of these; and which text of it each
        has."""
        ordinals = columns.ordinals(self._seqs)
        first = int(ordinals[0])
        return texts.between(first, int(ordinals[-1]) + 1), ordinals - first


def shown_fields(shown: Mapping[str, Any]) -> bytes:
    """Returns more keys of a line, as JSON that comes after the keys that the line already has."""
    return b",%b" % msgspec.json.encode(shown)[1:-1] if shown else b""


def time_text(micros: int) -> str:
    """Returns a commit time as `2026-11-21T03:30:00.000000Z`."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{_second_text(seconds)}.{fraction:06}Z"


@lru_cache(1 << 10)
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
