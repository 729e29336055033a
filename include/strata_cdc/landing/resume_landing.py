"""Where a landing goes on, and whether a server can go on there: by GTID set, or by file and offset.
Not here: the stream itself (`land_binlog.py`), cutting it (`cut_segments.py`)."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.events.gtid import encode_gtid_set
from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes
from strata_cdc.errors import BinlogPurgedError, BinlogUnreadableError, SourceDivergedError, SourceSettingsError
from strata_cdc.landing.first_landing import FileBegin, begin_by_file, begin_by_gtid
from strata_cdc.landing.last_transaction import NEW_NAME, LastTransaction, prove_landed
from strata_cdc.landing.recorder import Sender
from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.binlog.protocol.server_files import ServerFiles
    from strata_cdc.landing.cut_segments import SegmentCutter
    from strata_cdc.landing.first_landing import FirstMoment
    from strata_cdc.landing.landed import LandedSegment, LandedStream
    from strata_cdc.position.sets import GtidSet

_LOG = logging.getLogger("strata.land")


def open_resume(
    address: ServerAddress,
    stream: BinlogStream,
    server: ServerState,
    cutter: SegmentCutter,
    begins: Sequence[FirstMoment] = (),
) -> ByGtid | ByFile:
    """How a landing from a server goes on behind what has landed.

    By GTID where everything that follows has one. A server that executes transactions without a GTID is landed by file
    and offset, and so is what it has written until it numbers all of them.

    Args:
        address: The server.
        stream: A connection to it.
        server: What it says of itself.
        cutter: The end of what has landed.
        begins: Where the stream may begin if nothing has landed; empty: with the oldest that the server has.

    Raises:
        SourceDivergedError: What has landed is not in this server's binlog.
        BinlogPurgedError: The server no longer has what comes next.
        SourceUnavailableError: The server does not answer.
    """
    resume = cutter.end.resume if cutter.last or not begins else begins[0].resume
    if is_by_gtid(server, resume):
        return ByGtid(address, server, cutter, begins)
    return ByFile(address, server, stream.files(), cutter, begins)


def is_by_gtid(server: ServerState, resume: Resume) -> bool:
    """Whether a landing goes on by GTID."""
    return server.numbers_all and resume is Resume.GTID


class ByGtid:
    """The stream is what is not in the set that has landed, whichever server sends it."""

    def __init__(
        self, address: ServerAddress, server: ServerState, cutter: SegmentCutter, begins: Sequence[FirstMoment]
    ) -> None:
        """As `open_resume`."""
        self._address, self._cutter = address, cutter
        self._unseen = cutter.last
        """The segment behind which the server may pass over files of its own."""
        if cutter.is_first:
            begin = begin_by_gtid(begins, server)
            cutter.begin_at(begin.executed, seq=begin.seq, clock=begin.clock)
        check_sets(cutter.end.executed, server)
        if cutter.last:
            self._prove(cutter.last, server)
        self.executed = server.executed
        """What the server had executed when this began."""
        self.sender = Sender(server.uuid)

    def _prove(self, last: LandedSegment, server: ServerState) -> None:
        unproved = prove_landed(self._address, server, self._cutter.end.executed, last)
        if unproved:
            _LOG.warning("%s", unproved)

    def start(self) -> bytes:
        """What to ask for."""
        return encode_gtid_set(self._cutter.end.executed)

    def has_arrived(self) -> bool:
        """Whether all that the server had executed is here."""
        return self.executed <= self._cutter.executed()

    def begins_empty(self) -> bool:
        """Whether nothing is to come for a stream that has nothing yet."""
        return not self._cutter.has_begun and self.has_arrived()

    def transactions_left(self) -> int:
        """How many are to come, as far as is known."""
        return (self.executed - self._cutter.executed()).count()

    def check_complete(self) -> None:
        """Behind the end of the stream.

        Raises:
            SourceSettingsError: The server did not send all that it had executed.
        """
        missing = self.executed - self._cutter.end.executed
        if missing:
            raise SourceSettingsError(
                "the server has executed transactions that its binlog does not have",
                gtid=str(missing),
                remedy="On a replica set `log_replica_updates=ON`, or land from its source.",
            )

    def format_event(self, binlog_file: str, sent: bytes) -> bytes:
        """The FORMAT_DESCRIPTION of a file: the server sends it as it is there.

        Raises:
            SourceSettingsError: Between what has landed and the first file that is sent, transactions have no GTID.
        """
        last, self._unseen = self._unseen, None
        if last and last.summary.server_uuid == self.sender.server_uuid:
            _refuse_passed_over(self._address, LastTransaction.landed(last).end, BinlogPosition.of(binlog_file, 0))
        return sent

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of a file."""
        self._cutter.take_previous(event)


def _refuse_passed_over(address: ServerAddress, begin: BinlogPosition, first: BinlogPosition) -> None:
    """Asked by GTID set, a server begins with its newest file in front of which nothing numbered is missing. If it was
    in another gtid_mode for a while, the files before that may have transactions without a number."""
    files = first.file_number - begin.file_number
    if files <= 0:
        return
    stream = BinlogStream.open(address)
    try:
        # In mode ON the server itself ends this with an error at the first one without a GTID.
        for item in stream.read(begin):
            files -= isinstance(item, Control) and item.event[4] == EventType.FORMAT_DESCRIPTION
            if files < 0:
                break
    except (BinlogPurgedError, BinlogUnreadableError):
        # What is gone cannot be asked for any more; nor can it where the files were numbered anew.
        return
    finally:
        stream.close()


def check_sets(landed: GtidSet, server: ServerState) -> None:
    """Whether a server can go on where a landed GTID set ends.

    Raises:
        SourceDivergedError: It lacks transactions that have landed.
        BinlogPurgedError: It no longer has what comes next.
    """
    lost = landed - server.executed
    if lost:
        raise SourceDivergedError(
            f"the server lacks transactions that have landed; it has {server.executed or 'none'}, landed are {landed}",
            gtid=str(lost),
            remedy="Its binlog was reset, or it is another server than the one that was landed. Point the "
            "connection at a server that has them, or land this one under another source name.",
        )
    gone = server.purged - landed
    if gone:
        raise BinlogPurgedError(
            f"the server purged transactions before they landed; what it still has begins behind {server.purged}",
            gtid=str(gone),
            remedy="Land them from a replica that still has them, or from copies of the files: `strata land "
            "--files DIR`. Otherwise land under another source name, which begins where the server's binlog does, "
            "and keep binlogs longer: `SET PERSIST binlog_expire_logs_seconds = 604800`.",
        )


class ByFile:
    """The stream is what one server's files hold behind a place. Nothing in a transaction says where it belongs, so
    that each time the server has to show that it is the same, with the same bytes in front of that place."""

    def __init__(
        self,
        address: ServerAddress,
        server: ServerState,
        files: ServerFiles,
        cutter: SegmentCutter,
        begins: Sequence[FirstMoment],
    ) -> None:
        """As `open_resume`."""
        self._cutter = cutter
        self._tail = LastTransaction.landed(cutter.last) if cutter.last else None
        if self._tail:
            check_files(self._tail, server, files)
            self._tail.refuse_other_bytes(address)
        self.executed = server.executed
        """As of the other way; a part of what there is to land."""
        self._goal = files.end
        # The server begins a file with each change of gtid_mode (sql/sys_vars.cc, `Sys_var_gtid_mode`).
        self.sender = Sender(server.uuid, files.end.file_number if server.numbers_all else None)
        self._begin = FileBegin(self._tail.end) if self._tail else begin_by_file(begins, files)

    def start(self) -> BinlogPosition:
        """What to ask for."""
        return self._begin.position

    def has_arrived(self) -> bool:
        """Whether all that the server had written is here."""
        file, offset = self._cutter.position()
        return bool(file) and BinlogPosition.of(file, offset) >= self._goal

    def begins_empty(self) -> bool:
        """Never: no dump can be taken of it, and the files of a quiet server are purged without a transaction."""
        return False

    def transactions_left(self) -> int:
        """Nobody knows."""
        return 0

    def check_complete(self) -> None:
        """The server has sent its files to their end."""

    def format_event(self, binlog_file: str, sent: bytes) -> bytes:
        """The FORMAT_DESCRIPTION as it is in a file: it is sent with parts blanked out from within one."""
        if self._tail and self._tail.end.file == binlog_file:
            return self._tail.format_event
        return sent

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of a file; as long as nothing has landed, the stream begins behind it."""
        self._cutter.begin_behind(event, seq=self._begin.seq, clock=self._begin.clock)
        self._cutter.take_previous(event)


def check_files(tail: LastTransaction, server: ServerState, files: ServerFiles) -> None:
    """Whether a server may be the one that was landed, and has what comes next.

    Raises:
        SourceDivergedError: It is another one, or its binlog was reset.
        BinlogPurgedError: It no longer has what comes next.
    """
    if tail.server_uuid not in ("", server.uuid):
        raise SourceDivergedError(
            f"the server is {server.uuid}, and what has landed is from {tail.server_uuid}: transactions without a GTID "
            "cannot be found on another server",
            file=tail.end.file,
            offset=tail.end.offset,
            remedy=f"Point the connection at the old server. {NEW_NAME}",
        )
    size = files.size(tail.end.file)
    if size is None and tail.end < files.begin:
        raise BinlogPurgedError(
            f"the server purged what comes next; the first file that it still has is {files.begin.file}, and what it "
            f"wrote between {tail.end} and there is lost to this source",
            file=tail.end.file,
            offset=tail.end.offset,
            remedy=f"{NEW_NAME} Keep binlogs longer: `SET PERSIST binlog_expire_logs_seconds = 604800`.",
        )
    if size is None or size < tail.end.offset:
        raise tail.diverged(f"it ends at {files.end}")


class LandingGoal(Struct, frozen=True):
    """All that a server had executed at one moment, for those who wait until another process has landed it."""

    address: ServerAddress
    server: ServerState
    files: ServerFiles

    @classmethod
    def read(cls, address: ServerAddress) -> Self:
        """Asks the server.

        Raises:
            StrataError: As `BinlogStream.open`.
        """
        with closing(BinlogStream.open(address)) as stream:
            return cls(address, stream.state(), stream.files())

    def is_reached(self, landed: LandedStream) -> bool:
        """Whether it has landed.

        Raises:
            StrataError: The server or the lake does not answer.
        """
        if is_by_gtid(self.server, landed.resume):
            return self.server.executed <= landed.executed()
        reached = LastTransaction.landed(landed.segments[-1]).end if landed.segments else self.files.begin
        return reached >= self.files.end or not self._follows(reached)

    def _follows(self, start: BinlogPosition) -> bool:
        """Whether a transaction is behind a place: the ends and beginnings of files never land by themselves."""
        with closing(BinlogStream.open(self.address)) as stream:
            pieces = (item.data for item in stream.read(start) if isinstance(item, EventBytes))
            return any(data[4] != EventType.STOP for data in pieces)
