"""Lands what a server has executed: its binlog as segments with their indexes, resumed from what lies on disk.
Not here: the protocol (`wire/replication.py`), how a segment is written (`events/recorder.py`)."""

from __future__ import annotations

import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strata.errors import (
    BinlogPurgedError,
    SourceDivergedError,
    SourceSettingsError,
    SourceUnavailableError,
    StrataError,
    StreamHoleError,
)
from strata.events.gtid import encode_gtid_set, parse_previous_gtids
from strata.events.landed import LandedStream, landing_folder
from strata.events.parse import parse_rotate
from strata.events.recorder import FileHead, SegmentRecorder, StreamEnd
from strata.events.repair import repair_landing
from strata.gtid.sets import GtidSet
from strata.wire.codes import CHECKSUM_BYTES, HEADER_BYTES, EventFlag, EventType
from strata.wire.format import FormatDescription, parse_format_description
from strata.wire.lock import hold_folder
from strata.wire.replication import BinlogStream, Control, Piece, ServerState

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata.wire.connection import ServerAddress
    from strata.wire.storage import Folder

SEGMENT_BYTES = 256 << 20
_SCAN_BYTES = 16 << 20
_TAIL_BYTES = 32 << 20
"""A larger beginning of a transaction stays in its segment, which then grows beyond the limit."""


@dataclass(frozen=True, slots=True)
class LandReport:
    """What one landing did; small enough for XCom."""

    source: str
    segments: int
    first_segment: str | None
    last_segment: str | None
    bytes: int
    transactions: int
    last_seq: int
    """Ordinal of the last transaction in the stream."""
    executed_before: str
    """GTID set that had landed before."""
    executed: str
    """GTID set that has landed now."""
    gtid_executed: str
    """What the server had executed when the step began."""
    clock: int
    """The commit clock of the last transaction, microseconds UTC."""
    seconds: float


@dataclass(frozen=True, slots=True)
class LandProgress:
    """How far a landing is."""

    transactions: int
    of_transactions: int
    bytes: int
    clock: int
    """Commit time of the newest whole transaction, microseconds UTC; 0 before the first."""


def land_binlog(
    address: ServerAddress,
    *,
    lake: str,
    source: str,
    segment_bytes: int = SEGMENT_BYTES,
    progress: Callable[[LandProgress], None] | None = None,
) -> LandReport:
    """Lands all that the server has executed by now and that has not landed yet.

    Killed at any time, it leaves what is published; the next run goes on from there, and doubles nothing.

    Args:
        address: The server.
        lake: Folder or URL of the lake.
        source: Name of the source, which is the folder below `landing`.
        segment_bytes: A segment ends with a transaction within some megabytes behind so many bytes.
        progress: Is told about every 16 MB.

    Raises:
        AlreadyRunningError: Another landing of this source runs.
        BinlogPurgedError: The server no longer has what comes next.
        SourceDivergedError: The server lacks transactions that have landed.
        SourceSettingsError: The server numbers no transactions, or writes no binlog.
        AccessDeniedError: Wrong password, or no grant to replicate.
        SourceUnavailableError: The server does not answer, or the connection broke; what had arrived is kept.
        LakeUnavailableError: The storage refuses or is full.
        CorruptEventError: What the server sent is damaged.
    """
    started = time.monotonic()
    folder = landing_folder(lake, source)
    try:
        with hold_folder(folder, f"landing {source}"):
            repair_landing(folder)
            return _Landing(address, lake, source, segment_bytes, progress).run(started)
    except StrataError as error:
        raise error.located(source=source) from None


class _Landing:
    """One run: the state between two pieces of the stream."""

    def __init__(
        self,
        address: ServerAddress,
        lake: str,
        source: str,
        segment_bytes: int,
        progress: Callable[[LandProgress], None] | None,
    ) -> None:
        landed = LandedStream.open(lake, source)
        self._address = address
        self._source = source
        self._folder: Folder = landing_folder(lake, source)
        self._segment_bytes = segment_bytes
        self._progress = progress
        self._is_first = not landed.segments
        last = landed.segments[-1] if landed.segments else None
        self._end = StreamEnd.of(last.summary, last.name.ordinal) if last else StreamEnd()
        self._recorder: SegmentRecorder | None = None
        self._binlog_file = ""
        self._head: FileHead | None = None
        self._published: list[str] = []
        self._bytes = 0
        self._seq_before = 0
        self._goal = GtidSet()
        self._server_uuid = ""
        self._arrived = False

    def run(self, started: float) -> LandReport:
        stream = BinlogStream.open(self._address)
        try:
            stream.hold(f"strata-land-{self._source}")
            server = stream.state()
            if self._is_first:
                self._end = StreamEnd(executed=server.purged)
            before = self._end
            self._check(server)
            self._goal, self._server_uuid, self._seq_before = server.executed, server.uuid, before.seq
            self._note_arrival(before.executed)
            if not self._arrived:
                self._land(stream)
        finally:
            stream.close()
        return LandReport(
            source=self._source,
            segments=len(self._published),
            first_segment=self._published[0] if self._published else None,
            last_segment=self._published[-1] if self._published else None,
            bytes=self._bytes,
            transactions=self._end.seq - before.seq,
            last_seq=self._end.seq,
            executed_before=str(before.executed),
            executed=str(self._end.executed),
            gtid_executed=str(server.executed),
            clock=self._end.clock,
            seconds=round(time.monotonic() - started, 3),
        )

    def _check(self, server: ServerState) -> None:
        """Whether this server can go on where the landed stream ends."""
        landed = self._end.executed
        lost = landed - server.executed
        if lost:
            raise SourceDivergedError(
                "the server lacks transactions that have landed; "
                f"it has {server.executed or 'none'}, landed are {landed}",
                gtid=str(lost),
                remedy="Its binlog was reset, or it is another server than the one that was landed. Point the "
                "connection at a server that has them, or land this one under another source name.",
            )
        gone = server.purged - landed
        if gone:
            raise BinlogPurgedError(
                f"the server purged transactions before they landed; what it still has begins behind {server.purged}",
                gtid=str(gone),
                remedy="Land them from a replica that still has them, or from copies of the files. Otherwise land "
                "under another source name, which begins where the server's binlog does, and keep binlogs longer: "
                "`SET PERSIST binlog_expire_logs_seconds = 604800`.",
            )

    def _land(self, stream: BinlogStream) -> None:
        try:
            for item in stream.read(encode_gtid_set(self._end.executed)):
                if isinstance(item, Control):
                    self._take_control(item.event)
                else:
                    self._take_piece(item)
                if self._arrived:
                    break
            self._finish_segment()
        except SourceUnavailableError:
            # A connection that breaks every few minutes would otherwise never get beyond its first segment.
            self._finish_segment()
            raise
        finally:
            if self._recorder:
                self._recorder.discard()
        missing = self._goal - self._end.executed
        if missing:
            raise SourceSettingsError(
                "the server's binlog ends before what it has executed",
                gtid=str(missing),
                remedy="On a replica set `log_replica_updates=ON`, or land from its source.",
            )

    def _take_control(self, event: bytes) -> None:
        kind = event[4]
        flags = int.from_bytes(event[17:19], "little")
        if kind == EventType.ROTATE:
            self._take_rotate(event, flags)
        elif kind == EventType.FORMAT_DESCRIPTION:
            self._finish_segment()
            form = parse_format_description(event[HEADER_BYTES:])
            self._head = FileHead(self._binlog_file, form, event)
        elif kind == EventType.PREVIOUS_GTIDS and self._head is not None:
            self._check_previous(event, self._head.form)
            self._head = FileHead(self._head.binlog_file, self._head.form, self._head.format_event, event)

    def _take_rotate(self, event: bytes, flags: int) -> None:
        if flags & EventFlag.ARTIFICIAL:
            self._finish_segment()
            self._binlog_file = _rotate_name(event)
            return
        if self._recorder:
            self._recorder.append(event)
        self._finish_segment()

    def _check_previous(self, event: bytes, form: FormatDescription) -> None:
        end = len(event) - form.checksum_bytes
        previous = parse_previous_gtids(event[HEADER_BYTES:end]).gtid_set
        hole = previous - self._end.executed
        if hole:
            raise StreamHoleError(
                "the server goes on with a file before which more had been executed than has landed",
                gtid=str(hole),
                file=self._binlog_file,
            )

    def _take_piece(self, piece: Piece) -> None:
        self._append(piece.data)
        recorder = self._recorder
        if recorder is None or recorder.unscanned < min(_SCAN_BYTES, self._segment_bytes):
            return
        recorder.scan()
        self._note_arrival(recorder.executed())
        self._tell(recorder)
        if recorder.size >= self._segment_bytes and recorder.transactions and self._fits_next(recorder.tail):
            tail = recorder.take_tail()
            self._finish_segment()
            if tail:
                self._append(memoryview(tail))

    @staticmethod
    def _fits_next(tail: int) -> bool:
        """Whether the beginning of a transaction may move to the next segment: its first header must be there."""
        return tail == 0 or HEADER_BYTES <= tail <= _TAIL_BYTES

    def _append(self, data: memoryview) -> None:
        if self._recorder is None:
            if self._head is None:
                raise StreamHoleError("the server sent events before a format description")
            length, log_pos = (int.from_bytes(data[at : at + 4], "little") for at in (9, 13))
            self._recorder = SegmentRecorder(
                self._folder,
                self._end,
                self._head,
                offset=(log_pos - length) & 0xFFFFFFFF,
                server_uuid=self._server_uuid,
            )
        self._recorder.append(data)

    def _finish_segment(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            end = recorder.finish()
        except StrataError:
            recorder.discard()
            raise
        if end != self._end:
            self._published.append(str(recorder.name))
            self._bytes += recorder.size
            self._end = end
            self._note_arrival(end.executed)
        self._tell(None)

    def _note_arrival(self, executed: GtidSet) -> None:
        # Only where the set has grown: comparing large sets for each piece would cost more than landing them.
        self._arrived = self._goal <= executed

    def _tell(self, recorder: SegmentRecorder | None) -> None:
        if self._progress:
            self._progress(
                LandProgress(
                    transactions=self._end.seq - self._seq_before + (recorder.transactions if recorder else 0),
                    of_transactions=(self._goal - self._end.executed).count() + self._end.seq - self._seq_before,
                    bytes=self._bytes + (recorder.size if recorder else 0),
                    clock=recorder.clock if recorder else self._end.clock,
                )
            )


def _rotate_name(event: bytes) -> str:
    """The file that an artificial ROTATE names.

    Whether a checksum stands behind the name is said only by the FORMAT_DESCRIPTION that follows
    (`Binlog_sender::fake_rotate_event`), so the checksum itself has to tell.
    """
    has_checksum = zlib.crc32(event[:-CHECKSUM_BYTES]) == int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return parse_rotate(event[HEADER_BYTES : -CHECKSUM_BYTES if has_checksum else None]).file
