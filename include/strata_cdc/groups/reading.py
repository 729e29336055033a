"""Reads a group: what its sources send goes into the group's state, and what is due of it is yielded, with the group's
position after it.
Not here: what the state is (`state.py`), what comes (`apply_arrivals.py`), lines and events (`rendering.py`)."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from strata_cdc.groups.apply_arrivals import apply_arrival
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.begin_sources import begin_first
from strata_cdc.groups.chunks import SwitchoverChunk
from strata_cdc.groups.sources import GroupSources

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from strata_cdc.groups.chunks import GroupSwitchover, SpanTransactions
    from strata_cdc.groups.merged import MergedTransactions
    from strata_cdc.groups.rendering import GroupHeartbeat
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.groups.state import GroupState

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
    sources = GroupSources(request)
    try:
        begin_first(state, sources)
        while not stop() and not state.merge.is_over:
            for source, what in sources.receive(pause):
                apply_arrival(state, sources, source, what)
            if (yield from batches_of(state)):
                last_heartbeat = time.monotonic()
            state.look()
            sources.go_on(state.paused())
            if time.monotonic() - last_heartbeat >= pause and state.is_placed:
                yield state.heartbeat()
                last_heartbeat = time.monotonic()
    finally:
        sources.close()


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
