"""Lets sources of a group begin, and notes it in the group's state: the first sources, and those that take over.
Not here: reading a source (`sources.py`), when a switchover is due (`membership.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import BinlogPurgedError, SourceSettingsError

if TYPE_CHECKING:
    from strata_cdc.groups.sources import GroupSources
    from strata_cdc.groups.state import GroupState
    from strata_cdc.groups.switchovers import Switchover


def begin_first(state: GroupState, sources: GroupSources) -> None:
    """Begins to read the first sources."""
    membership, bounds = sources.request.membership, sources.request.bounds
    if bounds.asks_servers:
        membership.refuse_unknown()
        sources.measure(membership.active)
    for name in list(membership.active):
        state.merge.add(name, epoch=membership.epoch(name), least=bounds.least(name, sources.clocks))
        sources.begin(name)
        state.begun.add(name)


def switch_over(state: GroupState, sources: GroupSources, switchover: Switchover) -> None:
    """Lets the new sources of a switchover take over from the old sources, which have all reached their ends."""
    membership, bounds = sources.request.membership, sources.request.bounds
    new, least = sorted(switchover.new), max(state.merge.newest(name) for name in switchover.old)
    if bounds.asks_servers:
        sources.measure(new)
    for name in new:
        state.merge.add(name, epoch=membership.number(switchover), least=least)
    state.progress = state.progress.hiding(new)
    if switchover.is_by_time:
        # A copy is later than its original. Compared by the sources' own times: those of the merge never go back.
        ends = {name: state.last_commits.get(name, 0) for name in switchover.old}
        bounds.begin_at({name: sources.clocks.earliest(name, ends) for name in new})
        sources.arrivals.pending.add(switchover)
    else:
        positions = [position for name in new if (position := membership.position_of(name))]
        state.add_switchover(switchover, membership.number(switchover), positions)
    try:
        for name in new:
            sources.begin(name)
            state.begun.add(name)
    except (BinlogPurgedError, SourceSettingsError) as error:
        # What the old sources have is yielded first.
        state.failed.update(dict.fromkeys(new, error))
