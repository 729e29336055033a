"""Where a landing continues, and whether a server can continue there: by GTID set, or by file and offset.
Not here: the stream itself (`land_binlog.py`), cutting it (`cut_segments.py`)."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.events.gtid import stream_request
from strata_cdc.binlog.events.index import Resume
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes
from strata_cdc.errors import (
    BinlogPurgedError,
    BinlogUnreadableError,
    SourceDivergedError,
    SourceSettingsError,
    StrataError,
)
from strata_cdc.flavour import Vendor
from strata_cdc.landing.cut_segments import refuse_other_family
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
    from strata_cdc.position.port import Executed

_LOG = logging.getLogger("strata.land")
_MARIADB = (
    " Or a session has set `gtid_seq_no` back: `SET GLOBAL gtid_strict_mode = ON` prevents that. Or `FLUSH BINARY LOGS "
    "DELETE_DOMAIN_ID` has removed what the server knew of a domain."
)


def open_resume(
    address: ServerAddress,
    stream: BinlogStream,
    server: ServerState,
    cutter: SegmentCutter,
    begins: Sequence[FirstMoment] = (),
) -> ByGtid | ByFile:
    """How a landing from a server continues after what has landed.

    By GTID, if everything that follows has a GTID. A server that executes transactions without GTIDs is landed by file
    and offset, and so is everything that it wrote before all its transactions had GTIDs.

    Args:
        address: The server.
        stream: A connection to it.
        server: The server's state.
        cutter: The end of what has landed.
        begins: Where the stream may begin if nothing has landed; empty: with the oldest binlog that the server has.

    Raises:
        SourceDivergedError: What has landed is not in this server's binlog.
        BinlogPurgedError: The server no longer has what comes next.
        SourceUnavailableError: The server does not answer.
    """
    refuse_other_family(cutter.end.executed, server.vendor)
    resume = cutter.end.resume if cutter.last or not begins else begins[0].resume
    if is_by_gtid(server, resume):
        return ByGtid(address, server, cutter, begins)
    return ByFile(address, server, stream.files(), cutter, begins)


def is_by_gtid(server: ServerState, resume: Resume) -> bool:
    """Whether a landing continues by GTID."""
    return server.numbers_all and resume is Resume.GTID


class ByGtid:
    """The stream is everything that is not in the landed GTID set, from whichever server."""

    def __init__(
        self, address: ServerAddress, server: ServerState, cutter: SegmentCutter, begins: Sequence[FirstMoment]
    ) -> None:
        """As `open_resume`."""
        self._address, self._cutter = address, cutter
        self._unseen = cutter.last
        """The segment after which the server may skip some of its files."""
        if cutter.is_first:
            begin = begin_by_gtid(begins, server, partial(still_has, address, server))
            cutter.begin_at(begin.executed, seq=begin.seq, clock=begin.clock)
        check_sets(cutter.end.executed, server)
        self._after = LastTransaction.landed(cutter.last).end if cutter.last else None
        if cutter.last:
            self._prove(cutter.last, server)
        self.executed = server.executed
        """What the server had executed when this began."""
        self._vendor = server.vendor
        self.sender = Sender(server.uuid)

    def _prove(self, last: LandedSegment, server: ServerState) -> None:
        unproved = prove_landed(self._address, server, self._cutter.end.executed, last)
        if unproved:
            _LOG.warning("%s", unproved)

    def start(self) -> bytes | str:
        """What to ask for."""
        return stream_request(self._cutter.end.executed, self._vendor)

    def after(self) -> BinlogPosition | None:
        """Where the last landed transaction ends; None if nothing has landed."""
        return self._after

    def has_arrived(self) -> bool:
        """Whether everything that the server had executed has arrived."""
        return self.executed <= self._cutter.executed()

    def begins_empty(self) -> bool:
        """Whether an empty stream has nothing to receive."""
        return not self._cutter.has_begun and self.has_arrived()

    def transactions_left(self) -> int:
        """How many transactions are still to come, as far as is known."""
        return (self.executed - self._cutter.executed()).count()

    def check_complete(self) -> None:
        """Checks, after the end of the stream, that everything has arrived.

        Raises:
            SourceSettingsError: The server did not send everything that it had executed.
            SourceDivergedError: A server of MariaDB has set a number back.
        """
        landed = self._cutter.end.executed
        self._refuse_step_back(landed)
        missing = self.executed - landed
        if missing:
            raise SourceSettingsError(
                "the server has executed transactions that its binlog does not have",
                gtid=str(missing),
                remedy="On a replica set `log_replica_updates=ON`, or land from its source.",
            )

    def _refuse_step_back(self, landed: Executed) -> None:
        """Refuses MariaDB's number that was set back after the newest that has landed: the server's position names
        it, and seems to have arrived before it does."""
        if self._vendor is Vendor.MYSQL or not landed - self.executed:
            return
        with closing(BinlogStream.open(self._address)) as stream:
            check_sets(landed, stream.state())

    def format_event(self, binlog_file: str, sent: bytes) -> bytes:
        """The FORMAT_DESCRIPTION of a file: the server sends it unchanged.

        Raises:
            SourceSettingsError: Between what has landed and the first file that the server sends, transactions have no
                GTID.
        """
        last, self._unseen = self._unseen, None
        if self._vendor is Vendor.MYSQL and last and last.summary.server_uuid == self.sender.server_uuid:
            _refuse_passed_over(
                self._address, LastTransaction.landed(last).end, BinlogPosition.from_offset(binlog_file, 0)
            )
        return sent

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of a file."""
        self._cutter.take_previous(event)


def _refuse_passed_over(address: ServerAddress, begin: BinlogPosition, first: BinlogPosition) -> None:
    """For a GTID set, a server begins with its newest file before which no GTID is missing. If it was in another
    gtid_mode for a while, the files before that one may have transactions without a GTID."""
    files = first.file_number - begin.file_number
    if files <= 0:
        return
    stream = BinlogStream.open(address)
    try:
        # In mode ON the server itself ends this with an error at the first transaction without a GTID.
        for item in stream.read_events(begin):
            files -= isinstance(item, Control) and item.event[4] == EventType.FORMAT_DESCRIPTION
            if files < 0:
                break
    except (BinlogPurgedError, BinlogUnreadableError):
        # Purged files cannot be read any more; nor can these, if the numbers of the files began again.
        return
    finally:
        stream.close()


def still_has(address: ServerAddress, server: ServerState, executed: Executed) -> bool:
    """Whether a server has everything that it executed after a position.

    A server that keeps its binlog in its storage engine does not say what it has purged: it is requested from there.

    Raises:
        StrataError: As `BinlogStream.read_events`, except that of purged events.
    """
    if not server.binlog_engine:
        return server.purged <= executed
    with closing(BinlogStream.open(address)) as stream:
        try:
            next(iter(stream.read_events(stream_request(executed, server.vendor))), None)
        except BinlogPurgedError:
            return False
    return True


def refuse_lacking(landed: Executed, server: ServerState) -> None:
    """Checks that a server has all transactions of a landed GTID set.

    Raises:
        SourceDivergedError: It lacks some.
    """
    lost = landed - server.executed
    if lost:
        raise SourceDivergedError(
            f"the server lacks transactions that have landed; it has {server.executed or 'none'}, landed are {landed}",
            gtid=str(lost),
            remedy="A late replica will have them: run the same again then. Otherwise its binlog was reset, or it is "
            "another server than the one that was landed: point the connection at a server that has them, or land this "
            "server under another source name." + (_MARIADB if server.vendor is Vendor.MARIADB else ""),
        )


def check_sets(landed: Executed, server: ServerState) -> None:
    """Checks that a server can continue where a landed GTID set ends.

    Raises:
        SourceDivergedError: It lacks transactions that have landed.
        BinlogPurgedError: It no longer has what comes next.
    """
    refuse_lacking(landed, server)
    gone = server.purged - landed
    if gone:
        raise BinlogPurgedError(
            f"the server purged transactions before they landed; those that it still has begin after {server.purged}",
            gtid=str(gone),
            remedy="Land them from a replica that still has them, or from copies of the files: `strata land "
            "--files DIR`. Otherwise land under another source name, which begins where the server's binlog does, "
            "and keep binlogs longer: `SET PERSIST binlog_expire_logs_seconds = 604800`.",
        )


class ByFile:
    """The stream is what one server's files hold after a position. Nothing in a transaction says where it belongs, so
    each time the server has to prove that it is the same server, by the same bytes before that position."""

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
        """As in `ByGtid`; a part of what is to land."""
        self._goal = files.end
        # The server begins a file with each change of gtid_mode (sql/sys_vars.cc, `Sys_var_gtid_mode`).
        self.sender = Sender(server.uuid, files.end.file_number if server.numbers_all else None)
        self._begin = FileBegin(self._tail.end) if self._tail else begin_by_file(begins, files)

    def start(self) -> BinlogPosition:
        """What to ask for."""
        return self._begin.position

    def after(self) -> None:
        """None: the server has positions."""

    def has_arrived(self) -> bool:
        """Whether everything that the server had written has arrived."""
        file, offset = self._cutter.position()
        return bool(file) and BinlogPosition.from_offset(file, offset) >= self._goal

    def begins_empty(self) -> bool:
        """Never: such a server cannot be dumped, and the files of an idle server are purged without a transaction."""
        return False

    def transactions_left(self) -> int:
        """0: it is not known."""
        return 0

    def check_complete(self) -> None:
        """The server has sent its files to their end."""

    def format_event(self, binlog_file: str, sent: bytes) -> bytes:
        """The FORMAT_DESCRIPTION as it is in the file: a stream that starts inside a file has it with parts blanked
        out."""
        if self._tail and self._tail.end.file == binlog_file:
            return self._tail.format_event
        return sent

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of a file; if nothing has landed, the stream begins after it."""
        self._cutter.begin_after(event, seq=self._begin.seq, clock=self._begin.clock)
        self._cutter.take_previous(event)


def check_files(tail: LastTransaction, server: ServerState, files: ServerFiles) -> None:
    """Checks that a server can be the server that was landed, and has what comes next.

    Raises:
        SourceDivergedError: It is another server, or its binlog was reset.
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
            f"the server purged the next transactions; the first file that it still has is {files.begin.file}, and "
            f"what it wrote between {tail.end} and there is lost to this source",
            file=tail.end.file,
            offset=tail.end.offset,
            remedy=f"{NEW_NAME} Keep binlogs longer: `SET PERSIST binlog_expire_logs_seconds = 604800`.",
        )
    if size is None or size < tail.end.offset:
        raise tail.diverged(f"it ends at {files.end}")


def check_history(address: ServerAddress, landed: LandedStream, server: ServerState | None = None) -> None:
    """Checks that a server has what has landed of it, for those who read it beside a landing.

    Args:
        address: The server.
        landed: What has landed; the server is asked after that.
        server: The server's state; None: it is queried. If it has executed more than has landed by GTID, only sets are
            compared: the landing of the rest compares transactions.

    Raises:
        SourceDivergedError: It lacks some of it, or has something else instead.
        BinlogPurgedError: It is landed by file, and no longer has what comes next.
        StrataError: It does not answer.
    """
    if not landed.segments:
        return
    try:
        with closing(BinlogStream.open(address)) as stream:
            is_known, server = server is not None, server or stream.state()
            if not is_by_gtid(server, landed.resume):
                tail = LastTransaction.landed(landed.segments[-1])
                check_files(tail, server, stream.files())
                tail.refuse_other_bytes(address)
                return
        executed = landed.executed()
        refuse_lacking(executed, server)
        if is_known and server.executed - executed:
            return
        unproved = prove_landed(address, server, executed, landed.segments[-1])
    except StrataError as error:
        raise error.located(source=landed.source) from None
    if unproved:
        _LOG.warning("%s: %s", landed.source, unproved)


class LandingGoal(Struct, frozen=True):
    """Everything that a server had executed at one moment, to wait until another process has landed it."""

    address: ServerAddress
    server: ServerState
    files: ServerFiles | None
    """None: its binlog is in its storage engine, and each transaction has a GTID."""

    @classmethod
    def from_server(cls, address: ServerAddress) -> Self:
        """Queries the server.

        Raises:
            StrataError: As `BinlogStream.open`.
        """
        with closing(BinlogStream.open(address)) as stream:
            server = stream.state()
            return cls(address, server, None if server.binlog_engine else stream.files())

    def is_reached(self, landed: LandedStream) -> bool:
        """Whether it has landed.

        Raises:
            StrataError: The server or the lake does not answer.
        """
        if self.files is None or is_by_gtid(self.server, landed.resume):
            return self.server.executed <= landed.executed()
        reached = LastTransaction.landed(landed.segments[-1]).end if landed.segments else self.files.begin
        return reached >= self.files.end or not self._follows(reached)

    def _follows(self, start: BinlogPosition) -> bool:
        """Whether a transaction follows a position: the ends and beginnings of files never land alone."""
        with closing(BinlogStream.open(self.address)) as stream:
            chunks = (item.data for item in stream.read_events(start) if isinstance(item, EventBytes))
            return any(data[4] != EventType.STOP for data in chunks)
