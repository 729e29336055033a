"""Lands what a server has executed: its binlog as segments with their indexes, continued from what is in the lake.
Not here: the protocol (`binlog/protocol/replication.py`), cutting the stream (`cut_segments.py`), continuous
landing (`follow_binlog.py`)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import EXECUTED_LISTS, HEADER_BYTES, EventFlag, EventType
from strata_cdc.binlog.bytes.format import parse_format_description, with_own_checksum
from strata_cdc.binlog.protocol.replication import BinlogStream, Control, EventBytes, Quiet, Until
from strata_cdc.binlog.protocol.source_lock import SourceLock
from strata_cdc.binlog.sources.live import rotate_name, rotate_offset
from strata_cdc.errors import SourceUnavailableError
from strata_cdc.landing.cut_segments import SCAN_SECONDS, SEGMENT_BYTES, LandReport, SegmentCutter, open_landing
from strata_cdc.landing.history_watch import HistoryWatch
from strata_cdc.landing.land_state import CompleteUntil, Doing, LandNotes, LandProgress
from strata_cdc.landing.landing_terms import FREE, LandingTerms, LandingThrottle
from strata_cdc.landing.recorder import FileHead
from strata_cdc.landing.resume_landing import ByFile, open_resume
from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.landing.first_landing import FirstMoment
    from strata_cdc.landing.resume_landing import ByGtid

_REPORT_SECONDS = 1.0
_COMPLETE_SECONDS = 10.0
"""While nothing comes, the server is asked so often up to when its binlog is complete: intervals wait for it."""
_LOG_POSITION = slice(13, 17)
"""In an event's header: where it ends in its file."""


def land_binlog(
    address: ServerAddress,
    *,
    lake: str,
    source: str,
    segment_bytes: int = SEGMENT_BYTES,
    begins: Sequence[FirstMoment] = (),
    terms: LandingTerms = FREE,
    progress: Callable[[LandProgress], None] | None = None,
) -> LandReport:
    """Lands everything that the server has executed by now and that has not landed yet.

    If it is killed at any time, what is published stays; the next run continues from there, and duplicates nothing.

    Args:
        address: The server.
        lake: Folder or URL of the lake.
        source: Name of the source, which is the folder below `landing`.
        segment_bytes: A segment ends with a transaction, at most some megabytes after this many bytes.
        begins: Where the stream may begin if nothing has landed; empty: with the oldest binlog that the server has.
        terms: As which replica, and how fast, the server is read.
        progress: Called about every 16 MB.

    Raises:
        AlreadyRunningError: Another landing of this source runs.
        BinlogPurgedError: The server no longer has what comes next.
        SourceDivergedError: The server lacks transactions that have landed, or it is not proved that it has them.
        SourceSettingsError: The server writes no binlog, or not everything that it executes.
        AccessDeniedError: Wrong password, or no grant to replicate.
        SourceUnavailableError: The server does not answer, or the connection broke; what had arrived is kept.
        LakeUnavailableError: The storage refuses or is full.
        CorruptEventError: What the server sent is damaged.
    """
    notes = LandNotes(lake, source, str(address), Doing.LANDING, progress)
    with (
        open_landing(lake, source, segment_bytes, notes, landing_lock(address, source)) as cutter,
        connected(address, cutter, begins, terms) as connection,
    ):
        Landing(connection, cutter, notes, terms).run()
    return cutter.report(connection.resume.executed)


def landing_lock(address: ServerAddress, source: str) -> SourceLock:
    """The lock that prevents a second landing of a source if the lake is no local folder."""
    return SourceLock(address, f"strata-land-{source}")


class LandingConnection(Struct, frozen=True):
    """A connection to a server, over which a landing continues."""

    address: ServerAddress
    stream: BinlogStream
    server: ServerState
    """When the connection was made."""
    resume: ByGtid | ByFile
    """Where it continues, and what the server had executed then."""


@contextmanager
def connected(
    address: ServerAddress, cutter: SegmentCutter, begins: Sequence[FirstMoment], terms: LandingTerms
) -> Iterator[LandingConnection]:
    """A connection that continues at the cutter's position; needs the locks of the landing.

    Raises:
        StrataError: As `open_resume`.
    """
    stream = BinlogStream.open(address, server_id=terms.server_id)
    try:
        server = stream.state()
        yield LandingConnection(address, stream, server, open_resume(address, stream, server, cutter, begins))
    finally:
        stream.close()


class Landing:
    """What lands over one connection: the state between two chunks of its stream."""

    def __init__(
        self, connection: LandingConnection, cutter: SegmentCutter, notes: LandNotes, terms: LandingTerms
    ) -> None:
        """Nothing has come yet."""
        self._stream, self._resume = connection.stream, connection.resume
        self._throttle = LandingThrottle(terms.bytes_per_second)
        self._cutter, self._notes = cutter, notes
        self._binlog_file, self._offset = "", 0
        seconds = min(_COMPLETE_SECONDS, connection.address.limits.history_seconds)
        self._watch = HistoryWatch(connection.address, connection.server, seconds)
        self._began_after = cutter.seq
        """Ordinal of the last transaction before this connection."""
        self._has_arrived = False
        self._server = connection.server
        """When the connection was made; while it is quiet, as it was queried last."""
        self._complete: CompleteUntil | None = None
        self._server_at = self._reported = time.monotonic()

    def run(self) -> None:
        """Lands up to what the server had executed when this began.

        Raises:
            StrataError: As `land_binlog`.
        """
        self._tell_arrival()
        if not self._is_done():
            # A storage engine sends only what is durable, which may be less than what the server has executed.
            until = Until.ENOUGH if self._server.binlog_engine else Until.END_OF_BINLOG
            self._receive(until, partial(self._is_enough, until))
        self._resume.check_complete()

    def follow(self, stop: Callable[[], bool], segment_seconds: float) -> None:
        """Lands until `stop` returns true; the transactions that are complete by then are published.

        Args:
            stop: Called at least every half second.
            segment_seconds: A segment is published when it is this old.

        Raises:
            StrataError: As `land_binlog`.
        """
        self._tell_arrival()

        def at_item(item: EventBytes | Control | Quiet) -> bool:
            if isinstance(item, Quiet):
                self._look_at_server()
            if time.monotonic() - self._reported >= _REPORT_SECONDS:
                self._cutter.scan(_REPORT_SECONDS)
                self._tell(is_idle=isinstance(item, Quiet))
            self._cutter.cut(segment_seconds)
            return stop()

        self._receive(Until.CLOSED, at_item)

    def _look_at_server(self) -> None:
        server = self._watch.look(self._read_to())
        if server is not None:
            self._server, self._server_at = server, time.monotonic()
            self._note_complete()

    def _note_complete(self) -> None:
        """If all that the server had committed when it was queried last has arrived, it is complete up to then."""
        committed = self._server.committed
        if committed is not None and committed <= self._cutter.executed():
            self._complete = CompleteUntil(self._server.now, self._cutter.seq)

    def _read_to(self) -> BinlogPosition | None:
        """Up to where its files have been read; None before the first transaction of a connection by GTID: the one
        before it may have landed from another server."""
        shows_place = isinstance(self._resume, ByFile) or self._cutter.seq > self._began_after
        file, offset = self._cutter.position() if shows_place else ("", 0)
        return BinlogPosition.from_offset(file, offset) if file else None

    def _is_enough(self, until: Until, item: EventBytes | Control | Quiet) -> bool:
        if until is Until.ENOUGH and not isinstance(item, EventBytes):
            # Silence or a heartbeat: nothing may follow, and the server does not say so.
            self._look(0.0)
        return self._is_done() or (self._has_arrived and self._cutter.seq > self._cutter.end.seq)

    def _is_done(self) -> bool:
        return self._has_arrived and self._cutter.has_begun

    def _tell_arrival(self) -> None:
        self._note_arrival()
        self._note_complete()
        self._tell(is_idle=self._has_arrived)

    def _receive(self, until: Until, is_enough: Callable[[EventBytes | Control | Quiet], bool]) -> None:
        cutter = self._cutter
        try:
            for item in self._stream.read_events(self._resume.start(), until, after=self._resume.after()):
                if isinstance(item, Control):
                    self._take_control(item.event)
                elif isinstance(item, EventBytes):
                    cutter.append(item.data)
                    self._throttle.pause(len(item.data))
                    cutter.require_room(item.missing)
                    self._look()
                if is_enough(item):
                    break
            cutter.finish()
        except SourceUnavailableError:
            # A connection that breaks every few minutes would otherwise never get beyond its first segment.
            cutter.finish()
            raise
        finally:
            cutter.discard()
        self._tell_arrival()

    def _look(self, max_seconds: float = SCAN_SECONDS) -> None:
        if self._cutter.scan(max_seconds):
            self._note_arrival()
            self._tell()
            self._cutter.cut()

    def _take_control(self, event: bytes) -> None:
        kind = event[4]
        flags = int.from_bytes(event[17:19], "little")
        if kind == EventType.ROTATE:
            if flags & EventFlag.ARTIFICIAL:
                self._cutter.finish()
                self._binlog_file, self._offset = rotate_name(event), rotate_offset(event)
            else:
                self._cutter.append_last(event)
                self._cutter.finish()
            self._note_arrival()
        elif kind == EventType.FORMAT_DESCRIPTION:
            event = self._resume.format_event(self._binlog_file, event)
            form = parse_format_description(event[HEADER_BYTES:])
            head = FileHead(self._binlog_file, form, with_own_checksum(event, form))
            self._cutter.start_file(head, self._resume.sender, self._offset)
        elif kind in EXECUTED_LISTS:
            # MariaDB makes a list for the connection, of what the stream continues after.
            if not flags & EventFlag.ARTIFICIAL:
                self._resume.take_previous(event)
            if self._resume.begins_empty():
                self._cutter.begin_empty(int.from_bytes(event[_LOG_POSITION], "little"))

    def _note_arrival(self) -> None:
        # Called only when the set has grown: comparing large sets for each chunk would cost more than landing.
        self._has_arrived = self._resume.has_arrived()

    def _tell(self, *, is_idle: bool = False) -> None:
        cutter = self._cutter
        self._reported = now = time.monotonic()
        landed = cutter.seq - cutter.before.seq
        server_now = self._server.now + (now - self._server_at) * 1e6
        behind = 0.0 if is_idle or not cutter.clock else max(0.0, (server_now - cutter.clock) / 1e6)
        self._notes.tell(
            LandProgress(
                transactions=landed,
                of_transactions=landed + self._resume.transactions_left(),
                bytes=cutter.landed_bytes,
                clock=cutter.clock,
                lag_seconds=round(behind, 3),
                expire_seconds=self._server.expire_seconds,
                complete=self._complete,
            )
        )
