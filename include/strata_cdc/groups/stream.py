"""The stream of a group: the changes of all of its sources in one order, each with a token that has the positions of
all sources.
Not here: reading (`reading.py`), the streams of its sources (`streams`), the command (`cli/stream.py`)."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from strata_cdc.groups.bounds import GroupBounds
from strata_cdc.groups.limits import GroupLimits
from strata_cdc.groups.membership import Membership
from strata_cdc.groups.reading import read_group
from strata_cdc.groups.rendering import GroupBatchEvents, GroupBatchLines, GroupHeartbeat, rendered, written
from strata_cdc.groups.request import GroupRequest
from strata_cdc.groups.state import GroupState
from strata_cdc.groups.switchovers import check_names, once, read_journal
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.streams.request import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.binlog.protocol.server_now import ServerNow
    from strata_cdc.config.settings import Group
    from strata_cdc.groups.chunks import GroupSwitchover
    from strata_cdc.groups.switchovers import Switchover
    from strata_cdc.streams.events import Event

__all__ = ["GroupHeartbeat", "GroupStream"]


class GroupStream:
    """A stream that one reader reads from a group. It can be read once, in one of its forms."""

    def __init__(  # noqa: PLR0913  what a reader may request
        self,
        group: Group,
        start: str | Mapping[str, ServerNow] = "now",
        *,
        until: str | None = None,
        follow: bool = False,
        tables: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        switchovers: Sequence[Switchover] | None = None,
        limits: GroupLimits = GroupLimits(),
        permit: AbstractContextManager[object] | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            start: Where to begin: after a token of the group, at a time, `now` or the `beginning`; or at what the
                sources' servers reported earlier as their `now`.
            until: Where to end: a token, a time, `now` or `landed`; a time is exclusive.
            follow: Whether to wait for new changes.
            tables: Patterns of `database.table`; empty for all tables.
            columns: Names of the wanted columns; None for all.
            heartbeat_seconds: If nothing comes for this time, a heartbeat with the position is yielded, and the servers
                of silent sources are queried.
            switchovers: The switchovers, in order; None: those of the group's journal.
            limits: How much of each source waits to be merged.
            permit: Entered while something is decoded; the streams of the sources share it. None: the stream makes a
                lock.

        Raises:
            Usage: The token does not name all sources, or names others; the position means nothing for a group; a
                pattern can match no table.
            SettingsError: The journal cannot be read, or contradicts the settings or itself.
        """
        require_matchable(tables)
        sources = {source.name: source for source in (*group.former, *group.sources)}
        if switchovers is None:
            switchovers = read_journal(group.journal) if group.journal else []
        current = [source.name for source in group.sources]
        check_names(switchovers, current, sources, group.journal)
        membership = Membership(once(switchovers), sources, current)
        bounds = GroupBounds(group.name, membership, sources, start, until)
        permit = threading.Lock() if permit is None else permit
        request = GroupRequest(group, sources, follow, tables, columns, heartbeat_seconds, limits, permit)
        self._closed = threading.Event()
        self._state = GroupState.begin(group, membership, bounds)
        self._items = read_group(request, self._state, self._closed.is_set)

    # Forms ----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event | GroupSwitchover | GroupHeartbeat]:
        """Yields the events, one by one: those of each source's own stream, with the group's tokens.

        Raises:
            StrataError: An error of a source's stream; it names the source. Everything before it has been yielded.
        """
        rendering = GroupBatchEvents()
        # With `map`, which keeps no reference to what has been yielded while the next event is awaited.
        for events in map(partial(rendered, rendering), self._items):
            yield from events

    def written(self) -> Iterator[bytes]:
        """Yields the events as JSON lines in UTF-8, all lines that are due at a time. Raises the same errors as
        iterating."""
        writing = GroupBatchLines()
        for lines in map(partial(written, writing), self._items):
            yield from lines

    def close(self) -> None:
        """Ends the stream soon; another thread or a signal handler may call this."""
        self._closed.set()

    def reached(self) -> str | None:
        """Returns the token of everything that has been yielded; None until the positions of all sources are known."""
        return self._state.token

    @property
    def watermark(self) -> int | None:
        """All changes before this time have been yielded: microseconds UTC, in the group's time; None: of a source
        nothing is known yet, or nothing more comes."""
        return self._state.merge.watermark or None

    @property
    def unreadable_rows(self) -> int:
        """How many of the yielded rows cannot be read."""
        return self._state.unreadable_rows
