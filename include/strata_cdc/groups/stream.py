"""The stream of a group: the changes of all of its sources in one order, each with a token that says where all are.
Not here: the merge (`merge.py`), the streams of its sources (`streams`), the command (`cli/stream.py`)."""

from __future__ import annotations

import threading
import time
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.protocol.server_clocks import Clocks, Server
from strata_cdc.errors import BinlogPurgedError, SettingsError, StrataError
from strata_cdc.groups.batch import GroupBatch
from strata_cdc.groups.copies import Copies
from strata_cdc.groups.entering import Entering
from strata_cdc.groups.hops import check_names, once, read_journal
from strata_cdc.groups.limits import GroupLimits
from strata_cdc.groups.merge import Merge
from strata_cdc.groups.path import Path
from strata_cdc.groups.pieces import HopPiece, SpanTransactions
from strata_cdc.groups.readers import Ended, Inbox, Proof, ReaderPosition, SourceReader, Unreachable
from strata_cdc.groups.rendering import GroupBatchEvents, GroupBatchLines
from strata_cdc.groups.starts import Starts
from strata_cdc.groups.twice import Given, refuse_one_server
from strata_cdc.groups.vector import GroupPosition
from strata_cdc.groups.watch import Watch
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.request import HEARTBEAT_SECONDS
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.streams.transaction_texts import time_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from strata_cdc.binlog.protocol.server_now import ServerNow
    from strata_cdc.errors import StrataError
    from strata_cdc.groups.due import DueTransactions
    from strata_cdc.groups.hops import Hop
    from strata_cdc.groups.pieces import GroupHop
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.events import Event
    from strata_cdc.streams.request import StreamedSource

_MOST_AT_ONCE: Final = 1 << 14
"""Transactions that are given at once, if so many are due."""


class StreamedGroup(Protocol):
    """What is to be known of a group; one of the settings is such."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def sources(self) -> Sequence[StreamedSource]:
        """Its sources."""

    @property
    def max_skew(self) -> int:
        """How far one source is read ahead of the slowest (microseconds)."""

    @property
    def clock_bound(self) -> int:
        """In what steps clocks are corrected (microseconds)."""

    @property
    def journal(self) -> str | None:
        """Path of the file with its hops."""

    @property
    def source_gtid_column(self) -> str | None:
        """Where copiers keep the position of what they copy: `database.table.column`."""

    @property
    def former(self) -> Sequence[StreamedSource]:
        """Sources that hops may leave."""


class GroupHeartbeat(Struct, frozen=True):
    """Nothing was due for a while."""

    token: str
    """Where all sources are."""
    watermark: int
    """All changes before this time have been given: microseconds UTC, in the group's time."""
    skew: int
    """How far the source that was read furthest is ahead of it (microseconds)."""
    held_by: str | None
    """The source that the watermark waits for."""
    held_since: int
    """When the watermark came to where it stands: microseconds UTC, by this machine's clock."""


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

        Raises:
            Usage: The token does not name all sources, or others; the position means nothing for a group; a pattern
                can match no table.
            SettingsError: The journal cannot be read, or contradicts the settings or itself.
        """
        require_matchable(tables)
        self._group, self._follow, self._heartbeat = group, follow, heartbeat_seconds
        self._options: dict[str, Any] = {
            "follow": follow,
            **_with_copies(tables, columns, group.source_gtid_column),
            # A silent source is asked twice in a heartbeat of a second, so that the watermark follows within one:
            # streams look up each half second, and with half a heartbeat would be late for every other.
            "heartbeat_seconds": heartbeat_seconds / 4,
            "limits": limits.decode,
        }
        self._sources = {source.name: source for source in (*group.former, *group.sources)}
        if hops is None:
            hops = read_journal(group.journal) if group.journal else []
        current = [source.name for source in group.sources]
        check_names(hops, current, self._sources, group.journal)
        self._path = Path(once(hops), self._sources, current)
        self._starts = Starts(group.name, self._path, self._sources, start, until)
        self._merge: Merge[SpanTransactions | HopPiece] = Merge(group.max_skew)
        self._vector = GroupPosition.of(self._starts.places())
        self._inbox, self._permit = Inbox(limits), threading.Lock()
        self._readers: dict[str, SourceReader] = {}
        self._failed: dict[str, StrataError] = {}
        addresses = {name: source.address for name, source in self._sources.items()}
        self._clocks = Clocks(group.name, addresses, group.clock_bound)
        self._copies, self._entering = Copies(self._path, self._clocks, group.source_gtid_column), Entering()
        self._given = Given(group.name)
        self._last_commits: dict[str, int] = {}
        """Of sources that have ended: as `Ended.last_commit`."""
        self._hidden: set[str] = set()
        """Sources whose hop has not been given yet: no token may name them."""
        self._watch = Watch(group.name, group.max_skew)
        self._closed = False
        self.unreadable_rows = 0
        """Rows that cannot be read, of what has been given."""

    # Forms ----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event | GroupHop | GroupHeartbeat]:
        """The events, one by one: of each source those of its own stream, with the group's tokens.

        Raises:
            StrataError: As the stream of a source; everything in front of it has been given. It names the source.
        """
        rendering = GroupBatchEvents()
        # By `map`, which holds nothing of what has been given while the next is awaited.
        for events in map(partial(_rendered, rendering), self._read()):
            yield from events

    def written(self) -> Iterator[bytes]:
        """The events as JSON lines in UTF-8, as many at once as are due. Raises as iterating does."""
        writing = GroupBatchLines()
        for lines in map(partial(_written, writing), self._read()):
            yield from lines

    def close(self) -> None:
        """Ends the stream at the next moment; may be called by another thread, or a signal's handler."""
        self._closed = True

    def reached(self) -> str | None:
        """The token of all that has been given; None until it is known of all sources where they are."""
        return self._vector.text if self._readers and self._is_placed() else None

    @property
    def watermark(self) -> int | None:
        """All changes before this time have been given, in the group's time: microseconds UTC."""
        return self._merge.watermark

    # Reading --------------------------------------------------------------------------------------

    def _read(self) -> Iterator[GroupBatch | HopPiece | GroupHeartbeat]:
        last_heartbeat = time.monotonic()
        try:
            self._open()
            while not self._closed and not self._merge.is_over:
                for source, what in self._inbox.take(self._heartbeat):
                    self._take(source, what)
                if (yield from self._stretches(self._merge.due())):
                    last_heartbeat = time.monotonic()
                self._raise_if_stuck()
                placed = self._entering.placed
                self._inbox.go_on([one for one in self._readers if one in placed or not self._merge.may_read(one)])
                self._watch.look(self._merge, time.time())
                if time.monotonic() - last_heartbeat >= self._heartbeat and self._is_placed():
                    yield self._beat()
                    last_heartbeat = time.monotonic()
        finally:
            self._end()

    def _stretches(
        self, due: DueTransactions[SpanTransactions | HopPiece]
    ) -> Generator[GroupBatch | HopPiece, None, bool]:
        """What is due, some at once; a hop is by itself. Whether there was something."""
        borders = {*range(0, len(due), _MOST_AT_ONCE), len(due)}
        for part, ranks in zip(due.parts, due.ranks, strict=True):
            if isinstance(part.piece, HopPiece):
                borders |= {int(ranks[0]), int(ranks[0]) + 1}
        for begin, end in pairwise(sorted(borders)):
            some = due.between(begin, end)
            first = some.parts[0].piece
            if isinstance(first, HopPiece):
                self._vector = first.put(self._vector)
                self._hidden.difference_update(first.new)
                yield first
            else:
                stretch = GroupBatch(cast("DueTransactions[SpanTransactions]", some), self._vector)
                self._vector = stretch.behind
                self.unreadable_rows += sum(
                    part.piece.count_unreadable(part.begin, part.end) for part in stretch.due.parts
                )
                yield stretch
        return len(due) > 0

    def _open(self) -> None:
        if self._starts.asks_servers:
            self._path.refuse_unknown()
            self._measure(self._path.active)
        for name in list(self._path.active):
            self._merge.add(name, epoch=self._path.epoch(name), least=self._starts.least(name, self._clocks))
            self._begin(name)

    def _measure(self, names: Sequence[str]) -> None:
        self._clocks.measure(names, [name for name in names if self._path.end(name) is not None])
        refuse_one_server(self._group.name, self._clocks.servers(self._path.active))

    def _begin(self, name: str) -> None:
        source = self._sources[name]
        start, until = self._starts.bounds(name, self._clocks)
        copied_from = self._path.copied_from(name)
        stream = ChangeStream(
            source,
            start,
            until=until,
            copied_from=copied_from,
            # Who has gone since holds the group up, and does not end it.
            has_answered=bool(self._clocks.servers([name])),
            permit=self._permit,
            **self._options,
        )
        server = Server(source.address) if self._starts.asks_servers else None
        self._readers[name] = SourceReader(name, stream, server, self._inbox)
        self._readers[name].start()

    def _hop(self, hop: Hop) -> None:
        """Lets the new sources of a hop take over from the old ones, all of which have come to their ends."""
        new, least = sorted(hop.new), max(self._merge.newest(name) for name in hop.old)
        if self._starts.asks_servers:
            self._measure(new)
        for name in new:
            self._merge.add(name, epoch=self._path.number(hop), least=least)
        self._hidden.update(new)
        if hop.is_by_time:
            # A copy is later than what it is of. By their own times: those of the merge never go back.
            ends = {name: self._last_commits.get(name, 0) for name in hop.old}
            self._starts.begin_at({name: self._clocks.earliest(name, ends) for name in new})
            self._entering.add(hop)
        else:
            self._give(hop, [place for name in new if (place := self._path.place(name))])
        try:
            for name in new:
                self._begin(name)
        except BinlogPurgedError as error:
            # What the old ones have is given first.
            self._failed.update(dict.fromkeys(new, error))

    def _give(self, hop: Hop, places: Sequence[SourcePosition]) -> None:
        first, number = min(hop.new), self._path.number(hop)
        least = self._merge.newest(first)
        self._merge.arrive(first, [least], HopPiece(hop, number, places, least))

    def _take(self, source: str, what: object) -> None:
        if source in self._failed:
            return
        if self._entering.waits_for(source, what):
            self._keep(source, what)
        elif isinstance(what, StreamBatch):
            self._watch.answers(source)
            for span in self._copies.take(source, what):
                self._take_piece(source, SpanTransactions(span))
        elif isinstance(what, ReaderPosition):
            self._stand(what.place)
        elif isinstance(what, Ended):
            self._take_end(source, what)
        else:
            self._take_answer(source, what)

    def _keep(self, source: str, what: object) -> None:
        entered = self._entering.keep(source, what, self._sources[source].lineage)
        if entered is not None:
            self._give(entered.hop, [entered.places[name] for name in sorted(entered.hop.new)])
            for name, kept in entered.kept:
                self._take(name, kept)

    def _take_answer(self, source: str, what: object) -> None:
        if isinstance(what, Proof):
            self._clocks.note(source, what.moment)
            self._merge.prove(source, self._clocks.in_group(source, what.moment.clock))
            self._watch.answers(source)
        elif isinstance(what, Unreachable):
            self._watch.is_gone(source, what.error, time.time())

    def _take_piece(self, source: str, piece: SpanTransactions) -> None:
        self._copies.sort_out(source, piece)
        if not len(piece):
            return
        try:
            self._given.take(source, piece)
        except SettingsError as error:
            self._failed[source] = error
            return
        if source not in self._vector.places and source not in self._hidden:
            # The place in front of a transaction has its time already.
            self._vector = self._vector.moved(replace(piece.place(0).before, committed_at=0))
        self._merge.arrive(source, self._clocks.take(source, piece.times), piece)

    def _take_end(self, source: str, end: Ended) -> None:
        if end.place is not None:
            self._stand(end.place)
        if end.error is not None:
            self._failed[source] = end.error
            return
        self._last_commits[source] = end.last_commit
        hop = self._path.ended(source, end.place or self._vector.places.get(source))
        if hop is not None:
            self._hop(hop)
        self._merge.finish(source)

    def _stand(self, place: SourcePosition) -> None:
        """Takes how far a source was read where nothing of it waits."""
        waits = self._merge.has_waiting(place.source) or self._copies.is_holding(place.source)
        if waits or place.source in self._hidden:
            return
        known = self._vector.places.get(place.source)
        if known is None or not place.is_within(known):
            self._vector = self._vector.moved(place if known is None else known.union(place))
        # Where a clock has been set back, the commit clock of its stream is in the future for a while.
        reached = self._clocks.in_group(place.source, place.committed_at)
        if reached <= self._clocks.now():
            self._merge.prove(place.source, reached)

    def _raise_if_stuck(self) -> None:
        """What stands in front of a fault has been given when the watermark waits for the source that has it."""
        holder = self._merge.holder
        if holder in self._failed and not self._merge.has_waiting(holder):
            raise self._failed[holder]

    def _is_placed(self) -> bool:
        """Whether it is known of all sources where they are: a token must not leave one out."""
        return self._readers.keys() <= self._vector.places.keys()

    def _beat(self) -> GroupHeartbeat:
        merge = self._merge
        return GroupHeartbeat(
            self._vector.text, merge.watermark or 0, merge.skew, merge.holder, int(self._watch.since * 1e6)
        )

    def _end(self) -> None:
        self._inbox.close()
        for reader in self._readers.values():
            reader.close()


def _rendered(
    rendering: GroupBatchEvents, found: GroupBatch | HopPiece | GroupHeartbeat
) -> Iterator[Event | GroupHop | GroupHeartbeat]:
    if isinstance(found, GroupBatch):
        return rendering.render(found)
    return iter((found.hop if isinstance(found, HopPiece) else found,))


def _written(writing: GroupBatchLines, found: GroupBatch | HopPiece | GroupHeartbeat) -> Iterator[bytes]:
    if isinstance(found, GroupBatch):
        return writing.write(found)
    return iter((found.line() if isinstance(found, HopPiece) else heartbeat_line(found) + b"\n",))


def _with_copies(tables: Sequence[str], columns: Sequence[str] | None, column: str | None) -> dict[str, Any]:
    """What is read of the sources, so that copies can be told: what somebody wants, and where copiers say so."""
    if column is None:
        return {"tables": tables, "columns": columns}
    table, _, name = column.rpartition(".")
    return {
        "tables": [*tables, table] if tables else tables,
        "columns": None if columns is None else [*columns, name],
    }


def heartbeat_line(heartbeat: GroupHeartbeat) -> bytes:
    """The line of a heartbeat."""
    return msgspec.json.encode(
        {
            "token": heartbeat.token,
            "heartbeat": True,
            "watermark": time_text(heartbeat.watermark),
            "skew_seconds": round(heartbeat.skew / 1e6, 3),
            "held_by": heartbeat.held_by,
            "held_since": time_text(heartbeat.held_since),
        }
    )
