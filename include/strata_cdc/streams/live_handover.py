"""The transactions of a source from an ordinal on, without a seam: what has landed, then what the live server sends.
Where the connection breaks it is made anew, and where the server has purged what comes next, it may have landed.
Not here: which of them a reader gets (`positions.py`), what is in them (`decoding.py`)."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

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
from strata_cdc.position.sets import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from strata_cdc.binlog.events.batch import TransactionBatch
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


class Reached(Struct, frozen=True):
    """How far a source has been read."""

    seq: int
    """Ordinal of the last transaction."""
    executed: GtidSet = GtidSet()
    clock: int = 0
    last_commit: int = 0
    """As `ChangeStream.last_commit`, where reading began."""
    at: BinlogPosition | None = None
    """In the server's files: behind the last transaction, or behind the head of a file that follows it."""
    server_uuid: str = ""
    """Of the server whose file that is."""
    by_file: bool = False
    """Whether the stream goes by file and offset: not all of its transactions have a GTID."""

    def behind(self, batch: TransactionBatch) -> Reached:
        """Behind some transactions that follow."""
        last = BinlogPosition.of(batch.binlog_file, int(batch.positions[-1] + batch.ends[-1] - batch.begins[-1]))
        executed = batch.added_to(self.executed)
        return replace(self, seq=batch.last_seq, executed=executed, clock=int(batch.committed_at[-1]), at=last)


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


class SourceItem(Struct, frozen=True):
    """An item of a source, and how far that has been read with it."""

    item: Item
    reached: Reached


class LiveServer(Struct, frozen=True):
    """What is asked of the server besides its stream."""

    address: ServerAddress

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


class HandoverOptions(Struct, frozen=True):
    """How a source is read."""

    lake: str
    """Folder or URL of the lake that it lands in."""
    address: ServerAddress
    """Of its server."""
    follow: bool
    """Whether to wait for a server that has gone for as long as it takes."""
    gather_seconds: float = GATHER_SECONDS
    """What the live server commits within so long behind what was given last comes together: to decode ten
    transactions takes hardly longer than to decode one."""
    has_answered: bool = False
    """Whether the server is known to be there; else its first connection has to be made at once."""


class LiveHandover:
    """Gives the items of a change source (`binlog/sources/port.py`), each with how far the source has been read with
    it. Ordinals are those of the landed stream all along."""

    def __init__(
        self, landed: LandedStream, options: HandoverOptions, stop: Callable[[], bool], *, after_seq: int, by_file: bool
    ) -> None:
        """Nothing is opened yet.

        Args:
            landed: What has landed of the source by now; it is read first, and then what has landed since.
            options: How to read.
            stop: Asked while nothing comes.
            after_seq: Ordinal of the last transaction that is not wanted; it has landed.
            by_file: Whether the stream is known to go by file and offset.
        """
        self._source, self._options, self._stop = landed.source, options, stop
        self._landed: LandedStream | None = landed
        """What has landed, until it has been read: its indexes are open already."""
        self._opened = False
        """Whether the stream has begun."""
        self._connected = options.has_answered
        self._reached = Reached(after_seq, by_file=by_file)
        self._last: LastTransaction | None = None
        """The last transaction that was read, by which the server has to show that it is still the same."""

    def read(self) -> Generator[SourceItem]:
        """Ends only by an error, or when `stop` says so.

        Raises:
            StrataError: As `ChangeSource.read`.
        """
        pause, tries = _FIRST_PAUSE_SECONDS, 0
        while not self._stop():
            yield from self._read_landed()
            before = self._reached.seq
            try:
                yield from self._read_live()
            except BinlogPurgedError:
                if LandedStream.open(self._options.lake, self._source).last_seq <= self._reached.seq:
                    raise
            except SourceUnavailableError:
                if self._reached.seq > before:
                    pause, tries = _FIRST_PAUSE_SECONDS, 0
                tries += 1
                if not self._connected or (not self._options.follow and tries > _MOST_TRIES):
                    raise
                yield from self._wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _wait(self, seconds: float) -> Iterator[SourceItem]:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stop():
            yield SourceItem(Waiting(), self._reached)
            time.sleep(_STEP_SECONDS)

    def _pass(self, item: Item) -> SourceItem:
        """Goes behind an item."""
        if isinstance(item, Transactions):
            self._reached = self._reached.behind(item.batch)
        return SourceItem(item, self._reached)

    # What has landed ------------------------------------------------------------------------------

    def _read_landed(self) -> Iterator[SourceItem]:
        while True:
            stream = self._landed or LandedStream.open(self._options.lake, self._source)
            self._landed = None
            if not stream.segments or (self._opened and stream.last_seq <= self._reached.seq):
                if stream.segments and stream.last_seq == self._reached.seq:
                    self._last = LastTransaction.landed(stream.segments[-1])
                return
            self._begin_landed(stream)
            for item in LandedSource(stream, self._reached.seq).read():
                if isinstance(item, FileStart) and self._reached.by_file:
                    self._reached = replace(self._reached, server_uuid=item.identity or self._reached.server_uuid)
                yield self._pass(item)

    def _begin_landed(self, stream: LandedStream) -> None:
        reached = self._reached
        executed = stream.executed_at(reached.seq)
        if self._opened:
            if executed != reached.executed and not reached.by_file:
                raise SourceDivergedError(
                    "what has landed is in another order than the server sent it",
                    source=self._source,
                    remedy="Go on from the last token: the stream then follows what has landed.",
                )
            return
        at, last_commit = reached.at, 0
        if reached.seq >= stream.first_seq:
            _, record = stream.record_at(reached.seq)
            last_commit = record.commit_timestamp
            at = BinlogPosition.of(record.binlog_file, record.binlog_pos + record.end - record.begin)
        elif not stream.last_seq:
            # Nothing has been written since the stream began.
            at = BinlogPosition.of(stream.segments[0].name.binlog_file, stream.segments[0].name.offset)
        self._reached = Reached(
            reached.seq,
            executed,
            stream.clock_at(reached.seq),
            last_commit,
            at,
            stream.segments[-1].summary.server_uuid,
            reached.by_file or stream.resume is Resume.FILE,
        )
        self._opened = True

    # The live server ------------------------------------------------------------------------------

    def _read_live(self) -> Iterator[SourceItem]:
        stream = BinlogStream.open(self._options.address)
        try:
            server = stream.state()
            start = self._start(stream, server)
            self._opened = self._connected = True
            reached = self._reached
            items = stream.read(start, Until.CLOSED)
            live = LiveSource(items, reached.executed, server.uuid, after_seq=reached.seq, clock=reached.clock).read()
            for item in live:
                given = time.monotonic()
                self._pass_head(item)
                yield self._pass(item)
                if isinstance(item, Transactions):
                    self._last = LastTransaction.live(item, server.uuid)
                    # What comes meanwhile waits in the socket.
                    time.sleep(max(0.0, given + self._options.gather_seconds - time.monotonic()))
        finally:
            stream.close()
        raise SourceUnavailableError("the server ended the stream", source=self._source)

    def _pass_head(self, item: Item) -> None:
        """A file may have nothing but its head for long."""
        at = item.behind_head if isinstance(item, Waiting) else None
        reached = self._reached
        if reached.by_file and at is not None and (reached.at is None or reached.at < at):
            self._reached = replace(reached, at=at)

    def _start(self, stream: BinlogStream, server: ServerState) -> bytes | BinlogPosition:
        if self._reached.by_file or not server.numbers_all:
            return self._start_by_file(stream, server)
        if not self._opened:
            # Nothing has landed: the stream begins with the oldest that the server has.
            self._reached = replace(self._reached, executed=server.purged)
        executed = self._reached.executed
        self._refuse_other_history(server, executed)
        if self._last is not None:
            last = self._last
            unproved = prove_history(self._options.address, server, executed, last, lambda: first_gtid_event(last))
            if unproved:
                _LOG.warning("%s: %s", self._source, unproved)
        return encode_gtid_set(executed)

    def _refuse_other_history(self, server: ServerState, executed: GtidSet) -> None:
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

    def _start_by_file(self, stream: BinlogStream, server: ServerState) -> BinlogPosition:
        self._reached = reached = replace(self._reached, by_file=True)
        files = stream.files()
        if reached.at is None:
            self._reached = replace(reached, at=files.begin, server_uuid=server.uuid)
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
            self._last.refuse_other_bytes(self._options.address)
        self._reached = replace(reached, server_uuid=server.uuid)
        return reached.at
