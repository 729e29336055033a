"""The transactions of a source from an ordinal on: first what has landed, then what the live server sends. Nothing is
lost or repeated at the handover. A broken connection is made again. If the server has purged what comes next, it is
read from the landed segments, if they have it.
Not here: which transactions a reader gets (`progress.py`), what is in them (`decoding.py`)."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.events.gtid import stream_request
from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.replication import BinlogStream, ServerState, Until
from strata_cdc.binlog.sources.file_start import FileStart, file_number
from strata_cdc.binlog.sources.live import LiveSource
from strata_cdc.binlog.sources.port import NothingNew, Transactions
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, SourceUnavailableError
from strata_cdc.landing.change_source import LandedSource
from strata_cdc.landing.history_watch import HistoryWatch
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.last_transaction import LastTransaction, first_commit, prove_history
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import NOTHING
from strata_cdc.schema.history.shell_words import word

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.position.port import Executed

_LOG = logging.getLogger("strata.stream")
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 0.2
GATHER_SECONDS: Final = 0.01
_MOST_TRIES: Final = 5
"""Tries in a row without a transaction, if the reader does not follow."""


class ReachedPosition(Struct, frozen=True):
    """How far a source has been read."""

    seq: int
    """Ordinal of the last transaction."""
    executed: Executed = NOTHING
    clock: int = 0
    last_commit: int = 0
    """As `ChangeStream.last_commit`, at the position where reading began."""
    at: BinlogPosition | None = None
    """The position in the server's files: after the last transaction, or after the head of a file that follows it."""
    server_uuid: str = ""
    """UUID of the server that has this file."""
    by_file: bool = False
    """Whether positions are files and offsets, because not all transactions of the stream have a GTID."""

    def after(self, batch: TransactionBatch) -> ReachedPosition:
        """Returns the position after some transactions that follow."""
        last = BinlogPosition.from_offset(batch.binlog_file, batch.server_end(-1))
        executed = batch.added_to(self.executed)
        return replace(self, seq=batch.last_seq, executed=executed, clock=int(batch.committed_at[-1]), at=last)


class OldestKept(Struct, frozen=True):
    """Where a server's binlog begins, if the server has purged a part of it."""

    created_at: int
    """When its oldest file was created (microseconds UTC, rounded up to a second): everything that was purged is
    older."""
    first_commit: int | None
    """Commit time of the first transaction that it still has; None if it has no transaction."""

    @property
    def complete_from(self) -> int:
        """All transactions of this time and of later times are available."""
        return self.created_at if self.first_commit is None else min(self.created_at, self.first_commit)


class SourceItem(Struct, frozen=True):
    """An item of a source, and how far the source has been read, including the item."""

    item: Item
    reached: ReachedPosition


class LiveServer(Struct, frozen=True):
    """What is requested from the server apart from its stream."""

    address: ServerAddress

    def state(self) -> ServerState:
        """Returns the server's current state.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.state()

    def files(self) -> ServerFiles:
        """Returns which files it has.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.files()

    def oldest(self) -> OldestKept | None:
        """Returns where its binlog begins; None if nothing of its binlog was ever purged.

        Raises:
            BinlogPurgedError: It has purged a part of it, and does not say which, as its binlog is in its storage
                engine.
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            state = stream.state()
            if state.binlog_engine:
                # It does not say what it has purged, and refuses this request if it has purged anything.
                next(iter(stream.read_events(stream_request(state.purged, state.vendor))), None)
                return None
            begin = stream.files().begin
            is_whole = not state.purged if state.numbers_all else file_number(begin.file) <= 1
            if is_whole:
                return None
            created_at = 0
            for item in LiveSource(stream.read_events(begin), state.purged, state.uuid).read_items():
                if isinstance(item, FileStart):
                    created_at = created_at or item.created_at + 1_000_000
                elif isinstance(item, Transactions):
                    return OldestKept(created_at, int(item.batch.committed_at[0]))
            return OldestKept(created_at, None)

    def end(self) -> BinlogPosition:
        """Returns where it writes.

        Raises:
            StrataError: It does not answer.
        """
        return self.files().end

    def begins_event(self, at: BinlogPosition) -> bool:
        """Whether an event begins at a position in its files.

        Raises:
            StrataError: It does not answer.
        """
        with closing(BinlogStream.open(self.address)) as stream:
            return stream.begins_event(at)


class HandoverOptions(Struct, frozen=True):
    """How a source is read."""

    lake: str
    """Folder or URL of the lake in which the source lands."""
    address: ServerAddress
    """Address of the source's server."""
    follow: bool
    """Whether to wait without limit for a server that does not answer."""
    gather_seconds: float = GATHER_SECONDS
    """What the live server commits within this time after the last item comes together in the next item: to decode ten
    transactions takes hardly longer than to decode one."""
    has_answered: bool = False
    """Whether the server is known to answer; otherwise the first attempt to connect must succeed."""


class LiveHandover:
    """Yields the items of a change source (`binlog/sources/port.py`), each with how far the source has been read. All
    ordinals are those of the landed stream."""

    def __init__(
        self, landed: LandedStream, options: HandoverOptions, stop: Callable[[], bool], *, after_seq: int, by_file: bool
    ) -> None:
        """Nothing is opened yet.

        Args:
            landed: What has landed of the source so far; it is read first, and then what has landed since.
            options: How to read.
            stop: Called while nothing comes; true ends the stream.
            after_seq: Ordinal of the last transaction before the wanted ones; it has landed.
            by_file: Whether positions are known to be files and offsets.
        """
        self._source, self._options, self._stop = landed.source, options, stop
        self._landed: LandedStream | None = landed
        """What has landed, until it has been read: its indexes are already open."""
        self._opened = False
        """Whether the stream has begun."""
        self._has_landed = bool(landed.segments)
        self._connected = options.has_answered
        self._reached = ReachedPosition(after_seq, by_file=by_file)
        self._last: LastTransaction | None = None
        """The last transaction that was read; the server must have it, to prove that its history is still the same."""

    def read_items(self) -> Generator[SourceItem]:
        """Yields the items; ends only by an error, or when `stop` returns true.

        Raises:
            StrataError: As `ChangeSource.read_items`.
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
            yield SourceItem(NothingNew(), self._reached)
            time.sleep(_STEP_SECONDS)

    def _pass(self, item: Item) -> SourceItem:
        """Moves to the position after an item."""
        if isinstance(item, Transactions):
            self._reached = self._reached.after(item.batch)
        return SourceItem(item, self._reached)

    # What has landed ------------------------------------------------------------------------------

    def _read_landed(self) -> Iterator[SourceItem]:
        while True:
            stream = self._landed or LandedStream.open(self._options.lake, self._source)
            self._landed = None
            self._has_landed = bool(stream.segments)
            if not stream.segments or (self._opened and stream.last_seq <= self._reached.seq):
                if stream.segments and stream.last_seq == self._reached.seq:
                    self._last = LastTransaction.landed(stream.segments[-1])
                return
            self._begin_landed(stream)
            for item in LandedSource(stream, self._reached.seq).read_items():
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
            at = BinlogPosition.from_offset(record.binlog_file, record.server_end)
        elif not stream.last_seq:
            # Nothing has been written since the stream began.
            at = BinlogPosition.from_offset(stream.segments[0].name.binlog_file, stream.segments[0].name.offset)
        self._reached = ReachedPosition(
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
            watch = HistoryWatch(self._options.address, server)
            items = stream.read_events(start, Until.CLOSED, after=reached.at)
            live = LiveSource(
                items, reached.executed, server.uuid, after_seq=reached.seq, clock=reached.clock
            ).read_items()
            shows_place = reached.by_file
            for item in live:
                given = time.monotonic()
                self._pass_head(item)
                yield self._pass(item)
                if isinstance(item, Transactions):
                    self._last, shows_place = LastTransaction.live(item, server.uuid), True
                    # What comes in this time waits in the socket.
                    time.sleep(max(0.0, given + self._options.gather_seconds - time.monotonic()))
                elif isinstance(item, NothingNew):
                    watch.look(self._reached.at if shows_place else None)
        finally:
            stream.close()
        raise SourceUnavailableError("the server ended the stream", source=self._source)

    def _pass_head(self, item: Item) -> None:
        """Moves to the position after the head of a file: for a long time, a file may have only its head."""
        at = item.after_head if isinstance(item, NothingNew) else None
        reached = self._reached
        if reached.by_file and at is not None and (reached.at is None or reached.at < at):
            self._reached = replace(reached, at=at)

    def _start(self, stream: BinlogStream, server: ServerState) -> bytes | str | BinlogPosition:
        if self._reached.by_file or not server.numbers_all:
            return self._start_by_file(stream, server)
        if not self._opened:
            # Nothing has landed: the stream begins with the oldest transaction that the server has.
            self._reached = replace(self._reached, executed=server.purged)
        executed = self._reached.executed
        self._refuse_other_history(server, executed)
        if self._last is not None:
            last = self._last
            unproved = prove_history(self._options.address, server, executed, last, lambda: first_commit(last))
            if unproved:
                _LOG.warning("%s: %s", self._source, unproved)
        return stream_request(executed, server.vendor)

    def _refuse_other_history(self, server: ServerState, executed: Executed) -> None:
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
            raise self._purged(server, gone)

    def _purged(self, server: ServerState, gone: Executed) -> BinlogPurgedError:
        """The error for transactions that were purged and have not landed.

        If others have landed, no later position can be read: nobody knows what the missing ones did to the tables.
        """
        remedy, begins = f"`strata land --source {self._source}` says how to land it", word(server.purged)
        if not self._has_landed:
            remedy += f"; `strata stream --source {self._source} --from {begins}` begins with what can be had"
        error = BinlogPurgedError(
            "the server has purged the next transactions, and they have not landed; what the server still has "
            f"begins after {server.purged}",
            source=self._source,
            gtid=str(gone),
            remedy=f"{remedy}.",
        )
        return error if self._has_landed else error.beginning(server.purged)

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
                remedy=f"`strata stream --source {self._source} --from {word(files.begin)}` begins with what can be "
                "had.",
            ).beginning(files.begin)
        if size is None or size < reached.at.offset:
            raise SourceDivergedError(
                f"the server's binlog ends at {files.end}, before the position of the stream",
                source=self._source,
                file=reached.at.file,
                offset=reached.at.offset,
                remedy="It was reset, or lost its end in a crash: land it under another source name.",
            )
        if self._last is not None and self._last.end <= reached.at and files.size(self._last.end.file) is not None:
            self._last.refuse_other_bytes(self._options.address)
        self._reached = replace(reached, server_uuid=server.uuid)
        return reached.at
