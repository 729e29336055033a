"""Cuts a stream of events into landed segments: at files, at a size, at an age, and between transactions only.
Not here: where the events come from (`land_binlog.py`, `land_files.py`), writing them (`landing/recorder.py`)."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import HEADER_BYTES
from strata_cdc.binlog.bytes.segment import staging_folder, storage_errors
from strata_cdc.binlog.events.gtid import parse_previous_gtids
from strata_cdc.errors import StrataError, StreamHoleError
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import require_room
from strata_cdc.landing.landed import LandedSegment, LandedStream, landing_folder
from strata_cdc.landing.recorder import FileHead, SegmentRecorder, Sender, StreamEnd
from strata_cdc.landing.repair import repair_landing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.protocol.source_lock import SourceLock
    from strata_cdc.files.storage import Folder
    from strata_cdc.landing.land_state import LandNotes
    from strata_cdc.position.sets import GtidSet

SEGMENT_BYTES = 256 << 20
_SCAN_BYTES = 16 << 20
_SCAN_SECONDS = 5.0
_LARGE_EVENT_BYTES = 32 << 20
_HEADER_OFFSETS = 1 << 32
"""An event's header has the low 32 bits of its offset."""
_TAIL_BYTES = 32 << 20
"""A larger beginning of a transaction stays in its segment, which then grows beyond the limit."""


class LandReport(Struct, frozen=True):
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
    """What there was to land: what the server had executed when the step began, or what the files reach to."""
    clock: int
    """The commit clock of the last transaction, microseconds UTC."""
    seconds: float


@contextmanager
def open_landing(
    lake: str, source: str, segment_bytes: int, notes: LandNotes, lock: SourceLock | None = None
) -> Iterator[SegmentCutter]:
    """The end of a source's stream, held for the time of a `with` block; how the block ends is noted.

    Args:
        lake: Folder or URL of the lake.
        source: Name of the source.
        segment_bytes: As for `SegmentCutter`.
        notes: Where progress is told.
        lock: Is taken before anything is looked at, and let go of at the end.

    Raises:
        AlreadyRunningError: Another landing of this source runs.
        StrataError: Whatever the block raises, with the source's name.
    """
    folder = landing_folder(lake, source)
    try:
        with hold_folder(folder, f"landing {source}"), ExitStack() as stack:
            if lock:
                stack.callback(lock.release)
                lock.take()
            try:
                repair_landing(folder)
                yield SegmentCutter(lake, source, segment_bytes)
            except StrataError as error:
                notes.fail(error)
                raise
            notes.end()
    except StrataError as error:
        raise error.located(source=source) from None


class SegmentCutter:
    """The end of a landed stream that grows. What it holds when the process dies is lost; what is published stays."""

    def __init__(self, lake: str, source: str, segment_bytes: int) -> None:
        """Goes on behind what has landed; needs the lock of the folder.

        Args:
            lake: Folder or URL of the lake.
            source: Name of the source.
            segment_bytes: A segment ends with a transaction within some megabytes behind so many bytes.

        Raises:
            StreamHoleError: A landed segment is missing.
        """
        self._lake, self._source = lake, source
        self.end = StreamEnd()
        """Behind what is published."""
        self.sender = Sender()
        """Of what comes next."""
        self.last: LandedSegment | None = None
        """The last published segment."""
        self._reached = ("", 0)
        self.look_again()
        self.is_first = not self.end.ordinal
        """Whether nothing had landed before."""
        self.before = self.end
        """Behind what had landed when this began."""
        self.published: list[str] = []
        self._begun = time.monotonic()
        self._folder: Folder = landing_folder(lake, source)
        self._segment_bytes = segment_bytes
        self._head: FileHead | None = None
        self._head_end = 0
        """Offset in its file up to which something of it is published."""
        self._recorder: SegmentRecorder | None = None
        self._published_bytes = 0
        self._started = self._scanned = 0.0

    def look_again(self) -> None:
        """Goes on behind what has landed by now: somebody else may have, while the lock was lost.

        Raises:
            StreamHoleError: A landed segment is missing.
        """
        landed = LandedStream.open(self._lake, self._source)
        if landed.segments and landed.segments[-1].name.ordinal != self.end.ordinal:
            self.last = landed.segments[-1]
            summary = self.last.summary
            self.end = StreamEnd.of(summary, self.last.name.ordinal)
            self._reached = summary.binlog_file, summary.server_end

    def begin_at(self, executed: GtidSet, *, seq: int = 0, clock: int = 0) -> None:
        """A stream that has nothing yet begins behind this set, as the transaction behind this ordinal and time."""
        if self.is_first and not self.published:
            self.end = self.before = StreamEnd(seq=seq, clock=clock, executed=executed)

    def begin_behind(self, previous_event: bytes, *, seq: int, clock: int) -> None:
        """As `begin_at`, with the PREVIOUS_GTIDS of the file that was started."""
        if self._head is not None:
            self.begin_at(_previous(previous_event, self._head), seq=seq, clock=clock)

    def report(self, gtid_executed: GtidSet) -> LandReport:
        """What has become of the stream since this began."""
        return LandReport(
            source=self._source,
            segments=len(self.published),
            first_segment=self.published[0] if self.published else None,
            last_segment=self.published[-1] if self.published else None,
            bytes=self._published_bytes,
            transactions=self.end.seq - self.before.seq,
            last_seq=self.end.seq,
            executed_before=str(self.before.executed),
            executed=str(self.end.executed),
            gtid_executed=str(gtid_executed),
            clock=self.end.clock,
            seconds=round(time.monotonic() - self._begun, 3),
        )

    @property
    def landed_bytes(self) -> int:
        """Of all segments so far, that of the open one included."""
        return self._published_bytes + (self._recorder.size if self._recorder else 0)

    @property
    def seq(self) -> int:
        """Ordinal of the last whole transaction that was seen."""
        return self.end.seq + (self._recorder.transactions if self._recorder else 0)

    @property
    def clock(self) -> int:
        """The commit clock behind it, microseconds UTC."""
        return self._recorder.clock if self._recorder else self.end.clock

    def executed(self) -> GtidSet:
        """The GTID set behind it."""
        return self._recorder.executed() if self._recorder else self.end.executed

    def position(self) -> tuple[str, int]:
        """File and offset behind it, as far as no transaction of the file was left out; ("", 0) before the first."""
        recorder = self._recorder
        return (recorder.name.binlog_file, recorder.server_end) if recorder else self._reached

    def start_file(self, head: FileHead) -> None:
        """What comes next is from this file.

        Raises:
            StreamHoleError: More had been executed before the file than is here.
        """
        self.finish()
        self._head, self._head_end = head, 0
        if head.previous_event:
            self.check_previous(head)

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of the file that was started.

        Raises:
            StreamHoleError: As for `start_file`.
        """
        if self._head is not None:
            self._head = FileHead(self._head.binlog_file, self._head.form, self._head.format_event, event)
            self.check_previous(self._head)

    def check_previous(self, head: FileHead) -> None:
        """Whether a file goes on where the stream ends.

        Raises:
            StreamHoleError: It does not; the error names what is missing.
        """
        hole = _previous(head.previous_event, head) - self.end.executed
        if hole:
            raise StreamHoleError(
                f"transactions in front of {head.binlog_file} have not landed, and the stream goes on behind them",
                gtid=str(hole),
                file=head.binlog_file,
                remedy="Land what is missing first: from a server or from files that still have it.",
            )

    @property
    def has_begun(self) -> bool:
        """Whether anything says where the stream begins: a segment, or the transactions of a lost lake."""
        return not self.is_first or bool(self.published) or self.end.seq > 0

    def begin_empty(self, offset: int) -> None:
        """Publishes a segment without transactions, from behind the head of the file that was started: the stream
        begins there, and what is written and purged before the next landing is missed by it.

        Args:
            offset: Where the head ends in the server's file.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
        """
        head = self._head
        if self.has_begun or self._recorder is not None or head is None or not head.previous_event:
            return
        if _previous(head.previous_event, head) != self.end.executed:
            # The server has passed over transactions of the file, which the stream does not have.
            head = FileHead(head.binlog_file, head.form, head.format_event)
        self._recorder = SegmentRecorder(self._folder, self.end, head, offset=offset, sender=self.sender)
        self._publish(keep_empty=True)

    def append(self, data: memoryview) -> None:
        """Bytes of events of the file; they begin and end anywhere, but for the first after `start_file`."""
        if self._recorder is None:
            if self._head is None:
                raise StreamHoleError("events came before a format description")
            length, log_pos = (int.from_bytes(data[at : at + 4], "little") for at in (9, 13))
            behind = (log_pos - length - self._head_end) % _HEADER_OFFSETS
            self._recorder = SegmentRecorder(
                self._folder,
                self.end,
                self._head,
                offset=self._head_end + behind,
                sender=self.sender,
            )
            self._started = self._scanned = time.monotonic()
        self._recorder.append(data)

    def require_room(self, size: int) -> None:
        """So many bytes of one event are still to come.

        Raises:
            LakeUnavailableError: There is no room for them.
        """
        if size > _LARGE_EVENT_BYTES:
            with storage_errors(self._folder):
                require_room(staging_folder(self._folder), size)

    def append_last(self, event: bytes) -> None:
        """The event that ends a file, if something of the file is here."""
        if self._recorder is not None:
            self._recorder.append(event)

    def scan(self, max_seconds: float = _SCAN_SECONDS) -> bool:
        """Looks at what arrived, if that is much or the last look is so long ago; whether it did so."""
        recorder = self._recorder
        if recorder is None or not recorder.unscanned:
            return False
        waited = time.monotonic() - self._scanned
        if recorder.unscanned < min(_SCAN_BYTES, self._segment_bytes) and waited < max_seconds:
            return False
        recorder.scan()
        self._scanned = time.monotonic()
        return True

    def cut(self, max_seconds: float | None = None) -> None:
        """Publishes the open segment if it is large, or old, and goes on with the transaction that is half there."""
        recorder = self._recorder
        if recorder is None:
            return
        too_old = max_seconds is not None and time.monotonic() - self._started >= max_seconds
        if too_old and recorder.unscanned:
            recorder.scan()
        if (recorder.size < self._segment_bytes and not too_old) or not recorder.transactions:
            return
        if recorder.tail and not HEADER_BYTES <= recorder.tail <= _TAIL_BYTES:
            return
        tail = recorder.take_tail()
        self.finish()
        if tail:
            self.append(memoryview(tail))

    def finish(self) -> None:
        """Publishes the open segment, up to its last whole transaction.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
            CorruptEventError: What arrived is damaged; the transactions before that are not published either.
        """
        self._publish()

    def _publish(self, *, keep_empty: bool = False) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        try:
            end = recorder.finish(keep_empty=keep_empty)
        except StrataError:
            recorder.discard()
            raise
        if end != self.end:
            self.published.append(str(recorder.name))
            self.last = LandedSegment(self._folder, recorder.name)
            self._reached = recorder.name.binlog_file, recorder.server_end
            self._head_end = recorder.server_end
            self._published_bytes += recorder.size
            self.end = end

    def discard(self) -> None:
        """Drops the open segment."""
        if self._recorder:
            self._recorder.discard()
            self._recorder = None


def _previous(event: bytes, head: FileHead) -> GtidSet:
    return parse_previous_gtids(event[HEADER_BYTES : len(event) - head.form.checksum_bytes]).gtid_set
