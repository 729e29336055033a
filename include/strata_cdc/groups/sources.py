"""The sources of a group that are read: a thread for each, and the clocks of their servers. At a switchover, new ones
take over.
Not here: one thread (`readers.py`), what becomes of what they read (`arrive.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.server_clocks import Clocks, Server
from strata_cdc.errors import BinlogPurgedError, SourceSettingsError
from strata_cdc.groups.arrivals import Arrivals
from strata_cdc.groups.logged_times import refuse_unordered
from strata_cdc.groups.readers import Inbox, SourceReader
from strata_cdc.groups.twice import refuse_one_server
from strata_cdc.streams.stream import ChangeStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.groups.state import GroupState


class GroupSources:
    """The sources that one stream of a group reads."""

    def __init__(self, request: GroupRequest) -> None:
        """Nothing is read yet."""
        group = request.group
        addresses = {name: source.address for name, source in request.sources.items()}
        self.request = request
        self.clocks = Clocks(group.name, addresses, group.clock_bound)
        self.arrivals = Arrivals(request, self.clocks)
        self._inbox = Inbox(request.limits)
        self._readers: list[SourceReader] = []

    @property
    def latest(self) -> int:
        """The last time that a transaction of a source without commit times may have (microseconds UTC)."""
        return self.clocks.now() + self.request.limits.most_ahead

    def begin_all(self, state: GroupState) -> None:
        """Begins to read the first sources."""
        path, starts = self.request.path, self.request.starts
        if starts.asks_servers:
            path.refuse_unknown()
            self._measure(path.active)
        for name in list(path.active):
            state.merge.add(name, epoch=path.epoch(name), least=starts.least(name, self.clocks))
            self._begin(state, name)

    def hop(self, state: GroupState, hop: Hop) -> None:
        """Lets the new sources of a switchover take over from the old sources, which have all reached their ends."""
        path, starts = self.request.path, self.request.starts
        new, least = sorted(hop.new), max(state.merge.newest(name) for name in hop.old)
        if starts.asks_servers:
            self._measure(new)
        for name in new:
            state.merge.add(name, epoch=path.number(hop), least=least)
        state.progress = state.progress.hiding(new)
        if hop.is_by_time:
            # A copy is later than its original. Compared by the sources' own times: those of the merge never go back.
            ends = {name: state.last_commits.get(name, 0) for name in hop.old}
            starts.begin_at({name: self.clocks.earliest(name, ends) for name in new})
            self.arrivals.entering.add(hop)
        else:
            positions = [position for name in new if (position := path.position_of(name))]
            state.add_hop(hop, path.number(hop), positions)
        try:
            for name in new:
                self._begin(state, name)
        except (BinlogPurgedError, SourceSettingsError) as error:
            # What the old sources have is yielded first.
            state.failed.update(dict.fromkeys(new, error))

    def receive(self, seconds: float) -> list[tuple[str, FromReader]]:
        """As `Inbox.receive`."""
        return self._inbox.receive(seconds)

    def go_on(self, state: GroupState) -> None:
        """Lets all sources continue, except those that must not be read further for now."""
        self._inbox.go_on(state.paused(self.arrivals.entering.placed))

    def close(self) -> None:
        """Ends all readers soon."""
        self._inbox.close()
        for reader in self._readers:
            reader.close()

    def _measure(self, names: Sequence[str]) -> None:
        path = self.request.path
        self.clocks.measure(names, [name for name in names if path.end(name) is not None])
        refuse_one_server(self.request.group.name, self.clocks.servers(path.active))

    def _begin(self, state: GroupState, name: str) -> None:
        request = self.request
        source, path = request.sources[name], request.path
        is_mariadb = not self.clocks.prove_idleness(name)
        refuse_unordered(source, path, is_mariadb=is_mariadb)
        start, until = request.starts.bounds(name, self.clocks)
        # A server that has stopped answering since then delays the group, but does not end its stream.
        has_answered = bool(self.clocks.servers([name]))
        stream = ChangeStream(
            source,
            start,
            until=until,
            copied_from=path.copied_from(name),
            has_answered=has_answered,
            **request.of_sources,
        )
        server = Server(source.address) if request.starts.asks_servers else None
        self._readers.append(SourceReader(name, stream, server, self._inbox))
        self._readers[-1].start()
        state.begun.add(name)
