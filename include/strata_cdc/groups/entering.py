"""New sources of a switchover that begin at a time. The first transaction of each source shows its position. Until it
has come from all of them, what has come from the others waits.
Not here: what a switchover is (`hops.py`), the stream (`stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.groups.readers import Ended, ReaderPosition
from strata_cdc.position.executed import NOTHING
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.readers import FromReader


class Entered(Struct):
    """A switchover for whose new sources positions are still missing."""

    hop: Hop
    places: dict[str, SourcePosition] = field(default_factory=dict)
    """The known positions, by source."""
    kept: list[tuple[str, FromReader]] = field(default_factory=list)
    """What has come from the sources, in order."""


class Entering:
    """The switchovers of one group that are in progress."""

    def __init__(self) -> None:
        """Begins without switchovers."""
        self._by_source: dict[str, Entered] = {}

    def add(self, hop: Hop) -> None:
        """Waits for the new sources of a switchover."""
        self._by_source.update(dict.fromkeys(hop.new, Entered(hop)))

    @property
    def placed(self) -> set[str]:
        """Sources that must not be read further until the other sources of their switchover have come."""
        return {source for source, entered in self._by_source.items() if source in entered.places}

    def keep(self, source: str, what: FromReader, lineage: str) -> Entered | None:
        """Takes what has come from a source, for which `waits_for` is true.

        Args:
            source: The source.
            what: A span, a position, or the end of its stream.
            lineage: Lineage of the source.

        Returns:
            The switchover, if the positions of all its new sources are now known.
        """
        entered = self._by_source[source]
        entered.kept.append((source, what))
        if source not in entered.places:
            entered.places[source] = _place_of(what) or SourcePosition(source, NOTHING, lineage)
        if not entered.hop.new.keys() <= entered.places.keys():
            return None
        for name in entered.hop.new:
            del self._by_source[name]
        return entered

    def waits_for(self, source: str, what: FromReader) -> bool:
        """Whether what has come from a source must be kept."""
        is_fault = isinstance(what, Ended) and what.error is not None
        return source in self._by_source and isinstance(what, StreamBatch | ReaderPosition | Ended) and not is_fault


def _place_of(what: FromReader) -> SourcePosition | None:
    if isinstance(what, StreamBatch):
        place: SourcePosition | None = what.places[min(what.places)].before
    else:
        place = what.place if isinstance(what, ReaderPosition | Ended) else None
    # The position before a transaction already has the transaction's time; without a time, it is the same for all
    # readers.
    return None if place is None else replace(place, committed_at=0)
