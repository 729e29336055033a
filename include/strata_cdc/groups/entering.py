"""New sources of a hop that begin at a time: where that is their first transaction tells, and until it has come of all
of them, what has come of the others waits. Not here: what a hop is (`hops.py`), the stream (`stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.groups.readers import Ended, ReaderPosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.readers import FromReader


class Entered(Struct):
    """A hop whose new sources are looking for their places."""

    hop: Hop
    places: dict[str, SourcePosition] = field(default_factory=dict)
    """By source; those that are known."""
    kept: list[tuple[str, FromReader]] = field(default_factory=list)
    """What has come of the sources, in order."""


class Entering:
    """The hops of one group that are under way."""

    def __init__(self) -> None:
        """Begins with none."""
        self._by_source: dict[str, Entered] = {}

    def add(self, hop: Hop) -> None:
        """Waits for the new sources of a hop."""
        self._by_source.update(dict.fromkeys(hop.new, Entered(hop)))

    @property
    def placed(self) -> set[str]:
        """Sources that are not to be read further until the others of their hop have come."""
        return {source for source, found in self._by_source.items() if source in found.places}

    def keep(self, source: str, what: FromReader, lineage: str) -> Entered | None:
        """Takes what has come of a source.

        Args:
            source: The source.
            what: A span, a position, or the end of its stream.
            lineage: Of the source.

        Returns:
            The hop if it can be given now. The source is one that `waits_for` names.
        """
        found = self._by_source[source]
        found.kept.append((source, what))
        if source not in found.places:
            found.places[source] = _place_of(what) or SourcePosition(source, GtidSet(), lineage)
        if not found.hop.new.keys() <= found.places.keys():
            return None
        for name in found.hop.new:
            del self._by_source[name]
        return found

    def waits_for(self, source: str, what: FromReader) -> bool:
        """Whether something of a source is to be kept."""
        is_fault = isinstance(what, Ended) and what.error is not None
        return source in self._by_source and isinstance(what, StreamBatch | ReaderPosition | Ended) and not is_fault


def _place_of(what: FromReader) -> SourcePosition | None:
    if isinstance(what, StreamBatch):
        place: SourcePosition | None = what.places[min(what.places)].before
    else:
        place = what.place if isinstance(what, ReaderPosition | Ended) else None
    # The place in front of a transaction has its time already; a position is the same for each reader without a time.
    return None if place is None else replace(place, committed_at=0)
