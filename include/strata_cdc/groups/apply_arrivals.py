"""What comes from a group's sources goes into the group's state: transactions into the merge, positions and times into
what is proved.
Not here: the sources (`sources.py`), what is due of the state (`reading.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strata_cdc.groups.arrivals import PlacedSwitchover
from strata_cdc.groups.begin_sources import switch_over
from strata_cdc.groups.chunks import SpanTransactions
from strata_cdc.groups.logged_times import error_ahead, refuse_ahead
from strata_cdc.groups.readers import Ended, Proof, ReaderPosition, Unreachable
from strata_cdc.position.executed import has_commit_times
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.server_clocks import ServerMoment
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.sources import GroupSources
    from strata_cdc.groups.state import GroupState
    from strata_cdc.position.source_position import SourcePosition


def apply_arrival(state: GroupState, sources: GroupSources, source: str, what: FromReader) -> None:
    """Puts what a reader has sent into the state, and all that is known with it; nothing if its source has failed."""
    if source in state.failed:
        return
    if isinstance(what, StreamBatch):
        state.watch.answers(source)
    for name, arrived in sources.arrivals.sorted_out(source, what):
        if name not in state.failed:
            _apply(state, sources, name, arrived)


def _apply(
    state: GroupState, sources: GroupSources, source: str, what: SpanTransactions | PlacedSwitchover | FromReader
) -> None:
    if isinstance(what, SpanTransactions):
        _add(state, sources, source, what)
    elif isinstance(what, PlacedSwitchover):
        state.add_switchover(what.switchover, sources.request.membership.number(what.switchover), what.positions)
    elif isinstance(what, ReaderPosition):
        _note_position(state, sources, what.position)
    elif isinstance(what, Ended):
        _end(state, sources, source, what)
    elif isinstance(what, Proof):
        _note_answer(state, sources, source, what.moment)
    elif isinstance(what, Unreachable):
        state.watch.is_gone(source, what.error, time.time())


def _add(state: GroupState, sources: GroupSources, source: str, chunk: SpanTransactions) -> None:
    times = sources.clocks.translate(source, chunk.times)
    if not chunk.has_commit_times and sources.request.bounds.asks_servers:
        error = refuse_ahead(chunk, times, sources.latest)
        if error is not None:
            state.failed[source] = error.located(source=source)
        times = times[: len(chunk)]
        state.watch.look_ahead(source, times, sources.clocks.now())
    if len(chunk):
        state.progress = state.progress.with_begin(source, chunk.transaction(0).before)
        state.merge.arrive(source, times, chunk)


def _end(state: GroupState, sources: GroupSources, source: str, end: Ended) -> None:
    if end.position is not None:
        _note_position(state, sources, end.position)
    if end.error is not None:
        state.failed[source] = end.error
        return
    state.last_commits[source] = end.last_commit
    switchover = sources.request.membership.ended(source, end.position or state.progress.position.positions.get(source))
    if switchover is not None:
        switch_over(state, sources, switchover)
    state.merge.finish(source)


def _note_answer(state: GroupState, sources: GroupSources, source: str, moment: ServerMoment) -> None:
    sources.clocks.note(source, moment)
    state.watch.answers(source)
    if moment.proves_idleness:
        state.merge.prove(source, sources.clocks.in_group(source, moment.clock))
    else:
        state.watch.waits_for_next(source)


def _note_position(state: GroupState, sources: GroupSources, position: SourcePosition) -> None:
    """Notes how far a source was read, if nothing of it waits."""
    source = position.source
    waits = state.merge.has_waiting(source) or sources.arrivals.copies.is_holding(source)
    if waits or source in state.progress.hidden:
        return
    reached, has_times = sources.clocks.in_group(source, position.committed_at), has_commit_times(position.position)
    if not has_times and sources.request.bounds.asks_servers and reached > sources.latest:
        state.failed[source] = error_ahead(reached).located(source=source)
    # Without commit times, nothing that comes is before the largest time so far. With them, the commit clock of the
    # stream is in the future for a while if a server's clock has been set back.
    elif not has_times or reached <= sources.clocks.now():
        state.merge.prove(source, reached)
    state.progress = state.progress.with_position(position)
