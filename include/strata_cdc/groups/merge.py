"""The merge of a group's streams: takes what arrives of each source and gives it in the order (time, epoch, source,
place in the source's stream), whatever the order of arrival. Pure: no clock, no thread, no server.
Not here: reading sources (`readers.py`), what their servers' clocks say (`binlog/protocol/server_clocks.py`), tokens
(`vector.py`).

Of each source there is a *frontier*: no more comes of it with an earlier time. It is the time of the first piece that
has arrived and not been given, or else the later one of the newest time that was given and of what was proved of the
source's position. The *watermark* is the least frontier: everything before it has been given. It is computed anew
after each step, so whoever was slow and has caught up holds nobody up (Vitess' MinimizeSkew stalled on three shards
by waiting for the one that it had called the slow one).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from strata_cdc.groups.due import DueChunk, DueTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from strata_cdc.binlog.kernels.arrays import Ints

What = TypeVar("What")
_MOST_WAITING = 4
"""Pieces of one source that wait to be given: within `max_skew` a busy source may have more than memory has."""


class _Waiting(NamedTuple, Generic[What]):
    times: Ints
    piece: What


class _Member(Generic[What]):
    """One source."""

    def __init__(self, source: str, epoch: int, least: int) -> None:
        self.source, self.epoch = source, epoch
        self.waiting: deque[_Waiting[What]] = deque()
        self.begin = 0
        """Of the first piece, what has been given."""
        self.newest = least
        """Time of the newest transaction that has arrived."""
        self.proved = 0
        """All before this time has arrived."""
        self.has_ended = False

        self.bound = (least, epoch, source)
        """Nothing of this source comes in front of it; its time is the frontier."""

    def stand(self) -> None:
        """Finds the bound anew, when anything has become of the source."""
        frontier = int(self.waiting[0].times[self.begin]) if self.waiting else max(self.newest, self.proved)
        self.bound = frontier, self.epoch, self.source

    def bound_then(self) -> tuple[int, int, str]:
        """What `bound` is once all that waits has been given."""
        return max(self.newest, self.proved), self.epoch, self.source

    def give(self, limit: tuple[int, int, str] | None) -> Iterator[DueChunk[What]]:
        """What waits, up to where another source may still have something; it counts as given."""
        latest = None
        if limit is not None:
            # At the limit's own time it is the name that decides.
            latest = limit[0] if (self.epoch, self.source) <= limit[1:] else limit[0] - 1
        while self.waiting:
            times, piece = self.waiting[0]
            end = len(times) if latest is None else int(np.searchsorted(times, latest, "right"))
            if end > self.begin:
                yield DueChunk(self.source, piece, self.begin, times[self.begin : end])
                self.begin = end
            if end < len(times):
                break
            self.waiting.popleft()
            self.begin = 0
        self.stand()

    @property
    def frontier(self) -> int:
        return self.bound[0]

    @property
    def is_over(self) -> bool:
        return self.has_ended and not self.waiting


class Merge(Generic[What]):
    """The pieces of some sources, in one order."""

    def __init__(self, max_skew: int) -> None:
        """Begins without sources.

        Args:
            max_skew: How far a source may be read ahead of the watermark (microseconds).
        """
        self._max_skew = max_skew
        self._members: dict[str, _Member[What]] = {}

    # What arrives ---------------------------------------------------------------------------------

    def add(self, source: str, *, epoch: int = 0, least: int = 0) -> None:
        """Takes a source in; the watermark waits for it from now on.

        Args:
            source: Its name.
            epoch: Of the hop that it came with; 0 for a first source.
            least: No transaction of it is earlier than this time (microseconds UTC).
        """
        self._members[source] = _Member(source, epoch, least)

    def arrive(self, source: str, times: ArrayLike, piece: What) -> None:
        """Takes the next piece of a source.

        Args:
            source: Its name.
            times: When each of its transactions was committed (microseconds UTC). A time that is before an earlier one,
                or before what was proved, counts as that: a server's clock may jump back, its stream never does.
            piece: Anything; it comes back in what is due.
        """
        member, found = self._members[source], np.asarray(times, np.int64)
        if len(found):
            monotone = np.maximum.accumulate(np.maximum(found, max(member.newest, member.proved)))
            member.newest = int(monotone[-1])
            member.waiting.append(_Waiting(monotone, piece))
            member.stand()

    def prove(self, source: str, time: int) -> None:
        """All transactions of a source before a time have arrived: its position at that time says so. Silence does not,
        and neither does a pause that `may_read` asked for."""
        member = self._members[source]
        member.proved = max(member.proved, time)
        member.stand()

    def finish(self, source: str) -> None:
        """Nothing more comes of a source, ever: once all of it is given, the watermark waits for it no longer."""
        self._members[source].has_ended = True

    # What is due ----------------------------------------------------------------------------------

    def due(self) -> DueTransactions[What]:
        """What can be given now; it counts as given. Everything is due in front of which no source that goes on can
        have anything more, once all that waits of it has been given."""
        live = sorted(self._open(), key=lambda one: (one.epoch, one.source))
        limit = min((one.bound_then() for one in live if not one.has_ended), default=None)
        return DueTransactions([part for one in live if one.waiting for part in one.give(limit)])

    # How it stands --------------------------------------------------------------------------------

    def _open(self) -> list[_Member[What]]:
        return [one for one in self._members.values() if not one.is_over]

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of any source."""
        return not self._open()

    @property
    def watermark(self) -> int | None:
        """Everything before this time has been given; None: nothing more comes."""
        return min((one.frontier for one in self._open()), default=None)

    @property
    def holder(self) -> str | None:
        """The source that the watermark waits for."""
        found = min(self._open(), key=lambda one: one.bound, default=None)
        return None if found is None else found.source

    @property
    def skew(self) -> int:
        """How far the source that was read furthest is ahead of the watermark (microseconds)."""
        times = [max(one.newest, one.proved) for one in self._open()]
        return max(times) - min(one.frontier for one in self._open()) if times else 0

    def newest(self, source: str) -> int:
        """Time of a source's newest transaction that has arrived."""
        return self._members[source].newest

    def frontiers(self) -> dict[str, int]:
        """That of each source that goes on, by name."""
        return {one.source: one.frontier for one in self._open()}

    def may_read(self, source: str) -> bool:
        """Whether more may be read of a source: not if it is ahead of the watermark by more than the bound. The bound
        is one of what has been read, so a backlog of years is read as fast as its sources are.

        A source of which nothing waits may always be read; so of all that are not over, one can go on.
        """
        member = self._members[source]
        if not member.waiting:
            return True
        if len(member.waiting) >= _MOST_WAITING:
            return False
        watermark = self.watermark
        return watermark is None or member.newest <= watermark + self._max_skew

    def has_waiting(self, source: str) -> bool:
        """Whether something of a source has arrived and is not due."""
        return bool(self._members[source].waiting)
