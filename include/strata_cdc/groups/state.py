"""What the stream of a group knows at a moment: what waits of its sources, which of them have failed, and the position
after all that has been yielded.
Not here: what comes from the sources (`reading.py`), the sources themselves (`sources.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.groups.chunks import SwitchoverChunk
from strata_cdc.groups.group_position import GroupPosition
from strata_cdc.groups.merge import Merge
from strata_cdc.groups.rendering import GroupHeartbeat
from strata_cdc.groups.watch import Watch
from strata_cdc.position.executed import NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strata_cdc.config.settings import Group
    from strata_cdc.errors import StrataError
    from strata_cdc.groups.bounds import GroupBounds
    from strata_cdc.groups.chunks import GroupSwitchover, SpanTransactions
    from strata_cdc.groups.membership import Membership
    from strata_cdc.groups.switchovers import Switchover
    from strata_cdc.position.source_position import SourcePosition


# Where a group is: the positions in its tokens.
class GroupProgress(Struct, frozen=True):
    """The position after everything that has been yielded; for sources of which nothing waits, the position up to which
    they were read."""

    position: GroupPosition
    hidden: frozenset[str] = frozenset()
    """Sources whose switchover has not been yielded yet: no token may name them."""

    def hiding(self, sources: Collection[str]) -> GroupProgress:
        """Returns the progress with sources whose switchover is to come."""
        return replace(self, hidden=self.hidden.union(sources))

    def with_begin(self, source: str, position: SourcePosition) -> GroupProgress:
        """Returns the progress with the begin of a source, unless the source has begun; `position` is before the
        source's first transaction."""
        if source in self.position.positions or source in self.hidden:
            return self
        # The position before a transaction already has the transaction's time.
        return replace(self, position=self.position.moved(replace(position, committed_at=0)))

    def with_position(self, position: SourcePosition) -> GroupProgress:
        """Returns the progress with the position up to which a source was read; nothing of the source waits, and it is
        not hidden."""
        known = self.position.positions.get(position.source)
        if known is not None and position.is_within(known):
            return self
        # Nothing, as a server without transactions reports it, is of no family (`NOTHING`).
        is_begin = known is None or known.position == NOTHING
        return replace(
            self, position=self.position.moved(position if known is None or is_begin else known.union(position))
        )

    def after(self, position: GroupPosition) -> GroupProgress:
        """Returns the progress after what is yielded."""
        return replace(self, position=position)

    def after_switchover(self, event: GroupSwitchover) -> GroupProgress:
        """Returns the progress after a switchover, when it is yielded."""
        return GroupProgress(event.after, self.hidden.difference(event.new))

    def is_placed(self, sources: Collection[str]) -> bool:
        """Whether the positions of all sources are known: a token must name all of them."""
        return all(source in self.position.positions for source in sources)


class GroupState(Struct, eq=False):
    """What one stream of a group knows."""

    membership: Membership
    """Which sources the group has; it moves with what is read."""
    bounds: GroupBounds
    """Where each source begins and ends; those of a switchover by time are known when it comes."""
    merge: Merge[SpanTransactions | SwitchoverChunk]
    watch: Watch
    progress: GroupProgress
    begun: set[str] = field(default_factory=set)
    """Sources that are read, or have been read."""
    failed: dict[str, StrataError] = field(default_factory=dict)
    """Sources with a fault, which is raised when the watermark waits for them."""
    last_commits: dict[str, int] = field(default_factory=dict)
    """`EndOfStream.last_commit` of sources that have ended."""
    unreadable_rows: int = 0
    """How many of the yielded rows cannot be read."""

    @classmethod
    def begin(cls, group: Group, membership: Membership, bounds: GroupBounds) -> GroupState:
        """The state before anything is read."""
        progress = GroupProgress(GroupPosition.from_positions(bounds.positions()))
        return cls(membership, bounds, Merge(group.max_skew), Watch(group.name, group.max_skew), progress)

    @property
    def is_placed(self) -> bool:
        """Whether the positions of all sources are known: a token must name all of them."""
        return self.progress.is_placed(self.begun)

    @property
    def token(self) -> str | None:
        """The token after everything that has been yielded; None until the positions of all sources are known."""
        return self.progress.position.text if self.begun and self.is_placed else None

    def heartbeat(self) -> GroupHeartbeat:
        """The state as a heartbeat has it; `is_placed` is true."""
        merge, token = self.merge, self.progress.position.text
        return GroupHeartbeat(token, merge.watermark or None, merge.skew, merge.holder, int(self.watch.since * 1e6))

    def add_switchover(self, switchover: Switchover, number: int, positions: Sequence[SourcePosition]) -> None:
        """Lets a switchover wait in the merge, before all that comes of its new sources.

        Args:
            switchover: The switchover.
            number: The epoch that it begins.
            positions: Where its new sources begin.
        """
        first = min(switchover.new)
        least = self.merge.newest(first)
        self.merge.arrive(first, [least], SwitchoverChunk(switchover, number, positions, least))

    def paused(self) -> list[str]:
        """Sources that must not be read further for now."""
        return [name for name in self.begun if name in self.failed or not self.merge.may_read(name)]

    def look(self) -> None:
        """Raises a source's fault when the watermark waits for that source: then everything before the fault has been
        yielded. Logs it if the watermark has not moved for long."""
        holder = self.merge.holder
        if holder in self.failed and not self.merge.has_waiting(holder):
            raise self.failed[holder]
        self.watch.look(self.merge, time.time())
