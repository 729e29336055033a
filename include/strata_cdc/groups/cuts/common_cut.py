"""The common cut of a group: for each source the position up to which its tables are read together with the others'.
Not here: reading them there (`read_mirrors.py`), how far the sources are (`groups/status.py`).

An interval of a group is published when it is so on every source. A cut takes whole intervals: if a change is in it,
all earlier ones of its source are. Where the intervals of the sources end at other times, since some were run by hand,
the cut goes back to the newest time before which no source has anything that is not in it. That is so by the servers'
clocks; whether these were right is known where they were measured (`measured_clocks.py`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.clock import from_micros
from strata_cdc.errors import MirrorBehindError
from strata_cdc.groups.cuts.measured_clocks import CutPlace, clock_doubts
from strata_cdc.groups.status import group_status
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.table_intervals import UNPUBLISHED, IntervalState, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Group, Source
    from strata_cdc.groups.status import GroupStatus

_MOST_TRIED: Final = 1000
"""Ends of intervals that may be the time of a cut."""


class SourceCut(Struct, frozen=True):
    """Where a cut goes through one source."""

    source: str
    seq: int
    """Ordinal of the last transaction that is in it; 0: none is."""
    gtid_executed: str
    until: int
    """End of the last interval that is in it: microseconds UTC, by the source's own clock."""
    lineage: str = ""
    lacking: tuple[str, ...] = ()
    """Tables of which something in it failed, or is blocked (held): they are not complete."""
    is_behind: bool = False
    """Whether something was committed before the cut's time that is not in it, but in the next interval."""
    clock_doubt: str = ""
    """Why it is not known that its server's clock was right around the cut; empty: it was measured to be."""


class Cut(Struct, frozen=True):
    """A cut through all sources of a group."""

    group: str
    time: int
    """All that was committed before it and is published is in it, except what `is_behind` reports: microseconds UTC, in
    the group's time."""
    sources: tuple[SourceCut, ...]

    @property
    def token(self) -> Token:
        """The cut as an event token, which `strata_cdc.mirrors.open` takes as `at`."""
        return Token(
            tuple(
                SourcePosition(one.source, GtidSet.parse(one.gtid_executed), one.lineage, one.until)
                for one in self.sources
            )
        )

    @property
    def behind(self) -> tuple[str, ...]:
        """Sources that the cut has less of than of the others: no time is the end of an interval of all."""
        return tuple(one.source for one in self.sources if one.is_behind)

    @property
    def is_common(self) -> bool | None:
        """Whether it has exactly what was committed before its time, on every source. None: it is not known, as some
        servers' clocks were not measured to agree when it was written."""
        if self.behind:
            return False
        return None if any(one.clock_doubt for one in self.sources) else True

    def of(self, source: str) -> SourceCut:
        """Where it goes through one of them."""
        return next(one for one in self.sources if one.source == source)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "group": self.group,
            "time": from_micros(self.time).isoformat(),
            "token": to_text(self.token),
            "is_common": self.is_common,
            "sources": [
                {
                    "source": one.source,
                    "seq": one.seq,
                    "gtid_executed": one.gtid_executed,
                    "until": from_micros(one.until).isoformat() if one.until else None,
                    "lacking": list(one.lacking),
                    "is_behind": one.is_behind,
                    "clock_doubt": one.clock_doubt or None,
                }
                for one in self.sources
            ],
        }


def common_cut(group: Group, *, now: int, at: int | None = None) -> Cut:
    """The newest cut through a group, or the newest that is not after a time.

    Args:
        group: The group.
        now: Microseconds UTC.
        at: The time, microseconds UTC, in the group's time.

    Raises:
        MirrorBehindError: A source has no published interval yet; the message names it.
        StrataError: A store or the lake does not answer.
    """
    return cut_of(group, group_status(group, now=now), at)


def cut_of(group: Group, status: GroupStatus, at: int | None = None) -> Cut:
    """The same if the state of the group is known already. Raises likewise."""
    engines = {source.name: open_store(source.store_url, OnMissing.EMPTY) for source in group.sources}
    try:
        ends = {name: _published(engine, name, status) for name, engine in engines.items()}
        holder = min(sorted(ends), key=lambda name: ends[name])
        if not ends[holder]:
            raise MirrorBehindError(
                f"the group {group.name} has no common cut yet: nothing of {holder} is published",
                source=holder,
                remedy=f"`strata run --source {holder}` publishes what has landed.",
            )
        sources = [_Intervals(source, engines[source.name], _amount(status, source.name)) for source in group.sources]
        time = _common_time(sources, ends[holder] if at is None else min(at, ends[holder]))
        cuts = [one.cut(time) for one in sources]
        places = {cut.source: one.place(cut.seq, time) for cut, one in zip(cuts, sources, strict=True)}
        doubts = clock_doubts(places, group.clock_bound)
        return Cut(group.name, time, tuple(replace(cut, clock_doubt=doubts.get(cut.source, "")) for cut in cuts))
    finally:
        for engine in engines.values():
            engine.dispose()


def _amount(status: GroupStatus, source: str) -> int:
    """How far a source's clock is later than the group's, as far as is known (microseconds)."""
    found = next(one for one in status.members if one.source == source)
    return round((found.clock_correction_seconds or 0) * 1e6)


def _published(engine: sa.Engine, source: str, status: GroupStatus) -> int:
    """Up to when nothing of a source is pending, in the group's time."""
    member = next(one for one in status.members if one.source == source)
    owed = TableIntervalLedger(engine).select(source, [IntervalState.OWED])
    if not owed:
        return member.until
    return min(member.until, min(piece.start for piece in owed) - _amount(status, source))


class _Intervals:
    """The intervals of one source; times are the group's."""

    def __init__(self, source: Source, engine: sa.Engine, amount: int) -> None:
        self._source, self._engine, self._amount = source, engine, amount
        self._all = sorted(IntervalLedger(engine).all(source.name), key=lambda one: one.end)
        self.ends = [one.end - amount for one in self._all]

    def is_whole(self, time: int) -> bool:
        """Whether all that was committed before a time is in intervals that end by then."""
        count = bisect_right(self.ends, time)
        # What has an interval's own time and came later belongs to the next one (decision 2).
        if count and self.ends[count - 1] == time:
            return True
        first = self._all[count - 1].last_seq + 1 if count else self._landed.first_seq
        if first > self._landed.last_seq:
            return True
        # What has been deleted since has no time any more.
        is_here = first >= self._landed.first_seq
        return is_here and self._landed.record_at(first)[1].committed_at - self._amount >= time

    def cut(self, time: int) -> SourceCut:
        """Where a cut at a time goes through it."""
        name, count = self._source.name, bisect_right(self.ends, time)
        is_behind = not self.is_whole(time)
        if not count:
            return SourceCut(name, 0, "", 0, self._source.lineage, is_behind=is_behind)
        last = self._all[count - 1]
        failed = TableIntervalLedger(self._engine).select(
            name, [state for state in UNPUBLISHED if state is not IntervalState.UNWANTED], starts=(None, last.end)
        )
        lacking = tuple(sorted({piece.name for piece in failed}))
        return SourceCut(name, last.last_seq, last.gtid_executed, last.end, self._source.lineage, lacking, is_behind)

    def place(self, seq: int, time: int) -> CutPlace:
        """The same by the source's own clock: ordinal of the last transaction that is in it, and the time."""
        return CutPlace(self._source, self._landed, seq, time + self._amount, self._amount)

    @cached_property
    def _landed(self) -> LandedStream:
        return LandedStream.open(self._source.lake, self._source.name)


def _common_time(sources: Sequence[_Intervals], limit: int) -> int:
    """The newest time, up to a limit, before which no source has anything that is not in its intervals that end by
    then; the limit itself if none of the newest ends is such a time."""
    ends = heapq.nlargest(_MOST_TRIED, {end for one in sources for end in one.ends if end < limit})
    return next((time for time in (limit, *ends) if all(one.is_whole(time) for one in sources)), limit)
