"""The transactions of a source from an ordinal on, without a seam: what has landed, then what the live server sends.
Where the connection breaks it is made anew, and where the server has purged what comes next, it may have landed.
Not here: which of them a reader gets (`positions.py`), what is in them (`decoding.py`)."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.replication import BinlogStream, ServerState, Until
from strata_cdc.binlog.sources.file_start import FileStart, file_number
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import Transactions, Waiting
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, SourceUnavailableError
from strata_cdc.landing.change_source import LandedSource
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.last_transaction import LastTransaction, first_gtid_event, prove_history
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.sets import GtidSetBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.binlog.sources.port import Item

_LOG = logging.getLogger("strata.stream")
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 0.2
GATHER_SECONDS: Final = 0.01
_MOST_TRIES: Final = 5
"""In a row without a transaction, for who does not follow."""


class Reached(Struct):
    """How far a stream has been read."""

    seq: int = 0
    executed: GtidSetBuilder = field(default_factory=GtidSetBuilder)
    clock: int = 0
    last_commit: int = 0
    """As `ChangeStream.last_commit`."""
    at: BinlogPosition | None = None
    """In the server's files: behind the last transaction, or behind the head of a file that follows it."""
    server_uuid: str = ""
    """Of the server whose file that is."""


class OldestKept(Struct, frozen=True):
    """Where the binlog begins that a server still has, if it has purged some of it."""

    created_at: int
    """Behind the time of all that is gone: its oldest file is no older (microseconds UTC, rounded up to a second)."""
    first_commit: int | None
    """Of the first transaction that it still has; None if it has none."""

    @property
    def complete_from(self) -> int:
        """All transactions of this time and of later ones can be had."""
        return self.created_at if self.first_commit is None else min(self.created_at, self.first_commit)


class LiveServer:
    """What is asked of the server besides its stream."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.by_file = False
        """Whether its stream goes by file and offset: not all of its transactions have a GTID."""

    def state(self) -> ServerState:
        """What the server says of itself now.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.state()

    def files(self) -> ServerFiles:
        """Which files it has.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.files()

    def oldest(self) -> OldestKept | None:
        """Where the binlog begins that it still has; None if it has all that there ever was of it.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            state = stream.state()
            begin = stream.files().begin
            is_whole = not state.purged if state.numbers_all else file_number(begin.file) <= 1
            if is_whole:
                return None
            created_at = 0
            for item in LiveSource(stream.read(begin), state.purged, state.uuid).read():
                if isinstance(item, FileStart):
                    created_at = created_at or item.created_at + 1_000_000
                elif isinstance(item, Transactions):
                    return OldestKept(created_at, int(item.batch.committed_at[0]))
            return OldestKept(created_at, None)

    def end(self) -> BinlogPosition:
        """Where it writes.

        Raises:
            StrataError: It does not answer.
        """
        return self.files().end

    def begins_event(self, at: BinlogPosition) -> bool:
        """Whether an event begins at a place in its files.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.begins_event(at)


class LiveHandover:
    """A change source: see `binlog/sources/port.py`. Ordinals are those of the landed stream all along."""

    def __init__(
        self,
        landed: LandedStream,
        lake: str,
        server: LiveServer,
        *,
        after_seq: int,
        follow: bool,
        stop: Callable[[], bool],
        gather_seconds: float = GATHER_SECONDS,
        has_answered: bool = False,
    ) -> None:
        """Nothing is opened yet.

        Args:
            landed: What has landed of the source by now; it is read first, and then what has landed since.
            lake: Folder or URL of the lake.
            server: The live server.
            after_seq: Ordinal of the last transaction that is not wanted; it has landed.
            follow: Whether to wait for a server that has gone for as long as it takes.
            stop: Asked while nothing comes.
            gather_seconds: What the live server commits within so long behind what was given last comes together: to
                decode ten transactions takes hardly longer than to decode one.
            has_answered: Whether the server is known to be there; else its first connection has to be made at once.
        """
        self._source, self._lake, self._server = landed.source, lake, server
        self._landed: LandedStream | None = landed
        self._follow, self._stop, self._gather = follow, stop, gather_seconds
        self._opened = False
        """Whether the stream has begun."""
        self._connected = has_answered
        self.reached = Reached(after_seq)
        self._last: LastTransaction | None = None
        """The last transaction that was read, by which the server has to show that it is still the same."""

    def read(self) -> Iterator[Item]:
        """As `ChangeSource.read`; it ends only by an error, or when `stop` says so."""
        pause, tries = _FIRST_PAUSE_SECONDS, 0
        while not self._stop():
            yield from self._read_landed()
            before = self.reached.seq
            try:
                yield from self._read_live()
            except BinlogPurgedError:
                if LandedStream.open(self._lake, self._source).last_seq <= self.reached.seq:
                    raise
            except SourceUnavailableError:
                if self.reached.seq > before:
                    pause, tries = _FIRST_PAUSE_SECONDS, 0
                tries += 1
                if not self._connected or (not self._follow and tries > _MOST_TRIES):
                    raise
                yield from self._wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _wait(self, seconds: float) -> Iterator[Item]:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop():
            yield Waiting()
            time.sleep(_STEP_SECONDS)

    def _take(self, item: Item) -> Item:
        if isinstance(item, Transactions):
            reached, batch = self.reached, item.batch
            batch.add_to(reached.executed)
            reached.seq, reached.clock = batch.last_seq, int(batch.committed_at[-1])
            end = int(batch.positions[-1] + batch.ends[-1] - batch.begins[-1])
            reached.at = BinlogPosition.of(batch.binlog_file, end)
        return item

    # What has landed ------------------------------------------------------------------------------

    def _read_landed(self) -> Iterator[Item]:
        while True:
            # Its indexes are open already.
            stream = self._landed or LandedStream.open(self._lake, self._source)
            self._landed = None
            if not stream.segments or (self._opened and stream.last_seq <= self.reached.seq):
                if stream.segments and stream.last_seq == self.reached.seq:
                    self._last = LastTransaction.landed(stream.segments[-1])
                return
            self._begin_landed(stream)
            for item in LandedSource(stream, self.reached.seq).read():
                if isinstance(item, FileStart) and self._server.by_file:
                    self.reached.server_uuid = item.identity or self.reached.server_uuid
                yield self._take(item)

    def _begin_landed(self, stream: LandedStream) -> None:
        reached = self.reached
        executed = stream.executed_at(reached.seq)
        if self._opened:
            if executed != reached.executed.build() and not self._server.by_file:
                raise SourceDivergedError(
                    "what has landed is in another order than the server sent it",
                    source=self._source,
                    remedy="Go on from the last token: the stream then follows what has landed.",
                )
            return
        reached.executed = GtidSetBuilder(executed)
        reached.clock = stream.clock_at(reached.seq)
        reached.server_uuid = stream.segments[-1].summary.server_uuid
        if reached.seq >= stream.first_seq:
            _, record = stream.record_at(reached.seq)
            reached.last_commit = record.commit_timestamp
            reached.at = BinlogPosition.of(record.binlog_file, record.binlog_pos + record.end - record.begin)
        elif not stream.last_seq:
            # Nothing has been written since the stream began.
            reached.at = BinlogPosition.of(stream.segments[0].name.binlog_file, stream.segments[0].name.offset)
        self._server.by_file |= stream.resume is Resume.FILE
        self._opened = True

    # The live server ------------------------------------------------------------------------------

    def _read_live(self) -> Iterator[Item]:
        stream = BinlogStream.open(self._server.address)
        try:
            server = stream.state()
            start = self._start(stream, server)
            self._opened = self._connected = True
            reached = self.reached
            items = stream.read(start, Until.CLOSED)
            live = LiveSource(
                items, reached.executed.build(), server.uuid, after_seq=reached.seq, clock=reached.clock
            ).read()
            for item in live:
                given = time.monotonic()
                self._pass_head(item)
                yield self._take(item)
                if isinstance(item, Transactions):
                    self._last = LastTransaction.live(item, server.uuid)
                    # What comes meanwhile waits in the socket.
                    time.sleep(max(0.0, given + self._gather - time.monotonic()))
        finally:
            stream.close()
        raise SourceUnavailableError("the server ended the stream", source=self._source)

    def _pass_head(self, item: Item) -> None:
        """A file may have nothing but its head for long."""
        at = item.behind_head if isinstance(item, Waiting) else None
        reached = self.reached
        if self._server.by_file and at is not None and (reached.at is None or reached.at < at):
            reached.at = at

    def _start(self, stream: BinlogStream, server: ServerState) -> bytes | BinlogPosition:
        reached = self.reached
        self._server.by_file |= not server.numbers_all
        if self._server.by_file:
            return self._start_by_file(stream, server)
        if not self._opened:
            # Nothing has landed: the stream begins with the oldest that the server has.
            reached.executed = GtidSetBuilder(server.purged)
        executed = reached.executed.build()
        lost = executed - server.executed
        if lost:
            raise SourceDivergedError(
                "the server lacks transactions that the stream has",
                source=self._source,
                gtid=str(lost),
                remedy="Its binlog was reset, or it is another server. Point the connection at a server that has them.",
            )
        gone = server.purged - executed
        if gone:
            raise BinlogPurgedError(
                "the server has purged what comes next, and it has not landed; what the server still has begins "
                f"behind {server.purged}",
                source=self._source,
                gtid=str(gone),
                remedy=f"`strata land --source {self._source}` says how to land it; "
                f"`strata stream --source {self._source} --from '{server.purged}'` begins with what can be had.",
            ).beginning(server.purged)
        if self._last is not None:
            last = self._last
            unproved = prove_history(self._server.address, server, executed, last, lambda: first_gtid_event(last))
            if unproved:
                _LOG.warning("%s: %s", self._source, unproved)
        return encode_gtid_set(executed)

    def _start_by_file(self, stream: BinlogStream, server: ServerState) -> BinlogPosition:
        reached, files = self.reached, stream.files()
        if reached.at is None:
            reached.at, reached.server_uuid = files.begin, server.uuid
            return files.begin
        if reached.server_uuid not in ("", server.uuid):
            raise SourceDivergedError(
                f"the server is {server.uuid}, and the stream is that of {reached.server_uuid}: transactions without a "
                "GTID cannot be found on another server",
                source=self._source,
                remedy="Point the connection at the old server.",
            )
        size = files.size(reached.at.file)
        if size is None and reached.at < files.begin:
            raise BinlogPurgedError(
                f"the server has purged what comes next; the first file that it still has is {files.begin.file}",
                source=self._source,
                file=reached.at.file,
                offset=reached.at.offset,
                remedy=f"`strata stream --source {self._source} --from {files.begin}` begins with what can be had.",
            ).beginning(files.begin)
        if size is None or size < reached.at.offset:
            raise SourceDivergedError(
                f"the server's binlog ends at {files.end}, in front of where the stream is",
                source=self._source,
                file=reached.at.file,
                offset=reached.at.offset,
                remedy="It was reset, or lost its end in a crash: land it under another source name.",
            )
        if self._last is not None and self._last.end <= reached.at and files.size(self._last.end.file) is not None:
            self._last.refuse_other_bytes(self._server.address)
        reached.server_uuid = server.uuid
        return reached.at
