"""Commit times of transactions whose first event does not have them: those of MariaDB, and of MySQL before 8.0.1. Their
first event has the second in which a statement began, their last event that of the commit.
Not here: the times of all transactions (`binlog/events/scanner.py`), which never go back (`position/clock.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.kernels.arrays import Ints

CommitTimes: TypeAlias = tuple[tuple[int, int], ...]
"""Ordinals of transactions, and the commit time of each and of those after it (microseconds UTC); 0: their first events
have their times, as those of all transactions before."""

_SECOND: Final = 1_000_000


def time_to_keep(record: TransactionRecord) -> int:
    """The time of a transaction (microseconds UTC) if its first event may not have it; else 0.

    A time of its own has microseconds: of a million, one is taken for a time of an event's header, and is right, too.
    """
    return 0 if record.commit_timestamp % _SECOND else record.committed_at


def times_to_keep(batch: TransactionBatch, first: int = 0, stop: int | None = None) -> Ints:
    """As `time_to_keep`, of the rows of a batch from `first` to the row before `stop`, or to the last."""
    rows = slice(first, stop)
    return np.where(batch.commit_timestamps[rows] % _SECOND == 0, batch.committed_at[rows], 0)


def commit_times(batch: TransactionBatch, first: int, stop: int) -> CommitTimes:
    """The times of the rows of a batch from `first` to the row before `stop`; nothing is known of later ones."""
    kept = times_to_keep(batch, first, stop)
    changes = np.flatnonzero(np.diff(kept, prepend=0, append=0))
    times = np.append(kept, 0)[changes]
    return tuple(zip((changes + batch.first_seq + first).tolist(), times.tolist(), strict=True))


class TimesAlong:
    """The times of the ranges that a walk has begun."""

    def __init__(self) -> None:
        """Knows none."""
        self._known = [(0, 0)]
        self._seqs = self._times = self._least = np.zeros(0, np.int64)

    def add(self, first_seq: int, times: CommitTimes) -> None:
        """Adds those of the next range, which begins with a transaction."""
        if times or self._knows_any:
            self._known += [(first_seq, 0), *times]

    @property
    def _knows_any(self) -> bool:
        return len(self._known) > 1

    def correct(self, seqs: Ints, clocks: Ints) -> None:
        """Replaces the times that first events have by those of the transactions."""
        if not self._knows_any:
            return
        if len(self._seqs) < len(self._known):
            # Not for each range: there may be thousands between two blocks of rows.
            self._seqs, self._times = np.array(self._known, np.int64).T
            self._least = np.maximum.accumulate(self._times)
        at = np.searchsorted(self._seqs, seqs, "right") - 1
        clocks[:] = np.where(self._times[at] > 0, self._times[at], np.maximum(clocks, self._least[at]))
