"""Where a group is: what its tokens say.
Not here: the places of single transactions (`batch.py`), the watermark (`merge.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from strata_cdc.groups.pieces import HopPiece
    from strata_cdc.groups.vector import GroupPosition
    from strata_cdc.position.source_position import SourcePosition


class GroupProgress(Struct, frozen=True):
    """Behind all that has been given, and where sources were read to of which nothing waits."""

    vector: GroupPosition
    hidden: frozenset[str] = frozenset()
    """Sources whose hop has not been given yet: no token may name them."""

    def hiding(self, sources: Collection[str]) -> GroupProgress:
        """With sources whose hop is to come."""
        return replace(self, hidden=self.hidden.union(sources))

    def with_begin(self, source: str, place: SourcePosition) -> GroupProgress:
        """Where a source begins, unless it has begun; `place` is in front of its first transaction."""
        if source in self.vector.places or source in self.hidden:
            return self
        # The place in front of a transaction has its time already.
        return replace(self, vector=self.vector.moved(replace(place, committed_at=0)))

    def with_place(self, place: SourcePosition) -> GroupProgress:
        """Where a source was read to; nothing of it waits, and it is not hidden."""
        known = self.vector.places.get(place.source)
        if known is not None and place.is_within(known):
            return self
        return replace(self, vector=self.vector.moved(place if known is None else known.union(place)))

    def behind(self, vector: GroupPosition) -> GroupProgress:
        """Behind what is given."""
        return replace(self, vector=vector)

    def behind_hop(self, piece: HopPiece) -> GroupProgress:
        """Behind a hop, when it is given."""
        return GroupProgress(piece.put(self.vector), self.hidden.difference(piece.new))

    def is_placed(self, sources: Collection[str]) -> bool:
        """Whether it is known of all sources where they are: a token must not leave one out."""
        return all(source in self.vector.places for source in sources)
