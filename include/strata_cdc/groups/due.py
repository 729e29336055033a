"""What is due of a group's sources at one time, in the group's order: the parts of the sources' pieces, and which place
each transaction has among all of them. Pure, as the merge that makes it (`merge.py`).
Not here: what is in the pieces (`pieces.py`), tokens (`batch.py`), lines and events (`rendering.py`)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints

What = TypeVar("What")


class DueChunk(NamedTuple, Generic[What]):
    """Consecutive transactions of one piece."""

    source: str
    piece: What
    begin: int
    """Ordinal of the first in the piece, from 0."""
    times: Ints
    """Of each, in the group's time: microseconds UTC."""

    @property
    def end(self) -> int:
        """Exclusive."""
        return self.begin + len(self.times)


class Run(NamedTuple, Generic[What]):
    """Transactions of one source between which no other source has one."""

    source: str
    piece: What
    begin: int
    """Ordinal in the piece, from 0."""
    end: int
    """Exclusive."""
    times: Ints
    """Of each, in the group's time: microseconds UTC."""


class DueTransactions(Generic[What]):
    """Transactions that are due."""

    def __init__(self, parts: Sequence[DueChunk[What]], ranks: Sequence[Ints] | None = None) -> None:
        """Takes parts, and finds the order.

        Args:
            parts: Of each source one behind the other; the sources in the order in which they come at one time.
            ranks: Ordinals of the transactions of each part among all; None: they are to be found.
        """
        self.parts = parts
        self.ranks = _ranks(parts) if ranks is None else ranks

    def __len__(self) -> int:
        return sum(len(part.times) for part in self.parts)

    def __iter__(self) -> Iterator[Run[What]]:
        """In order."""
        owners, ordinals = self.by_rank
        borders = [*np.flatnonzero(np.diff(owners, prepend=-1)).tolist(), len(owners)]
        for begin, end in pairwise(borders):
            part, first = self.parts[owners[begin]], int(ordinals[begin])
            times = part.times[first : first + end - begin]
            yield Run(part.source, part.piece, part.begin + first, part.begin + first + end - begin, times)

    @cached_property
    def by_rank(self) -> tuple[Ints, Ints]:
        """Of each transaction, in order: its part, and its ordinal in that, from 0."""
        owners, ordinals = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        for number, ranks in enumerate(self.ranks):
            owners[ranks] = number
            ordinals[ranks] = np.arange(len(ranks))
        return owners, ordinals

    def between(self, begin: int, end: int) -> DueTransactions[What]:
        """Those of some ordinals, from `begin` to the one in front of `end`."""
        parts, found = [], []
        for part, ranks in zip(self.parts, self.ranks, strict=True):
            first, stop = np.searchsorted(ranks, [begin, end]).tolist()
            if first < stop:
                parts.append(DueChunk(part.source, part.piece, part.begin + first, part.times[first:stop]))
                found.append(ranks[first:stop] - begin)
        return DueTransactions(parts, found)


def _ranks(parts: Sequence[DueChunk[What]]) -> list[Ints]:
    if len(parts) < 2:
        return [np.arange(len(part.times)) for part in parts]
    times = np.concatenate([part.times for part in parts])
    found = np.empty(len(times), np.int64)
    # Sorted runs are merged; what has the same time stays in the order of the parts.
    found[np.argsort(times, kind="stable")] = np.arange(len(times))
    return np.split(found, np.cumsum([len(part.times) for part in parts])[:-1])
