"""The sources that a group has at a moment of its stream: switchovers let new sources take over when others end.
Not here: what a journal contains (`switchovers.py`), reading (`stream.py`)."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.server_clocks import Server
from strata_cdc.errors import SourceDivergedError, StrataError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import NOTHING, is_executed
from strata_cdc.position.source_position import SourcePosition, kept_origins
from strata_cdc.streams.positions import Edge

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.groups.switchovers import Switchover
    from strata_cdc.position.port import Executed


class Membership:
    """Which sources are read at a moment. Each switchover begins an epoch; epochs are counted from 1."""

    def __init__(
        self, switchovers: Sequence[Switchover], sources: Mapping[str, Source], current: Collection[str]
    ) -> None:
        """Begins before all switchovers; `begin_past` moves on.

        Args:
            switchovers: The switchovers, in order.
            sources: All sources that may be read, by name.
            current: Names of the sources that the group has after all switchovers.
        """
        self._switchovers, self._sources = list(switchovers), sources
        left = {source for switchover in switchovers for source in switchover.old}
        entered = {source for switchover in switchovers for source in switchover.new}
        self.active = sorted((set(current) | left) - entered)
        self._done: set[str] = set()
        self._ended: dict[str, Executed] = {}
        """By source that has ended: what it had executed."""
        self._last: Collection[str] | None = None

    def begin_past(self, positions: Mapping[str, SourcePosition]) -> None:
        """Passes the switchovers whose new sources a token names.

        Args:
            positions: The positions of the token, by source.
        """
        for switchover in self._switchovers:
            if switchover.new.keys() <= positions.keys():
                self._pass(switchover)
                ends = {name: positions[name].position for name in switchover.old if name in positions}
                self._ended.update({name: end for name, end in ends.items() if is_executed(end)})

    def end_with(self, named: Collection[str]) -> None:
        """Uses no switchover whose new sources the last token does not name."""
        self._last = named

    def pass_all(self) -> None:
        """Passes all switchovers."""
        for switchover in self._switchovers:
            self._pass(switchover)

    @property
    def has_passed_all(self) -> bool:
        """Whether no switchover is to come."""
        return len(self._done) == len(self._switchovers)

    @property
    def names(self) -> set[str]:
        """All sources that are read now, were read, or will be read."""
        return set(self.active).union(*((*switchover.old, *switchover.new) for switchover in self._switchovers))

    def switchover_to(self, source: str) -> Switchover | None:
        """Returns the switchover with which a source came; None for a first source."""
        return next((switchover for switchover in self._switchovers if source in switchover.new), None)

    def epoch(self, source: str) -> int:
        """Returns the number of that switchover, from 1; 0 for a first source."""
        switchover = self.switchover_to(source)
        return 0 if switchover is None else self.number(switchover)

    def end(self, source: str) -> Executed | Edge | None:
        """Returns the position of a source after which nothing of it is wanted; None: everything is wanted."""
        switchover = self._switchover_from(source)
        if switchover is None:
            return None
        position = switchover.old[source]
        return Edge.LANDED if position is None else position

    def copied(self, source: str) -> Executed:
        """Returns the transactions that came from the sources before this one."""
        switchover = self.switchover_to(source)
        if switchover is None:
            return NOTHING
        return reduce(or_, (self._ended[name] for name in switchover.old if name in self._ended), switchover.copied)

    def ended(self, source: str, end: SourcePosition | None) -> Switchover | None:
        """Notes that a source has ended; returns the switchover that is now due: all of its old sources have reached
        their positions."""
        switchover = self._switchover_from(source)
        if switchover is None or switchover.name in self._done:
            return None
        # A source of which nothing has ever landed has no position.
        position = end.position if end else NOTHING
        if not is_executed(position) or not (switchover.old[source] or NOTHING) <= position:
            return None
        self._ended[source] = position
        is_last = self._last is not None and not switchover.new.keys() <= set(self._last)
        if is_last or not switchover.old.keys() <= self._ended.keys():
            return None
        self._pass(switchover)
        return switchover

    def position_of(self, source: str) -> SourcePosition | None:
        """Returns the position of a new source when it takes over; None: only the time is known."""
        switchover = self.switchover_to(source)
        position = None if switchover is None else switchover.new[source]
        if position is None:
            return None
        origins = kept_origins(self.copied_from(source), position)
        return SourcePosition(source, position, self._sources[source].lineage, origins=origins)

    def copied_from(self, source: str) -> Mapping[str, str]:
        """Returns the sources whose transactions a source has as copies, with their GTIDs; and their lineages. These
        are the sources of its settings; and of the sources from which it takes over, those with transactions that it
        also had when it took over."""
        lineages, switchover = dict(self._sources[source].copied_from), self.switchover_to(source)
        has = None if switchover is None else switchover.new[source]
        for name, end in switchover.old.items() if switchover and has else ():
            if end is not None and has is not None and end & has:
                lineages.setdefault(name, self._sources[name].lineage)
        return lineages

    def number(self, switchover: Switchover) -> int:
        """Returns the epoch that a switchover begins, from 1."""
        return self._switchovers.index(switchover) + 1

    def refuse_unknown(self) -> None:
        """Checks that the positions of the coming switchovers exist in the lake or on the server.

        Raises:
            SourceDivergedError: Neither the lake nor the server has a position.
        """
        for switchover in self._switchovers:
            positions = {} if switchover.name in self._done else {**switchover.old, **switchover.new}
            for name, position in positions.items():
                if position is not None:
                    self._refuse(switchover, self._sources[name], position)

    def _refuse(self, switchover: Switchover, source: Source, position: Executed) -> None:
        landed = LandedStream.open(source.lake, source.name)
        lost = position - landed.executed() if landed.segments else position
        if not lost:
            return
        server = Server(source.address)
        try:
            lost = position - server.ask().executed
        except StrataError as error:
            raise error.located(source=source.name) from None
        finally:
            server.close()
        if lost:
            raise SourceDivergedError(
                f"the hop {switchover.name!r} names a position that nobody has",
                source=source.name,
                gtid=str(lost),
                remedy="Take `SELECT @@GLOBAL.gtid_executed` of the server when nobody writes to it any more.",
            )

    def _switchover_from(self, source: str) -> Switchover | None:
        return next((switchover for switchover in self._switchovers if source in switchover.old), None)

    def _pass(self, switchover: Switchover) -> None:
        if switchover.name in self._done:
            return
        self._done.add(switchover.name)
        self.active = sorted((set(self.active) - switchover.old.keys()) | switchover.new.keys())
