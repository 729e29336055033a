"""What is due of a group's sources at one time, in the group's order: parts of the sources' chunks, and the rank of
each transaction among all of them. Pure, like the merge that makes it (`merge.py`).
Not here: what is in the chunks (`chunks.py`), tokens (`batch.py`), lines and events (`rendering.py`)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.binlog.kernels.arrays import Ints

What = TypeVar("What")


class MergedChunk(NamedTuple, Generic[What]):
    """Consecutive transactions of one chunk of a source."""

    source: str
    chunk: What
    begin: int
    """Ordinal of the first transaction in the chunk, from 0."""
    times: Ints
    """The time of each transaction, in the group's time: microseconds UTC."""

    @property
    def end(self) -> int:
        """The ordinal after the last transaction."""
        return self.begin + len(self.times)


class MergedTransactions(Generic[What]):
    """The transactions that are due."""

    def __init__(self, parts: Sequence[MergedChunk[What]], ranks: Sequence[Ints] | None = None) -> None:
        """Takes the parts, and finds the order.

        Args:
            parts: The parts of each source, one after the other; the sources in the order that they have for equal
                times.
            ranks: Ranks of the transactions of each part among all; None: they are computed.
        """
        self.parts = parts
        self.ranks = _ranks(parts) if ranks is None else ranks

    def __len__(self) -> int:
        return sum(len(part.times) for part in self.parts)

    def __iter__(self) -> Iterator[MergedChunk[What]]:
        """Yields the transactions in order: of each source as many at once as have none of another source between
        them."""
        owners, ordinals = self.by_rank
        borders = [*np.flatnonzero(np.diff(owners, prepend=-1)).tolist(), len(owners)]
        for begin, end in pairwise(borders):
            part, first = self.parts[owners[begin]], int(ordinals[begin])
            times = part.times[first : first + end - begin]
            yield MergedChunk(part.source, part.chunk, part.begin + first, times)

    @cached_property
    def by_rank(self) -> tuple[Ints, Ints]:
        """For each transaction, in order: its part, and its ordinal in the part, from 0."""
        owners, ordinals = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        for number, ranks in enumerate(self.ranks):
            owners[ranks] = number
            ordinals[ranks] = np.arange(len(ranks))
        return owners, ordinals

    def between(self, begin: int, end: int) -> MergedTransactions[What]:
        """Returns the transactions with the ranks from `begin` to the last before `end`."""
        parts, ranks_between = [], []
        for part, ranks in zip(self.parts, self.ranks, strict=True):
            first, stop = np.searchsorted(ranks, [begin, end]).tolist()
            if first < stop:
                parts.append(MergedChunk(part.source, part.chunk, part.begin + first, part.times[first:stop]))
                ranks_between.append(ranks[first:stop] - begin)
        return MergedTransactions(parts, ranks_between)


def _ranks(parts: Sequence[MergedChunk[What]]) -> list[Ints]:
    if len(parts) < 2:
        return [np.arange(len(part.times)) for part in parts]
    times = np.concatenate([part.times for part in parts])
    ranks_of_all = np.empty(len(times), np.int64)
    # A stable sort merges the sorted parts; transactions of the same time stay in the order of the parts.
    ranks_of_all[np.argsort(times, kind="stable")] = np.arange(len(times))
    return np.split(ranks_of_all, np.cumsum([len(part.times) for part in parts])[:-1])
