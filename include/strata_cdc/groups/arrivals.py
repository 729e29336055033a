"""Sorts what has come from a group's sources: keeps back the sources of a switchover whose positions are not known yet,
cuts spans into transactions, excludes copies.
Not here: reading the sources (`readers.py`), what happens with what arrives (`reading.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.errors import SettingsError
from strata_cdc.groups.chunks import SpanTransactions
from strata_cdc.groups.copy_filter import CopyFilter
from strata_cdc.groups.duplicates import SeenTransactions
from strata_cdc.groups.readers import EndOfStream, ReaderPosition
from strata_cdc.position.executed import NOTHING
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.protocol.server_clocks import Clocks
    from strata_cdc.groups.membership import Membership
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.groups.switchovers import Switchover


class PlacedSwitchover(Struct, frozen=True):
    """The positions of all new sources of a switchover are known."""

    switchover: Switchover
    positions: list[SourcePosition]


Arrival = tuple[str, "SpanTransactions | PlacedSwitchover | FromReader"]
"""A source, and what has come from it; of a span, its transactions."""


class Arrivals:
    """The arrivals of one group."""

    def __init__(self, request: GroupRequest, membership: Membership, clocks: Clocks) -> None:
        """Nothing has come yet."""
        self._sources = request.sources
        self.pending = PendingSwitchovers()
        self.copies = CopyFilter(membership, clocks, request.group.source_gtid_column)
        self._seen = SeenTransactions(request.group.name)

    def sorted_out(self, source: str, what: FromReader) -> Iterator[Arrival]:
        """Takes what a reader has sent; yields what has arrived with it.

        Raises:
            StrataError: As `CopyFilter.add_span`.
        """
        if not self.pending.waits_for(source, what):
            yield from self._arrived(source, what)
            return
        complete = self.pending.keep(source, what, self._sources[source].lineage)
        if complete is not None:
            yield (
                source,
                PlacedSwitchover(
                    complete.switchover, [complete.positions[name] for name in sorted(complete.switchover.new)]
                ),
            )
            for name, kept in complete.kept:
                yield from self._arrived(name, kept)

    def _arrived(self, source: str, what: FromReader) -> Iterator[Arrival]:
        if not isinstance(what, StreamBatch):
            yield source, what
            return
        for span in self.copies.add_span(source, what):
            chunk = SpanTransactions(span)
            self.copies.sort_out(source, chunk)
            if not len(chunk):
                continue
            try:
                self._seen.note(source, chunk)
            except SettingsError as error:
                yield source, EndOfStream(None, error)
                return
            yield source, chunk


class PendingSwitchover(Struct):
    """A switchover for whose new sources positions are still missing."""

    switchover: Switchover
    positions: dict[str, SourcePosition] = field(default_factory=dict)
    """The known positions, by source."""
    kept: list[tuple[str, FromReader]] = field(default_factory=list)
    """What has come from the sources, in order."""


class PendingSwitchovers:
    """The switchovers of one group that are in progress. The first transaction of each new source shows its position;
    until it has come from all of them, what has come from the others waits."""

    def __init__(self) -> None:
        """Begins without switchovers."""
        self._by_source: dict[str, PendingSwitchover] = {}

    def add(self, switchover: Switchover) -> None:
        """Waits for the new sources of a switchover."""
        self._by_source.update(dict.fromkeys(switchover.new, PendingSwitchover(switchover)))

    @property
    def placed(self) -> set[str]:
        """Sources that must not be read further until the other sources of their switchover have come."""
        return {source for source, pending in self._by_source.items() if source in pending.positions}

    def keep(self, source: str, what: FromReader, lineage: str) -> PendingSwitchover | None:
        """Takes what has come from a source, for which `waits_for` is true.

        Args:
            what: A span, a position, or the end of its stream.
            lineage: Lineage of the source.

        Returns:
            The switchover, if the positions of all its new sources are now known.
        """
        pending = self._by_source[source]
        pending.kept.append((source, what))
        if source not in pending.positions:
            pending.positions[source] = _position_of(what) or SourcePosition(source, NOTHING, lineage)
        if not pending.switchover.new.keys() <= pending.positions.keys():
            return None
        for name in pending.switchover.new:
            del self._by_source[name]
        return pending

    def waits_for(self, source: str, what: FromReader) -> bool:
        """Whether what has come from a source must be kept."""
        is_fault = isinstance(what, EndOfStream) and what.error is not None
        return (
            source in self._by_source and isinstance(what, StreamBatch | ReaderPosition | EndOfStream) and not is_fault
        )


def _position_of(what: FromReader) -> SourcePosition | None:
    if isinstance(what, StreamBatch):
        position: SourcePosition | None = what.transactions[min(what.transactions)].before
    else:
        position = what.position if isinstance(what, ReaderPosition | EndOfStream) else None
    # The position before a transaction already has the transaction's time; without a time, it is the same for all
    # readers.
    return None if position is None else replace(position, committed_at=0)
