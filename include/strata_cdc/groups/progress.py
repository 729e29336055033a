"""Where a group is: the positions in its tokens.
Not here: the positions of single transactions (`batch.py`), the watermark (`merge.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.executed import NOTHING

if TYPE_CHECKING:
    from collections.abc import Collection

    from strata_cdc.groups.chunks import DueHop
    from strata_cdc.groups.vector import GroupPosition
    from strata_cdc.position.source_position import SourcePosition


class GroupProgress(Struct, frozen=True):
    """The position after everything that has been yielded; for sources of which nothing waits, the position up to which
    they were read."""

    vector: GroupPosition
    hidden: frozenset[str] = frozenset()
    """Sources whose switchover has not been yielded yet: no token may name them."""

    def hiding(self, sources: Collection[str]) -> GroupProgress:
        """Returns the progress with sources whose switchover is to come."""
        return replace(self, hidden=self.hidden.union(sources))

    def with_begin(self, source: str, position: SourcePosition) -> GroupProgress:
        """Returns the progress with the begin of a source, unless the source has begun; `place` is before the source's
        first transaction."""
        if source in self.vector.positions or source in self.hidden:
            return self
        # The position before a transaction already has the transaction's time.
        return replace(self, vector=self.vector.moved(replace(position, committed_at=0)))

    def with_position(self, position: SourcePosition) -> GroupProgress:
        """Returns the progress with the position up to which a source was read; nothing of the source waits, and it is
        not hidden."""
        known = self.vector.positions.get(position.source)
        if known is not None and position.is_within(known):
            return self
        # Nothing, as a server without transactions reports it, is of no family (`NOTHING`).
        is_begin = known is None or known.position == NOTHING
        return replace(self, vector=self.vector.moved(position if known is None or is_begin else known.union(position)))

    def after(self, vector: GroupPosition) -> GroupProgress:
        """Returns the progress after what is yielded."""
        return replace(self, vector=vector)

    def after_hop(self, chunk: DueHop) -> GroupProgress:
        """Returns the progress after a switchover, when it is yielded."""
        return GroupProgress(chunk.passed(self.vector), self.hidden.difference(chunk.new))

    def is_placed(self, sources: Collection[str]) -> bool:
        """Whether the positions of all sources are known: a token must name all of them."""
        return all(source in self.vector.positions for source in sources)
