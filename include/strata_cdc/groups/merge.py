"""The merge of a group's streams: it takes what arrives from each source, and returns it in the order (time, epoch,
source, position in the source's stream), in whatever order it arrives. Pure: no clock, no thread, no server.
Not here: reading sources (`readers.py`), the servers' clocks (`binlog/protocol/server_clocks.py`), tokens
(`group_position.py`).

Each source has a *frontier*: nothing more comes from it with an earlier time. The frontier is the time of the first
chunk that has arrived and not been returned. Without such a chunk, it is the later of two times: the newest time that
was returned, and the time that was proved by the source's position. The *watermark* is the least frontier: everything
before it has been returned. It is computed again after each step, so a source that was slow and has caught up delays no
other source (Vitess' MinimizeSkew stalled on three shards, because it waited for the shard that it had called slow).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from strata_cdc.groups.merged import MergedChunk, MergedTransactions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike

    from strata_cdc.binlog.kernels.arrays import Ints

What = TypeVar("What")
_MOST_WAITING = 4
"""Most chunks of one source that wait to be returned: within `max_skew`, a busy source may have more than fits in
memory."""


class _WaitingChunk(NamedTuple, Generic[What]):
    times: Ints
    chunk: What


class _MergedSource(Generic[What]):
    """One source."""

    def __init__(self, source: str, epoch: int, least: int) -> None:
        self.source, self.epoch = source, epoch
        self.waiting: deque[_WaitingChunk[What]] = deque()
        self.begin = 0
        """How many transactions of the first waiting chunk have been returned."""
        self.newest = least
        """Time of the newest transaction that has arrived."""
        self.proved = 0
        """Everything before this time has arrived."""
        self.has_ended = False

        self.bound = (least, epoch, source)
        """Nothing of this source comes before this; its time is the frontier."""

    def stand(self) -> None:
        """Computes the bound again, after anything has changed in the source."""
        frontier = int(self.waiting[0].times[self.begin]) if self.waiting else max(self.newest, self.proved)
        self.bound = frontier, self.epoch, self.source

    def bound_then(self) -> tuple[int, int, str]:
        """Returns what `bound` is after everything that waits has been returned."""
        return max(self.newest, self.proved), self.epoch, self.source

    def give(self, limit: tuple[int, int, str] | None) -> Iterator[MergedChunk[What]]:
        """Yields what waits, up to where another source may still have something; it counts as returned."""
        latest = None
        if limit is not None:
            # At the limit's own time, the epoch and the name decide.
            latest = limit[0] if (self.epoch, self.source) <= limit[1:] else limit[0] - 1
        while self.waiting:
            times, chunk = self.waiting[0]
            end = len(times) if latest is None else int(np.searchsorted(times, latest, "right"))
            if end > self.begin:
                yield MergedChunk(self.source, chunk, self.begin, times[self.begin : end])
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
    """The chunks of some sources, in one order."""

    def __init__(self, max_skew: int) -> None:
        """Begins without sources.

        Args:
            max_skew: How far a source may be read ahead of the watermark (microseconds).
        """
        self._max_skew = max_skew
        self._members: dict[str, _MergedSource[What]] = {}

    # What arrives ---------------------------------------------------------------------------------

    def add(self, source: str, *, epoch: int = 0, least: int = 0) -> None:
        """Adds a source; the watermark waits for it from now on.

        Args:
            epoch: Number of the switchover with which it came; 0 for a first source.
            least: No transaction of it is earlier than this time (microseconds UTC).
        """
        self._members[source] = _MergedSource(source, epoch, least)

    def arrive(self, source: str, times: ArrayLike, chunk: What) -> None:
        """Takes the next chunk of a source.

        `times` are the commit times of the chunk's transactions (microseconds UTC). A time that is before an earlier
        time, or before a proved time, counts as that time: a server's clock may jump back, but its stream never does.
        `chunk` can be anything; it comes back in what is due.
        """
        member, ascending = self._members[source], np.asarray(times, np.int64)
        if len(ascending):
            monotone = np.maximum.accumulate(np.maximum(ascending, max(member.newest, member.proved)))
            member.newest = int(monotone[-1])
            member.waiting.append(_WaitingChunk(monotone, chunk))
            member.stand()

    def prove(self, source: str, time: int) -> None:
        """Notes that all transactions of a source before a time have arrived: its position at that time proves this.
        Silence proves nothing, and neither does a pause that `may_read` requested."""
        member = self._members[source]
        member.proved = max(member.proved, time)
        member.stand()

    def finish(self, source: str) -> None:
        """Notes that nothing more ever comes from a source: when all of it has been returned, the watermark no longer
        waits for it."""
        self._members[source].has_ended = True

    # What is due ----------------------------------------------------------------------------------

    def due(self) -> MergedTransactions[What]:
        """Returns what is due now; it then counts as returned. A transaction is due if no source that continues can
        have anything more before it, after everything of that source that waits."""
        live = sorted(self._open(), key=lambda member: (member.epoch, member.source))
        limit = min((member.bound_then() for member in live if not member.has_ended), default=None)
        return MergedTransactions([part for member in live if member.waiting for part in member.give(limit)])

    # State ----------------------------------------------------------------------------------------

    def _open(self) -> list[_MergedSource[What]]:
        return [member for member in self._members.values() if not member.is_over]

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes from any source."""
        return not self._open()

    @property
    def watermark(self) -> int | None:
        """Everything before this time has been returned; 0: of a source nothing is known yet; None: nothing more
        comes."""
        return min((member.frontier for member in self._open()), default=None)

    @property
    def holder(self) -> str | None:
        """The source that the watermark waits for."""
        member = min(self._open(), key=lambda member: member.bound, default=None)
        return None if member is None else member.source

    @property
    def skew(self) -> int:
        """How far the source that was read furthest is past the watermark (microseconds); 0 without a watermark."""
        watermark = self.watermark
        if not watermark:
            return 0
        return max(max(member.newest, member.proved) for member in self._open()) - watermark

    def newest(self, source: str) -> int:
        """Returns the time of a source's newest transaction that has arrived."""
        return self._members[source].newest

    def may_read(self, source: str) -> bool:
        """Whether more may be read of a source: not if it is past the watermark by more than `max_skew`. The limit
        compares what has been read, so a backlog of years is read as fast as its sources can be read.

        A source of which nothing waits may always be read; so at least one of the sources that are not over can
        continue.
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
