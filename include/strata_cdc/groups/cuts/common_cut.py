"""The common cut of a group: for each source, the position at which its tables can be read together with those of the
other sources.
Not here: reading them there (`read_mirrors.py`), how far the sources are (`groups/status.py`).

An interval of a group is published when every source has published it. A cut has only whole intervals: if a change is
in it, all earlier changes of its source are in it, too. The intervals of the sources may end at different times,
because some sources were run by hand. Then the cut uses the newest time such that it has everything that the sources
have from before that time. This depends on the servers' clocks; `measured_clocks.py` checks whether they were right.
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
from strata_cdc.groups.cuts.measured_clocks import CutPosition, clock_doubts
from strata_cdc.groups.status import group_status
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.executed import parse_executed
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
    from strata_cdc.groups.status import GroupStatus, MemberStatus

_LOGGED: Final = (
    "MariaDB logs no times of commits: the cut has what was logged with a time before that of the cut, as the group's "
    "stream has it"
)
_MOST_TRIED: Final = 1000
"""How many of the newest ends of intervals are tried as the time of a cut."""


class SourceCut(Struct, frozen=True):
    """The position of a cut in one source."""

    source: str
    seq: int
    """Ordinal of the last transaction that is in the cut; 0: no transaction is."""
    gtid_executed: str
    until: int
    """End of the last interval that is in the cut: microseconds UTC, by the source's own clock."""
    lineage: str = ""
    lacking: tuple[str, ...] = ()
    """Tables that are not complete in the cut: something of them failed, or is blocked (the state `held`)."""
    is_behind: bool = False
    """Whether something that was committed before the cut's time is not in the cut, but in the next interval."""
    clock_doubt: str = ""
    """Why it is not known whether its server's clock was right around the cut; empty: it was measured to be right."""


class Cut(Struct, frozen=True):
    """A cut of all sources of a group."""

    group: str
    time: int
    """Everything that was committed before this time and is published is in the cut, except what `is_behind` reports:
    microseconds UTC, in the group's time."""
    sources: tuple[SourceCut, ...]

    @property
    def token(self) -> Token:
        """The cut as an event token, which `strata_cdc.mirrors.open` takes as `at`."""
        return Token(
            tuple(
                SourcePosition(source.source, parse_executed(source.gtid_executed), source.lineage, source.until)
                for source in self.sources
            )
        )

    @property
    def behind(self) -> tuple[str, ...]:
        """Sources of which the cut has less than of the others: no time is the end of an interval on all sources."""
        return tuple(source.source for source in self.sources if source.is_behind)

    @property
    def is_common(self) -> bool | None:
        """Whether the cut has exactly what was committed before its time, on every source. None: not known, because the
        clocks of some servers were not measured to agree around the cut."""
        if self.behind:
            return False
        return None if any(source.clock_doubt for source in self.sources) else True

    def position_of(self, source: str) -> SourceCut:
        """Returns the position of the cut in a source."""
        return next(cut for cut in self.sources if cut.source == source)

    def to_json(self) -> dict[str, Any]:
        """Returns the cut as plain values."""
        return {
            "group": self.group,
            "time": from_micros(self.time).isoformat(),
            "token": to_text(self.token),
            "is_common": self.is_common,
            "sources": [
                {
                    "source": source.source,
                    "seq": source.seq,
                    "gtid_executed": source.gtid_executed,
                    "until": from_micros(source.until).isoformat() if source.until else None,
                    "lacking": list(source.lacking),
                    "is_behind": source.is_behind,
                    "clock_doubt": source.clock_doubt or None,
                }
                for source in self.sources
            ],
        }


def common_cut(group: Group, *, now: int, at: int | None = None) -> Cut:
    """Finds the newest cut of a group, or the newest that is not after a time.

    Args:
        now: The present time, microseconds UTC.
        at: The time, microseconds UTC, in the group's time.

    Raises:
        MirrorBehindError: A source has no published interval yet; the message names it.
        StrataError: A store or the lake does not answer.
    """
    return cut_of(group, group_status(group, now=now), at)


def cut_of(group: Group, status: GroupStatus, at: int | None = None) -> Cut:
    """Finds the same if the state of the group is already known. Raises the same errors as `common_cut`."""
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
        sources = [_Intervals(source, engines[source.name], status.state_of(source.name)) for source in group.sources]
        time = _common_time(sources, ends[holder] if at is None else min(at, ends[holder]))
        cuts = [intervals.cut(time) for intervals in sources]
        positions = {
            cut.source: intervals.position_at(cut.seq, time) for cut, intervals in zip(cuts, sources, strict=True)
        }
        logged = [member.source for member in status.members if not member.proves_idleness]
        doubts = clock_doubts(
            {name: position for name, position in positions.items() if name not in logged}, group.clock_bound
        )
        doubts |= dict.fromkeys(logged, _LOGGED)
        return Cut(group.name, time, tuple(replace(cut, clock_doubt=doubts.get(cut.source, "")) for cut in cuts))
    finally:
        for engine in engines.values():
            engine.dispose()


def _amount(member: MemberStatus) -> int:
    """How far a source's clock is past the group's, as far as it is known (microseconds)."""
    return round((member.clock_correction_seconds or 0) * 1e6)


def _published(engine: sa.Engine, source: str, status: GroupStatus) -> int:
    """The time up to which nothing of a source is pending, in the group's time."""
    member = status.state_of(source)
    pending = TableIntervalLedger(engine).select(source, [IntervalState.PENDING])
    if not pending:
        return member.until
    return min(member.until, min(interval.start for interval in pending) - _amount(member))


class _Intervals:
    """The intervals of one source; times are the group's."""

    def __init__(self, source: Source, engine: sa.Engine, member: MemberStatus) -> None:
        self._source, self._engine, self._amount = source, engine, _amount(member)
        self._has_commit_times = member.proves_idleness
        self._all = sorted(IntervalLedger(engine).all(source.name), key=lambda interval: interval.end)
        self.ends = [interval.end - self._amount for interval in self._all]

    def is_whole(self, time: int) -> bool:
        """Whether everything that was committed before a time is in intervals that end at or before that time."""
        count = bisect_right(self.ends, time)
        # A change whose time is the end of an interval, and that came later, belongs to the next interval (decision 2).
        if count and self.ends[count - 1] == time and self._has_commit_times:
            return True
        first = self._all[count - 1].last_seq + 1 if count else self._landed.first_seq
        if first > self._landed.last_seq:
            # Without commit times, what comes next may be before the end of the interval.
            return self._has_commit_times or self._landed.clock - self._amount >= time
        # The time of what has been deleted since is no longer known.
        is_here = first >= self._landed.first_seq
        return is_here and self._landed.record_at(first)[1].committed_at - self._amount >= time

    def cut(self, time: int) -> SourceCut:
        """Returns the position of a cut at a time."""
        name, count = self._source.name, bisect_right(self.ends, time)
        is_behind = not self.is_whole(time)
        if not count:
            return SourceCut(name, 0, "", 0, self._source.lineage, is_behind=is_behind)
        last = self._all[count - 1]
        failed = TableIntervalLedger(self._engine).select(
            name, [state for state in UNPUBLISHED if state is not IntervalState.UNWANTED], starts=(None, last.end)
        )
        lacking = tuple(sorted({interval.name for interval in failed}))
        return SourceCut(name, last.last_seq, last.gtid_executed, last.end, self._source.lineage, lacking, is_behind)

    def position_at(self, seq: int, time: int) -> CutPosition:
        """Returns the position by the source's own clock: the ordinal of the last transaction that is in the cut, and
        the time."""
        return CutPosition(self._source, self._landed, seq, time + self._amount, self._amount)

    @cached_property
    def _landed(self) -> LandedStream:
        return LandedStream.open(self._source.lake, self._source.name)


def _common_time(sources: Sequence[_Intervals], limit: int) -> int:
    """The newest time, up to a limit, for which every source is whole (`is_whole`); the limit itself if none of the
    newest ends is such a time."""
    ends = heapq.nlargest(_MOST_TRIED, {end for source in sources for end in source.ends if end < limit})
    return next((time for time in (limit, *ends) if all(source.is_whole(time) for source in sources)), limit)
