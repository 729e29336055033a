"""Reads a group: its sources begin, what they send goes into the group's state, and what is due of it is yielded, with
the group's position after it.
Not here: reading a source (`sources.py`), what the state is (`state.py`), when a switchover is due (`membership.py`),
lines and events (`rendering.py`)."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from strata_cdc.errors import BinlogPurgedError, SourceSettingsError
from strata_cdc.groups.arrivals import PlacedSwitchover
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.chunks import SpanTransactions, SwitchoverChunk
from strata_cdc.groups.logged_times import error_ahead, refuse_ahead
from strata_cdc.groups.readers import EndOfStream, Proof, ReaderPosition, Unreachable
from strata_cdc.groups.sources import GroupSources
from strata_cdc.position.executed import has_commit_times
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from strata_cdc.binlog.protocol.server_clocks import ServerMoment
    from strata_cdc.groups.chunks import GroupSwitchover
    from strata_cdc.groups.merged import MergedTransactions
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.rendering import GroupHeartbeat
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.groups.state import GroupState
    from strata_cdc.groups.switchovers import Switchover
    from strata_cdc.position.source_position import SourcePosition

_MOST_AT_ONCE: Final = 1 << 14
"""Most transactions that are yielded at once."""


def read_group(
    request: GroupRequest, state: GroupState, stop: Callable[[], bool]
) -> Iterator[GroupBatch | GroupSwitchover | GroupHeartbeat]:
    """Yields everything that there is for the reader, up to the end.

    Args:
        request: What the reader requests.
        state: The state before anything is read; it is brought up to what has been yielded.
        stop: Whether the reader wants nothing more.

    Raises:
        StrataError: An error of a source's stream. Everything before it has been yielded.
    """
    pause, last_heartbeat = request.heartbeat_seconds, time.monotonic()
    sources = GroupSources(request, state.membership, state.bounds)
    reading = _GroupReading(state, sources)
    try:
        reading.begin_first()
        while not stop() and not state.merge.is_over:
            for source, what in sources.receive(pause):
                reading.apply(source, what)
            if (yield from batches_of(state)):
                last_heartbeat = time.monotonic()
            state.look()
            sources.go_on(state.paused())
            if time.monotonic() - last_heartbeat >= pause and state.is_placed:
                yield state.heartbeat()
                last_heartbeat = time.monotonic()
    finally:
        sources.close()


class _GroupReading:
    """Puts what comes from the sources of a group into its state: transactions into the merge, positions and times into
    what is proved; and lets sources begin, the first of them and those that take over."""

    def __init__(self, state: GroupState, sources: GroupSources) -> None:
        self._state, self._sources = state, sources
        self._membership, self._bounds = state.membership, state.bounds

    # Sources begin --------------------------------------------------------------------------------

    def begin_first(self) -> None:
        """Begins to read the first sources."""
        active = list(self._membership.active)
        if self._bounds.asks_servers:
            self._membership.refuse_unknown()
            self._sources.measure(active)
        for name in active:
            least = self._bounds.least(name, self._sources.clocks)
            self._state.merge.add(name, epoch=self._membership.epoch(name), least=least)
            self._begin(name)

    def _switch_over(self, switchover: Switchover) -> None:
        """Lets the new sources of a switchover take over from the old sources, which have all reached their ends."""
        state, sources, number = self._state, self._sources, self._membership.number(switchover)
        new, least = sorted(switchover.new), max(state.merge.newest(name) for name in switchover.old)
        if self._bounds.asks_servers:
            sources.measure(new)
        for name in new:
            state.merge.add(name, epoch=number, least=least)
        state.progress = state.progress.hiding(new)
        if switchover.is_by_time:
            # A copy is later than its original. Compared by the sources' own times: those of the merge never go back.
            ends = {name: state.last_commits.get(name, 0) for name in switchover.old}
            self._bounds.begin_at({name: sources.clocks.earliest(name, ends) for name in new})
            sources.arrivals.pending.add(switchover)
        else:
            positions = [position for name in new if (position := self._membership.position_of(name))]
            state.add_switchover(switchover, number, positions)
        try:
            for name in new:
                self._begin(name)
        except (BinlogPurgedError, SourceSettingsError) as error:
            # What the old sources have is yielded first.
            state.failed.update(dict.fromkeys(new, error))

    def _begin(self, name: str) -> None:
        self._sources.begin(name)
        self._state.begun.add(name)

    # What comes -----------------------------------------------------------------------------------

    def apply(self, source: str, what: FromReader) -> None:
        """Puts what a reader has sent into the state, and all that is known with it; nothing if its source has
        failed."""
        if source in self._state.failed:
            return
        if isinstance(what, StreamBatch):
            self._state.watch.answers(source)
        for name, arrived in self._sources.arrivals.sorted_out(source, what):
            if name not in self._state.failed:
                self._apply_arrived(name, arrived)

    def _apply_arrived(self, source: str, what: SpanTransactions | PlacedSwitchover | FromReader) -> None:
        if isinstance(what, SpanTransactions):
            self._add(source, what)
        elif isinstance(what, PlacedSwitchover):
            self._state.add_switchover(what.switchover, self._membership.number(what.switchover), what.positions)
        elif isinstance(what, ReaderPosition):
            self._note_position(what.position)
        elif isinstance(what, EndOfStream):
            self._end(source, what)
        elif isinstance(what, Proof):
            self._note_answer(source, what.moment)
        elif isinstance(what, Unreachable):
            self._state.watch.is_gone(source, what.error, time.time())

    def _add(self, source: str, chunk: SpanTransactions) -> None:
        state, clocks = self._state, self._sources.clocks
        times = clocks.translate(source, chunk.times)
        if not chunk.has_commit_times and self._bounds.asks_servers:
            error = refuse_ahead(chunk, times, self._sources.latest)
            if error is not None:
                state.failed[source] = error.located(source=source)
            times = times[: len(chunk)]
            state.watch.look_ahead(source, times, clocks.now())
        if len(chunk):
            state.progress = state.progress.with_begin(source, chunk.transaction(0).before)
            state.merge.arrive(source, times, chunk)

    def _end(self, source: str, end: EndOfStream) -> None:
        state = self._state
        if end.position is not None:
            self._note_position(end.position)
        if end.error is not None:
            state.failed[source] = end.error
            return
        state.last_commits[source] = end.last_commit
        switchover = self._membership.ended(source, end.position or state.progress.position.positions.get(source))
        if switchover is not None:
            self._switch_over(switchover)
        state.merge.finish(source)

    def _note_answer(self, source: str, moment: ServerMoment) -> None:
        clocks, state = self._sources.clocks, self._state
        clocks.note(source, moment)
        state.watch.answers(source)
        if moment.proves_idleness:
            state.merge.prove(source, clocks.in_group(source, moment.clock))
        else:
            state.watch.waits_for_next(source)

    def _note_position(self, position: SourcePosition) -> None:
        """Notes how far a source was read, if nothing of it waits."""
        source, state, sources = position.source, self._state, self._sources
        waits = state.merge.has_waiting(source) or sources.arrivals.copies.is_holding(source)
        if waits or source in state.progress.hidden:
            return
        reached = sources.clocks.in_group(source, position.committed_at)
        has_times = has_commit_times(position.position)
        if not has_times and self._bounds.asks_servers and reached > sources.latest:
            state.failed[source] = error_ahead(reached).located(source=source)
        # Without commit times, nothing that comes is before the largest time so far. With them, the commit clock of the
        # stream is in the future for a while if a server's clock has been set back.
        elif not has_times or reached <= sources.clocks.now():
            state.merge.prove(source, reached)
        state.progress = state.progress.with_position(position)


def batches_of(state: GroupState) -> Generator[GroupBatch | GroupSwitchover, None, bool]:
    """Yields what is due, several transactions at a time; a switchover is yielded alone. The state's position is then
    after it. Returns whether there was something."""
    due = state.merge.due()
    for begin, end in pairwise(_borders(due)):
        some = due.between(begin, end)
        first = some.parts[0].chunk
        if isinstance(first, SwitchoverChunk):
            switchover = first.event(state.progress.position)
            state.progress = state.progress.after_switchover(switchover)
            yield switchover
        else:
            batch = GroupBatch(cast("MergedTransactions[SpanTransactions]", some), state.progress.position)
            state.progress = state.progress.after(batch.end)
            state.unreadable_rows += sum(part.chunk.count_unreadable(part.begin, part.end) for part in batch.due.parts)
            yield batch
    return len(due) > 0


def _borders(due: MergedTransactions[SpanTransactions | SwitchoverChunk]) -> list[int]:
    """The ordinals at which what is due is cut."""
    borders = {*range(0, len(due), _MOST_AT_ONCE), len(due)}
    for part, ranks in zip(due.parts, due.ranks, strict=True):
        if isinstance(part.chunk, SwitchoverChunk):
            borders |= {int(ranks[0]), int(ranks[0]) + 1}
    return sorted(borders)
