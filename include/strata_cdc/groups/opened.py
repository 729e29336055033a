"""A group that is being read: what its readers send goes to the merge, and what is due is yielded, with the group's
position after it.
Not here: reading the sources (`readers.py`), the merge (`merge.py`), lines and events (`rendering.py`)."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

from strata_cdc.binlog.protocol.server_clocks import Clocks
from strata_cdc.errors import BinlogPurgedError, SourceSettingsError
from strata_cdc.groups.arrivals import Arrivals, EnteredHop
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.chunks import DueHop, SpanTransactions
from strata_cdc.groups.logged_times import error_ahead, refuse_ahead, refuse_unordered
from strata_cdc.groups.merge import Merge
from strata_cdc.groups.progress import GroupProgress
from strata_cdc.groups.readers import Ended, Proof, ReaderPosition, SourceReaders, Unreachable
from strata_cdc.groups.rendering import GroupHeartbeat
from strata_cdc.groups.twice import refuse_one_server
from strata_cdc.groups.vector import GroupPosition
from strata_cdc.groups.watch import Watch
from strata_cdc.position.executed import has_commit_times
from strata_cdc.streams.decoding import StreamBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from strata_cdc.binlog.protocol.server_clocks import ServerMoment
    from strata_cdc.errors import StrataError
    from strata_cdc.groups.due import DueTransactions
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.readers import FromReader
    from strata_cdc.groups.request import GroupRequest
    from strata_cdc.position.source_position import SourcePosition

_MOST_AT_ONCE: Final = 1 << 14
"""Most transactions that are yielded at once."""


class OpenedGroup:
    """A stream that one reader reads from a group."""

    def __init__(self, request: GroupRequest, stop: Callable[[], bool]) -> None:
        """Nothing is read yet.

        Args:
            request: What the reader requests.
            stop: Whether the reader wants nothing more.
        """
        group = request.group
        self._request, self._stop = request, stop
        self._readers = SourceReaders(request)
        addresses = {name: source.address for name, source in request.sources.items()}
        self._clocks = Clocks(group.name, addresses, group.clock_bound)
        self._arrivals = Arrivals(request, self._clocks)
        self._merge: Merge[SpanTransactions | DueHop] = Merge(group.max_skew)
        self._watch = Watch(group.name, group.max_skew)
        self._progress = GroupProgress(GroupPosition.from_positions(request.starts.positions()))
        self._failed: dict[str, StrataError] = {}
        self._last_commits: dict[str, int] = {}
        """`Ended.last_commit` of sources that have ended."""
        self.unreadable_rows = 0
        """How many of the yielded rows cannot be read."""

    @property
    def token(self) -> str | None:
        """The token after everything that has been yielded; None until the positions of all sources are known."""
        return self._progress.vector.text if self._readers.names and self._is_placed() else None

    @property
    def watermark(self) -> int | None:
        """As `Merge.watermark`."""
        return self._merge.watermark

    def read(self) -> Iterator[GroupBatch | DueHop | GroupHeartbeat]:
        """Yields everything that there is for the reader, up to the end."""
        pause = self._request.heartbeat_seconds
        last_heartbeat = time.monotonic()
        try:
            self._begin_all()
            while not self._stop() and not self._merge.is_over:
                for source, what in self._readers.receive(pause):
                    self._take(source, what)
                if (yield from self._batches(self._merge.due())):
                    last_heartbeat = time.monotonic()
                self._raise_if_stuck()
                self._readers.go_on(self._paused())
                self._watch.look(self._merge, time.time())
                if time.monotonic() - last_heartbeat >= pause and self._is_placed():
                    yield self._heartbeat()
                    last_heartbeat = time.monotonic()
        finally:
            self._readers.close()

    # What begins ----------------------------------------------------------------------------------

    def _begin_all(self) -> None:
        path, starts = self._request.path, self._request.starts
        if starts.asks_servers:
            path.refuse_unknown()
            self._measure(path.active)
        for name in list(path.active):
            self._merge.add(name, epoch=path.epoch(name), least=starts.least(name, self._clocks))
            self._begin(name)

    def _measure(self, names: Sequence[str]) -> None:
        path = self._request.path
        self._clocks.measure(names, [name for name in names if path.end(name) is not None])
        refuse_one_server(self._request.group.name, self._clocks.servers(path.active))

    def _begin(self, name: str) -> None:
        request = self._request
        is_mariadb = not self._clocks.prove_idleness(name)
        refuse_unordered(request.sources[name], request.path, is_mariadb=is_mariadb)
        start, until = self._request.starts.bounds(name, self._clocks)
        # A server that has stopped answering since then delays the group, but does not end its stream.
        self._readers.begin(name, start, until, has_answered=bool(self._clocks.servers([name])))

    def _hop(self, hop: Hop) -> None:
        """Lets the new sources of a switchover take over from the old sources, which have all reached their ends."""
        path, starts = self._request.path, self._request.starts
        new, least = sorted(hop.new), max(self._merge.newest(name) for name in hop.old)
        if starts.asks_servers:
            self._measure(new)
        for name in new:
            self._merge.add(name, epoch=path.number(hop), least=least)
        self._progress = self._progress.hiding(new)
        if hop.is_by_time:
            # A copy is later than its original. Compared by the sources' own times: those of the merge never go back.
            ends = {name: self._last_commits.get(name, 0) for name in hop.old}
            starts.begin_at({name: self._clocks.earliest(name, ends) for name in new})
            self._arrivals.enter(hop)
        else:
            self._give(hop, [position for name in new if (position := path.position_of(name))])
        try:
            for name in new:
                self._begin(name)
        except (BinlogPurgedError, SourceSettingsError) as error:
            # What the old sources have is yielded first.
            self._failed.update(dict.fromkeys(new, error))

    def _give(self, hop: Hop, positions: Sequence[SourcePosition]) -> None:
        first, number = min(hop.new), self._request.path.number(hop)
        least = self._merge.newest(first)
        self._merge.arrive(first, [least], DueHop(hop, number, positions, least))

    # What comes -----------------------------------------------------------------------------------

    def _take(self, source: str, what: FromReader) -> None:
        if source in self._failed:
            return
        if isinstance(what, StreamBatch):
            self._watch.answers(source)
        for name, arrived in self._arrivals.sorted_out(source, what):
            if name not in self._failed:
                self._arrive(name, arrived)

    def _arrive(self, source: str, what: SpanTransactions | EnteredHop | FromReader) -> None:
        if isinstance(what, SpanTransactions):
            self._arrive_in_order(source, what)
        elif isinstance(what, EnteredHop):
            self._give(what.hop, what.positions)
        elif isinstance(what, ReaderPosition):
            self._stand(what.position)
        elif isinstance(what, Ended):
            self._take_end(source, what)
        elif isinstance(what, Proof):
            self._take_answer(source, what.moment)
        elif isinstance(what, Unreachable):
            self._watch.is_gone(source, what.error, time.time())

    def _take_answer(self, source: str, moment: ServerMoment) -> None:
        self._clocks.note(source, moment)
        self._watch.answers(source)
        if moment.proves_idleness:
            self._merge.prove(source, self._clocks.in_group(source, moment.clock))
        else:
            self._watch.waits_for_next(source)

    def _arrive_in_order(self, source: str, chunk: SpanTransactions) -> None:
        times = self._clocks.translate(source, chunk.times)
        if not chunk.has_commit_times and self._request.starts.asks_servers:
            error = refuse_ahead(chunk, times, self._latest)
            if error is not None:
                self._failed[source] = error.located(source=source)
            times = times[: len(chunk)]
            self._watch.look_ahead(source, times, self._clocks.now())
        if len(chunk):
            self._progress = self._progress.with_begin(source, chunk.transaction(0).before)
            self._merge.arrive(source, times, chunk)

    @property
    def _latest(self) -> int:
        """The last time that a transaction of a source without commit times may have (microseconds UTC)."""
        return self._clocks.now() + self._request.limits.most_ahead

    def _take_end(self, source: str, end: Ended) -> None:
        if end.position is not None:
            self._stand(end.position)
        if end.error is not None:
            self._failed[source] = end.error
            return
        self._last_commits[source] = end.last_commit
        hop = self._request.path.ended(source, end.position or self._progress.vector.positions.get(source))
        if hop is not None:
            self._hop(hop)
        self._merge.finish(source)

    def _stand(self, position: SourcePosition) -> None:
        """Notes how far a source was read, if nothing of it waits."""
        waits = self._merge.has_waiting(position.source) or self._arrivals.is_holding(position.source)
        if waits or position.source in self._progress.hidden:
            return
        self._progress = self._progress.with_position(position)
        reached = self._clocks.in_group(position.source, position.committed_at)
        if not has_commit_times(position.position):
            if self._request.starts.asks_servers and reached > self._latest:
                self._failed[position.source] = error_ahead(reached).located(source=position.source)
            else:
                # Nothing that comes is before the largest time so far.
                self._merge.prove(position.source, reached)
            return
        # If a clock has been set back, the commit clock of its stream is in the future for a while.
        if reached <= self._clocks.now():
            self._merge.prove(position.source, reached)

    # What is yielded ------------------------------------------------------------------------------

    def _batches(self, due: DueTransactions[SpanTransactions | DueHop]) -> Generator[GroupBatch | DueHop, None, bool]:
        """Yields what is due, several transactions at a time; a switchover is yielded alone. Returns whether there was
        something."""
        for begin, end in pairwise(_borders(due)):
            some = due.between(begin, end)
            first = some.parts[0].chunk
            if isinstance(first, DueHop):
                self._progress = self._progress.after_hop(first)
                yield first
            else:
                batch = GroupBatch(cast("DueTransactions[SpanTransactions]", some), self._progress.vector)
                self._progress = self._progress.after(batch.end)
                self.unreadable_rows += sum(
                    part.chunk.count_unreadable(part.begin, part.end) for part in batch.due.parts
                )
                yield batch
        return len(due) > 0

    def _paused(self) -> list[str]:
        """Sources that must not be read further for now."""
        stopped = self._arrivals.placed.union(self._failed)
        return [name for name in self._readers.names if name in stopped or not self._merge.may_read(name)]

    def _raise_if_stuck(self) -> None:
        """Raises a source's fault when the watermark waits for that source: then everything before the fault has been
        yielded."""
        holder = self._merge.holder
        if holder in self._failed and not self._merge.has_waiting(holder):
            raise self._failed[holder]

    def _is_placed(self) -> bool:
        return self._progress.is_placed(self._readers.names)

    def _heartbeat(self) -> GroupHeartbeat:
        merge, token = self._merge, self._progress.vector.text
        return GroupHeartbeat(token, merge.watermark or 0, merge.skew, merge.holder, int(self._watch.since * 1e6))


def _borders(due: DueTransactions[SpanTransactions | DueHop]) -> list[int]:
    """The ordinals at which what is due is cut."""
    borders = {*range(0, len(due), _MOST_AT_ONCE), len(due)}
    for part, ranks in zip(due.parts, due.ranks, strict=True):
        if isinstance(part.chunk, DueHop):
            borders |= {int(ranks[0]), int(ranks[0]) + 1}
    return sorted(borders)
