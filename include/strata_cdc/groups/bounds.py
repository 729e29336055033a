"""Where the sources of a group begin and end: what people write, applied to each source.
Not here: what it means for one source (`streams/positions.py`)."""

from __future__ import annotations

import logging
import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

from strata_cdc.clock import from_micros, to_micros
from strata_cdc.errors import BinlogPurgedError, StrataError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import NOTHING, has_commit_times, is_executed
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.live_handover import LiveServer
from strata_cdc.streams.positions import Edge, position_of
from strata_cdc.time_text import parse_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from strata_cdc.binlog.protocol.server_clocks import Clocks
    from strata_cdc.binlog.protocol.server_now import ServerNow
    from strata_cdc.config.settings import Source
    from strata_cdc.groups.membership import Membership
    from strata_cdc.position.port import Executed
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.positions import Bound, StreamStart

_LOG: Final = logging.getLogger("strata.group")
_TOKEN = re.compile(r"\s*v\d+\.")
_TIME = re.compile(r"\s*\d{4}-\d\d-\d\d([T ].*)?")


class GroupBounds:
    """Where each source of a group begins and ends."""

    def __init__(
        self,
        group: str,
        membership: Membership,
        sources: Mapping[str, Source],
        start: str | Mapping[str, ServerNow],
        until: str | None,
    ) -> None:
        """Takes what the user wrote.

        Args:
            membership: The group's sources before all switchovers; it is moved to where the stream begins.
            sources: All sources that the group may have.
            start: Where to begin; or what servers reported at an earlier `now`: the other servers report it when their
                streams open.
            until: Where to end.

        Raises:
            Usage: The position means nothing for a group, or is a token that does not name all of its sources.
        """
        self._group, self._membership, self._sources = group, membership, sources
        self._reported: Mapping[str, ServerNow] = {} if isinstance(start, str) else start
        self._start = self._bound(start) if isinstance(start, str) else Edge.NOW
        if isinstance(self._start, Edge) and self._start is not Edge.BEGINNING:
            membership.pass_all()
        elif isinstance(self._start, dict):
            membership.begin_past(self._start)
            self._refuse_missing(self._start)
        self._until = self._bound(until) if until is not None else None
        if isinstance(self._until, dict):
            membership.end_with(self._until)
        self._times: dict[str, int | None] = {}
        for bound in (self._start, self._until):
            if isinstance(bound, datetime) and not membership.has_passed_all:
                raise Usage(
                    "a time does not say on which side of a hop it is",
                    remedy="Give a token of the group, `now` or `beginning`.",
                )

    @property
    def asks_servers(self) -> bool:
        """Whether the stream needs the servers, and not only what has landed."""
        return self._until is not Edge.LANDED

    def positions(self) -> Iterable[SourcePosition]:
        """The positions of a token: those of the sources that begin there, and those of the sources that have ended."""
        return self._start.values() if isinstance(self._start, dict) else ()

    def begin_at(self, times: Mapping[str, int | None]) -> None:
        """Lets new sources of a switchover begin at times, because no position of them is known.

        Args:
            times: By source, by its own clock (microseconds UTC): what is earlier is not wanted. None: the time is not
                known either, and everything that the source has is read.
        """
        self._times.update(times)
        unknown = sorted(source for source, time in times.items() if time is None)
        if unknown:
            _LOG.warning(
                "group %s: %s: no time says where to begin, since not all clocks are known: all that there is is read",
                self._group,
                ", ".join(unknown),
            )

    def of_source(self, source: str, clocks: Clocks) -> tuple[StreamStart, Bound | None]:
        """Returns where one source begins and ends; times are in the group's time.

        Raises:
            BinlogPurgedError: A new source of a switchover begins at a time, and what it had then may have been purged.
            StrataError: The lake or the server does not answer.
        """
        begin: StreamStart
        if source in self._reported:
            begin = self._reported[source]
        elif isinstance(self._start, dict) and source in self._start:
            begin = self._start[source]
        elif source in self._times:
            begin = self._begin_at_time(source, self._times[source])
        else:
            taken_over = self._membership.position_of(source)
            is_followed = isinstance(self._start, dict) or self._start is Edge.BEGINNING
            begin = taken_over if taken_over and is_followed else _in_its_time(self._edge(), source, clocks)
        return begin, self._end(source, clocks)

    def _begin_at_time(self, source: str, time: int | None) -> Bound:
        landed = LandedStream.open(self._sources[source].lake, source)
        earliest = _earliest(landed)
        gone = self._gone(landed, source)
        lost = gone - self._membership.copied(source)
        if lost and (time is None or earliest is None or time <= earliest):
            raise BinlogPurgedError(
                "it takes over from other sources at a time, since nobody knows its position, and what it had then may "
                "be gone: it is nowhere any more",
                source=source,
                gtid=str(lost),
                remedy="Give its position in the journal (docs/groups.md)."
                if landed.segments
                else f"Run `strata land --source {source}`, which finds out, or give its position in the journal "
                "(docs/groups.md).",
            )
        if gone and not landed.segments:
            oldest = LiveServer(self._sources[source].address).oldest()
            earliest = None if oldest is None else oldest.complete_from
        # What it has from before its first transaction came from the old sources.
        is_whole = time is None or time <= 0 or (earliest is not None and time <= earliest)
        return Edge.BEGINNING if is_whole or time is None else from_micros(time)

    def _gone(self, landed: LandedStream, source: str) -> Executed:
        """What a source has executed before its first transaction that is available."""
        if landed.segments:
            return landed.executed_before()
        if not self.asks_servers:
            return NOTHING
        try:
            return LiveServer(self._sources[source].address).state().purged
        except StrataError as error:
            raise error.located(source=source) from None

    def _end(self, source: str, clocks: Clocks) -> Bound | None:
        end = self._membership.end(source)
        if isinstance(self._until, dict):
            until = self._until.get(source)
            executed = until.executed() if until is not None else None
            is_earlier = executed is not None and (isinstance(end, Edge) or (end is not None and executed <= end))
            return until if end is None or is_earlier else end
        if end is not None or self._until is None:
            return end
        return _in_its_time(self._until, source, clocks)

    def least(self, source: str, clocks: Clocks) -> int:
        """Returns the least time of the group (microseconds UTC) at which a transaction of the source can come.

        Without commit times, the times of a source are those of its stream's commit clock, whatever a token has as its
        time: tokens that were merged or made by hand have another one, or none.
        """
        positions = self._start if isinstance(self._start, dict) else {}
        is_known = source in positions and has_commit_times(positions[source].position)
        begin = clocks.in_group(source, positions[source].committed_at) if is_known else 0
        switchover = self._membership.switchover_to(source)
        # After a switchover, the old sources have the time of the switchover (`SwitchoverChunk`).
        old = [positions[name] for name in (switchover.old if switchover else ()) if name in positions]
        ended = max((position.committed_at for position in old), default=0)
        return max(ended, begin if 0 < begin <= clocks.now() else 0)

    def _edge(self) -> Edge | datetime:
        """Where sources begin of which nothing else is known."""
        return Edge.BEGINNING if isinstance(self._start, dict) else self._start

    def _bound(self, text: str) -> Edge | datetime | dict[str, SourcePosition]:
        if text.strip() in {edge.value for edge in Edge}:
            return Edge(text.strip())
        if _TIME.fullmatch(text):
            return from_micros(parse_time(text))
        if _TOKEN.match(text):
            return self._of_token(text)
        raise Usage(
            f"{text!r} is no position of a group: it has none for each of its sources",
            remedy="Give a token of the group, a time, `now` or `beginning`.",
        )

    def _of_token(self, text: str) -> dict[str, SourcePosition]:
        token = from_text(text)
        others = sorted({position.source for position in token.positions} - self._membership.names)
        if others:
            raise Usage(
                f"the token names {', '.join(others)}, which the group {self._group} does not have",
                remedy="If it has left the group, begin with what `strata token without TOKEN "
                f"{' '.join(others)}` prints. If others took over from it, a journal says so: `strata docs groups`.",
            )
        positions = {
            position.source: position_of(token, position.source, self._sources[position.source].lineage)
            for position in token.positions
        }
        for name, position in positions.items():
            if not is_executed(position.position):
                raise Usage("a source of a group needs GTIDs", source=name, remedy="Set gtid_mode to ON.")
        return positions

    def _refuse_missing(self, sources: Collection[str]) -> None:
        missing = sorted(set(self._membership.active) - set(sources))
        if missing:
            raise Usage(
                f"the token says nothing of {', '.join(missing)}, which the group {self._group} has",
                source=missing[0],
                remedy=f"Take a token of it where it is to begin, as `strata stream --source {missing[0]} --from now "
                "--until now` prints, and merge the two: `strata token merge TOKEN TOKEN`.",
            )


def _earliest(landed: LandedStream) -> int | None:
    """The time of the first landed transaction (microseconds UTC): its own, or the stream's clock before it, if that is
    earlier; None: nothing has landed."""
    if landed.last_seq < landed.first_seq or not landed.segments:
        return None
    first = landed.record_at(landed.first_seq)[1].committed_at
    return min(landed.clock_at(landed.first_seq - 1) or first, first)


def _in_its_time(bound: Bound, source: str, clocks: Clocks) -> Bound:
    if not isinstance(bound, datetime):
        return bound
    return from_micros(clocks.in_server(source, to_micros(bound)))
