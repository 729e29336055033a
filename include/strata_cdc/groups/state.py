"""What the stream of a group knows at a moment: what waits of its sources, which of them have failed, and the position
after all that has been yielded.
Not here: what comes from the sources (`arrive.py`), the sources themselves (`sources.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct, field

from strata_cdc.groups.chunks import DueHop, SpanTransactions
from strata_cdc.groups.merge import Merge
from strata_cdc.groups.progress import GroupProgress
from strata_cdc.groups.rendering import GroupHeartbeat
from strata_cdc.groups.vector import GroupPosition
from strata_cdc.groups.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strata_cdc.errors import StrataError
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.position.source_position import SourcePosition


class GroupState(Struct, eq=False):
    """What one stream of a group knows."""

    merge: Merge[SpanTransactions | DueHop]
    watch: Watch
    progress: GroupProgress
    begun: set[str] = field(default_factory=set)
    """Sources that are read, or have been read."""
    failed: dict[str, StrataError] = field(default_factory=dict)
    """Sources with a fault, which is raised when the watermark waits for them."""
    last_commits: dict[str, int] = field(default_factory=dict)
    """`Ended.last_commit` of sources that have ended."""
    unreadable_rows: int = 0
    """How many of the yielded rows cannot be read."""

    @classmethod
    def begin(cls, request: GroupRequest) -> GroupState:
        """The state before anything is read."""
        group, positions = request.group, GroupPosition.from_positions(request.starts.positions())
        return cls(Merge(group.max_skew), Watch(group.name, group.max_skew), GroupProgress(positions))

    @property
    def is_placed(self) -> bool:
        """Whether the positions of all sources are known: a token must name all of them."""
        return self.progress.is_placed(self.begun)

    @property
    def token(self) -> str | None:
        """The token after everything that has been yielded; None until the positions of all sources are known."""
        return self.progress.vector.text if self.begun and self.is_placed else None

    def heartbeat(self) -> GroupHeartbeat:
        """The state as a heartbeat has it; `is_placed` is true."""
        merge, token = self.merge, self.progress.vector.text
        return GroupHeartbeat(token, merge.watermark or 0, merge.skew, merge.holder, int(self.watch.since * 1e6))

    def add_hop(self, hop: Hop, number: int, positions: Sequence[SourcePosition]) -> None:
        """Lets a switchover wait in the merge, before all that comes of its new sources.

        Args:
            hop: The switchover.
            number: The epoch that it begins.
            positions: Where its new sources begin.
        """
        first = min(hop.new)
        least = self.merge.newest(first)
        self.merge.arrive(first, [least], DueHop(hop, number, positions, least))

    def paused(self, placed: Collection[str]) -> list[str]:
        """Sources that must not be read further for now; `placed` is `Arrivals.placed`."""
        return [name for name in self.begun if name in placed or name in self.failed or not self.merge.may_read(name)]

    def look(self) -> None:
        """Raises a source's fault when the watermark waits for that source: then everything before the fault has been
        yielded. Logs it if the watermark has not moved for long."""
        holder = self.merge.holder
        if holder in self.failed and not self.merge.has_waiting(holder):
            raise self.failed[holder]
        self.watch.look(self.merge, time.time())
