"""The stream of a group: the changes of all of its sources in one order, each with a token that says where all are.
Not here: reading (`opened.py`), the streams of its sources (`streams`), the command (`cli/stream.py`)."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from strata_cdc.groups.hops import check_names, once, read_journal
from strata_cdc.groups.limits import GroupLimits
from strata_cdc.groups.opened import OpenedGroup
from strata_cdc.groups.path import Path
from strata_cdc.groups.rendering import GroupBatchEvents, GroupBatchLines, GroupHeartbeat, rendered, written
from strata_cdc.groups.request import GroupRequest
from strata_cdc.groups.starts import Starts
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.streams.request import HEARTBEAT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.binlog.protocol.server_now import ServerNow
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.pieces import GroupHop
    from strata_cdc.groups.request import StreamedGroup
    from strata_cdc.streams.events import Event

__all__ = ["GroupHeartbeat", "GroupStream"]


class GroupStream:
    """One reader's way along a group. It can be read once, in one of its forms."""

    def __init__(  # noqa: PLR0913  what a reader may ask for
        self,
        group: StreamedGroup,
        start: str | Mapping[str, ServerNow] = "now",
        *,
        until: str | None = None,
        follow: bool = False,
        tables: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        hops: Sequence[Hop] | None = None,
        limits: GroupLimits = GroupLimits(),
        permit: AbstractContextManager[object] | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            group: The group.
            start: Where to begin: behind a token of the group, at a time, `now` or the `beginning`; or what servers of
                sources said earlier, which is `now` as of then.
            until: Where to end, likewise; a time is exclusive.
            follow: Whether to wait for what comes.
            tables: Patterns of `database.table`; none for all.
            columns: Names of the columns that are wanted; None for all.
            heartbeat_seconds: After so long without anything the position is given, and silent sources are asked.
            hops: From old sources to new ones, in order; None: as the group's journal has them.
            limits: How much of each source waits to be merged.
            permit: Is held while something is decoded; the streams of the sources share it. None: a lock of its own.

        Raises:
            Usage: The token does not name all sources, or others; the position means nothing for a group; a pattern
                can match no table.
            SettingsError: The journal cannot be read, or contradicts the settings or itself.
        """
        require_matchable(tables)
        sources = {source.name: source for source in (*group.former, *group.sources)}
        if hops is None:
            hops = read_journal(group.journal) if group.journal else []
        current = [source.name for source in group.sources]
        check_names(hops, current, sources, group.journal)
        path = Path(once(hops), sources, current)
        starts = Starts(group.name, path, sources, start, until)
        permit = threading.Lock() if permit is None else permit
        request = GroupRequest(group, sources, path, starts, follow, tables, columns, heartbeat_seconds, limits, permit)
        self._closed = threading.Event()
        self._opened = OpenedGroup(request, self._closed.is_set)

    # Forms ----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event | GroupHop | GroupHeartbeat]:
        """The events, one by one: of each source those of its own stream, with the group's tokens.

        Raises:
            StrataError: As the stream of a source; everything in front of it has been given. It names the source.
        """
        rendering = GroupBatchEvents()
        # By `map`, which holds nothing of what has been given while the next is awaited.
        for events in map(partial(rendered, rendering), self._opened.read()):
            yield from events

    def written(self) -> Iterator[bytes]:
        """The events as JSON lines in UTF-8, as many at once as are due. Raises as iterating does."""
        writing = GroupBatchLines()
        for lines in map(partial(written, writing), self._opened.read()):
            yield from lines

    def close(self) -> None:
        """Ends the stream at the next moment; may be called by another thread, or a signal's handler."""
        self._closed.set()

    def reached(self) -> str | None:
        """The token of all that has been given; None until it is known of all sources where they are."""
        return self._opened.token

    @property
    def watermark(self) -> int | None:
        """All changes before this time have been given, in the group's time: microseconds UTC."""
        return self._opened.watermark

    @property
    def unreadable_rows(self) -> int:
        """Rows that cannot be read, of what has been given."""
        return self._opened.unreadable_rows
