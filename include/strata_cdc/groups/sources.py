"""The sources of a group that are read: a thread for each, and the clocks of their servers.
Not here: one thread (`readers.py`), which sources begin, and what becomes of what they read (`reading.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.server_clocks import Clocks, Server
from strata_cdc.groups.arrivals import Arrivals
from strata_cdc.groups.duplicates import refuse_one_server
from strata_cdc.groups.logged_times import refuse_unordered
from strata_cdc.groups.readers import Inbox, SourceReader
from strata_cdc.streams.stream import ChangeStream

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from strata_cdc.groups.bounds import GroupBounds
    from strata_cdc.groups.membership import Membership
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.request import GroupRequest


class GroupSources:
    """The sources that one stream of a group reads."""

    def __init__(self, request: GroupRequest, membership: Membership, bounds: GroupBounds) -> None:
        """Nothing is read yet.

        Args:
            request: What the reader requests.
            membership: Which sources the group has; it moves with what is read.
            bounds: Where each source begins and ends.
        """
        group = request.group
        addresses = {name: source.address for name, source in request.sources.items()}
        self._request, self._membership, self._bounds = request, membership, bounds
        self.clocks = Clocks(group.name, addresses, group.clock_bound)
        self.arrivals = Arrivals(request, membership, self.clocks)
        self._inbox = Inbox(request.limits)
        self._readers: list[SourceReader] = []

    @property
    def latest(self) -> int:
        """The last time that a transaction of a source without commit times may have (microseconds UTC)."""
        return self.clocks.now() + self._request.limits.most_ahead

    def receive(self, seconds: float) -> list[tuple[str, FromReader]]:
        """As `Inbox.receive`."""
        return self._inbox.receive(seconds)

    def go_on(self, paused: Collection[str]) -> None:
        """As `Inbox.go_on`, without the sources that must not be read further until others have come."""
        self._inbox.go_on({*paused, *self.arrivals.pending.placed})

    def close(self) -> None:
        """Ends all readers soon."""
        self._inbox.close()
        for reader in self._readers:
            reader.close()

    def measure(self, names: Sequence[str]) -> None:
        """Measures the clocks of some servers; those of a switchover must answer.

        Raises:
            StrataError: As `Clocks.measure` and `refuse_one_server`.
        """
        self.clocks.measure(names, [name for name in names if self._membership.end(name) is not None])
        refuse_one_server(self._request.group.name, self.clocks.servers(self._membership.active))

    def begin(self, name: str) -> None:
        """Begins to read a source.

        Raises:
            StrataError: As `refuse_unordered` and `GroupBounds.of_source`.
        """
        source = self._request.sources[name]
        is_mariadb = not self.clocks.prove_idleness(name)
        refuse_unordered(source, self._membership, is_mariadb=is_mariadb)
        start, until = self._bounds.of_source(name, self.clocks)
        # A server that has stopped answering since then delays the group, but does not end its stream.
        has_answered = bool(self.clocks.servers([name]))
        stream = ChangeStream(
            source,
            start,
            until=until,
            copied_from=self._membership.copied_from(name),
            has_answered=has_answered,
            **self._request.of_sources,
        )
        server = Server(source.address) if self._bounds.asks_servers else None
        self._readers.append(SourceReader(name, stream, server, self._inbox))
        self._readers[-1].start()
