"""Cuts a stream of events into landed segments: at files, at a size, at an age, and between transactions only.
Not here: where the events come from (`land_binlog.py`, `land_files.py`), writing them (`landing/recorder.py`)."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import HEADER_BYTES
from strata_cdc.binlog.bytes.segment import staging_folder, storage_errors
from strata_cdc.errors import SourceDivergedError, StrataError, StreamHoleError
from strata_cdc.files.lock import hold_folder
from strata_cdc.files.storage import require_room
from strata_cdc.flavour import Vendor
from strata_cdc.landing.landed import LandedSegment, LandedStream, landing_folder
from strata_cdc.landing.recorder import FileHead, SegmentRecorder, Sender, StreamEnd
from strata_cdc.landing.repair import repair_landing
from strata_cdc.position.domains import DomainSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.protocol.source_lock import SourceLock
    from strata_cdc.files.storage import Folder
    from strata_cdc.landing.land_state import LandNotes
    from strata_cdc.position.port import Executed

SEGMENT_BYTES = 256 << 20
_SCAN_BYTES = 16 << 20
SCAN_SECONDS = 5.0
_LARGE_EVENT_BYTES = 32 << 20
_HEADER_OFFSETS = 1 << 32
"""An event's header has only the low 32 bits of its offset."""
_TAIL_BYTES = 32 << 20
"""A larger incomplete transaction at the end stays in its segment, which then grows beyond the limit."""


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
    """GTID set that was to land: what the server had executed when the step began, or what the files have."""
    clock: int
    """The commit clock of the last transaction, microseconds UTC."""
    seconds: float


@contextmanager
def open_landing(
    lake: str, source: str, segment_bytes: int, notes: LandNotes, lock: SourceLock | None = None
) -> Iterator[SegmentCutter]:
    """The end of a source's stream, locked for the time of a `with` block; the notes get how the block ends.

    Args:
        lake: Folder or URL of the lake.
        source: Name of the source.
        segment_bytes: As for `SegmentCutter`.
        notes: Records the progress.
        lock: Taken before anything is read, and released at the end.

    Raises:
        AlreadyRunningError: Another landing of this source runs.
        StrataError: Whatever the block raises, with the source's name.
    """
    folder = landing_folder(lake, source)
    try:
        with hold_folder(folder, f"landing {source}"), ExitStack() as stack:
            if lock:
                stack.callback(lock.release)
                lock.acquire()
            try:
                if repair_landing(folder):
                    LandedStream.open(lake, source).require_whole()
                yield SegmentCutter(lake, source, segment_bytes)
            except StrataError as error:
                notes.fail(error)
                raise
            notes.end()
    except StrataError as error:
        raise error.located(source=source) from None


def refuse_other_family(executed: Executed, vendor: Vendor) -> None:
    """Checks that a position can be that of a vendor's server.

    Raises:
        SourceDivergedError: It is of the other vendor's.
    """
    landed = Vendor.MARIADB if isinstance(executed, DomainSet) else Vendor.MYSQL
    if executed and landed is not vendor:
        raise SourceDivergedError(
            f"what comes next is of a {vendor} server, and what has landed is of a {landed} server",
            gtid=str(executed),
            remedy="Give each server a source of its own: land this one under another source name.",
        )


class LandedEnd(Struct, frozen=True):
    """The end of a landed stream: after the last published segment."""

    stream: StreamEnd = StreamEnd()
    last: LandedSegment | None = None
    """The last published segment."""
    position: tuple[str, int] = ("", 0)
    """File and offset after it in the server's files, if no transaction of the file was skipped; ("", 0):
    there is none."""

    @classmethod
    def from_landed(cls, landed: LandedStream) -> LandedEnd:
        """The end of what has landed."""
        if not landed.segments:
            return cls()
        last = landed.segments[-1]
        summary = last.summary
        return cls(StreamEnd.from_summary(summary, last.name.ordinal), last, (summary.binlog_file, summary.server_end))


class _ArrivingFile(Struct, frozen=True):
    """The server's file that arrives."""

    head: FileHead
    sender: Sender
    published_to: int = 0
    """Offset before which nothing of it comes any more."""

    def previous(self) -> Executed:
        """What its PREVIOUS_GTIDS say, which it has."""
        return self.head.previous()

    def with_previous(self, event: bytes) -> _ArrivingFile:
        """With its PREVIOUS_GTIDS."""
        return replace(self, head=replace(self.head, previous_event=event))

    def begins_at(self, data: memoryview) -> int:
        """Offset in the server's file of the event that some bytes begin with."""
        length, log_pos = (int.from_bytes(data[at : at + 4], "little") for at in (9, 13))
        return self.published_to + (log_pos - length - self.published_to) % _HEADER_OFFSETS

    def recorder(self, folder: Folder, after: StreamEnd, offset: int) -> SegmentRecorder:
        """Begins a segment of it at an offset."""
        return SegmentRecorder(folder, after, self.head, offset=offset, sender=self.sender)


class _OpenSegment:
    """A segment that is written."""

    def __init__(self, recorder: SegmentRecorder) -> None:
        """Begins now."""
        self.recorder = recorder
        self._started = self._scanned = time.monotonic()

    def scan(self) -> None:
        """Looks at what arrived."""
        self.recorder.scan()
        self._scanned = time.monotonic()

    def is_scan_due(self, most_bytes: int, max_seconds: float) -> bool:
        """Whether so much has arrived, or the last look is so long ago."""
        unscanned = self.recorder.unscanned
        return bool(unscanned) and (unscanned >= most_bytes or time.monotonic() - self._scanned >= max_seconds)

    def is_old(self, max_seconds: float | None) -> bool:
        """Whether it was begun so long ago; None: it never is."""
        return max_seconds is not None and time.monotonic() - self._started >= max_seconds


class SegmentCutter:
    """The end of a landed stream that grows. If the process dies, unpublished bytes are lost; what is published
    stays."""

    def __init__(self, lake: str, source: str, segment_bytes: int) -> None:
        """Continues after what has landed; needs the lock of the folder.

        Args:
            lake: Folder or URL of the lake.
            source: Name of the source.
            segment_bytes: A segment ends with a transaction, at most some megabytes after this many bytes.

        Raises:
            StreamHoleError: A landed segment is missing.
        """
        self._begun = time.monotonic()
        self._lake, self._source, self._segment_bytes = lake, source, segment_bytes
        self._folder: Folder = landing_folder(lake, source)
        self._landed = LandedEnd.from_landed(LandedStream.open(lake, source))
        self.before = self._landed.stream
        """The end of what had landed when this began."""
        self._published: list[tuple[str, int]] = []
        """Name and bytes of each segment since then."""
        self._file: _ArrivingFile | None = None
        self._open: _OpenSegment | None = None

    @property
    def end(self) -> StreamEnd:
        """The end of what is published."""
        return self._landed.stream

    @property
    def last(self) -> LandedSegment | None:
        """The last published segment."""
        return self._landed.last

    @property
    def is_first(self) -> bool:
        """Whether nothing had landed before."""
        return not self.before.ordinal

    def look_again(self) -> None:
        """Continues after what has landed by now: another process may have landed more while the lock was lost.

        Raises:
            StreamHoleError: A landed segment is missing.
        """
        landed = LandedStream.open(self._lake, self._source)
        if landed.segments and landed.segments[-1].name.ordinal != self.end.ordinal:
            self._landed = LandedEnd.from_landed(landed)

    def begin_at(self, executed: Executed, *, seq: int = 0, clock: int = 0) -> None:
        """An empty stream begins after this GTID set, with the transaction after this ordinal and time."""
        if self.is_first and not self._published:
            self.before = StreamEnd(seq=seq, clock=clock, executed=executed)
            self._landed = replace(self._landed, stream=self.before)

    def begin_after(self, previous_event: bytes, *, seq: int, clock: int) -> None:
        """As `begin_at`, with the PREVIOUS_GTIDS of the file that was started."""
        if self._file is not None:
            self.begin_at(self._file.with_previous(previous_event).previous(), seq=seq, clock=clock)

    def report(self, gtid_executed: Executed) -> LandReport:
        """What has become of the stream since this began."""
        names = [name for name, _ in self._published]
        return LandReport(
            source=self._source,
            segments=len(names),
            first_segment=names[0] if names else None,
            last_segment=names[-1] if names else None,
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
    def _published_bytes(self) -> int:
        return sum(size for _, size in self._published)

    @property
    def landed_bytes(self) -> int:
        """Of all segments so far, that of the open one included."""
        return self._published_bytes + (self._open.recorder.size if self._open else 0)

    @property
    def seq(self) -> int:
        """Ordinal of the last whole transaction that was seen."""
        return self.end.seq + (self._open.recorder.transactions if self._open else 0)

    @property
    def clock(self) -> int:
        """The commit clock after it, microseconds UTC."""
        return self._open.recorder.clock if self._open else self.end.clock

    def executed(self) -> Executed:
        """The GTID set after it."""
        return self._open.recorder.executed() if self._open else self.end.executed

    def position(self) -> tuple[str, int]:
        """File and offset after it, if no transaction of the file was skipped; ("", 0) before the first."""
        if self._open is None:
            return self._landed.position
        return self._open.recorder.name.binlog_file, self._open.recorder.server_end

    def start_file(self, head: FileHead, sender: Sender, offset: int = 0) -> None:
        """What comes next is from this file.

        Args:
            head: The file's first events.
            sender: Where it comes from.
            offset: Nothing that comes is before this byte of the file.

        Raises:
            StreamHoleError: More had been executed before the file than has landed.
            SourceDivergedError: The file is of another vendor's server than what has landed.
        """
        self.finish()
        refuse_other_family(self.end.executed, head.form.flavour.vendor)
        self._file = _ArrivingFile(head, sender, offset)
        if head.previous_event:
            self._check_previous(self._file)

    def take_previous(self, event: bytes) -> None:
        """The PREVIOUS_GTIDS of the file that was started.

        Raises:
            StreamHoleError: As for `start_file`.
        """
        if self._file is not None:
            self._file = self._file.with_previous(event)
            self._check_previous(self._file)

    def _check_previous(self, file: _ArrivingFile) -> None:
        hole = file.previous() - self.end.executed
        if hole:
            name = file.head.binlog_file
            raise StreamHoleError(
                f"transactions before {name} have not landed, and the stream continues after them",
                gtid=str(hole),
                file=name,
                # A server that crashed with `sync_binlog = 0` has lost them itself, though it has executed them.
                remedy="Land what is missing first: from a server or from files that still have it. If none has it, "
                "land the server under another source name.",
            )

    @property
    def has_begun(self) -> bool:
        """Whether anything says where the stream begins: a segment, or the transactions of a lost lake."""
        return not self.is_first or bool(self._published) or self.end.seq > 0

    def begin_empty(self, offset: int) -> None:
        """Publishes a segment without transactions, after the head of the file that was started: the stream begins
        there, so transactions that are written and purged before the next landing are noticed as missing.

        Args:
            offset: Where the head ends in the server's file.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
        """
        file = self._file
        if self.has_begun or self._open is not None or file is None:
            return
        if file.head.previous_event and file.previous() != self.end.executed:
            # The server has passed over transactions of the file, which the stream does not have.
            file = file.with_previous(b"")
        self._open = _OpenSegment(file.recorder(self._folder, self.end, offset))
        self._publish(keep_empty=True)

    def append(self, data: memoryview) -> None:
        """Bytes of events of the file; they begin and end anywhere, but for the first after `start_file`."""
        if self._open is None:
            if self._file is None:
                raise StreamHoleError("events came before a format description")
            recorder = self._file.recorder(self._folder, self.end, self._file.begins_at(data))
            self._open = _OpenSegment(recorder)
        self._open.recorder.append(data)

    def require_room(self, size: int) -> None:
        """Checks that there is space for bytes of one event that are still to come.

        Raises:
            LakeUnavailableError: There is no space for them.
        """
        if size > _LARGE_EVENT_BYTES:
            with storage_errors(self._folder):
                require_room(staging_folder(self._folder), size)

    def append_last(self, event: bytes) -> None:
        """The event that ends a file, if something of the file is here."""
        if self._open is not None:
            self._open.recorder.append(event)

    def scan(self, max_seconds: float = SCAN_SECONDS) -> bool:
        """Looks at what arrived, if that is much or the last look is so long ago; whether it did so."""
        is_due = self._open is not None and self._open.is_scan_due(min(_SCAN_BYTES, self._segment_bytes), max_seconds)
        if is_due and self._open is not None:
            self._open.scan()
        return is_due

    def cut(self, max_seconds: float | None = None) -> None:
        """Publishes the open segment if it is large, or old, and goes on with the transaction that is half there."""
        if self._open is None:
            return
        recorder, is_old = self._open.recorder, self._open.is_old(max_seconds)
        if is_old and recorder.unscanned:
            recorder.scan()
        if (recorder.size < self._segment_bytes and not is_old) or not recorder.transactions:
            return
        if recorder.tail and not HEADER_BYTES <= recorder.tail <= _TAIL_BYTES:
            return
        tail = recorder.take_tail()
        self.finish()
        if tail:
            self.append(memoryview(tail))

    def end_file(self) -> None:
        """Looks at the rest of what arrived of a file that ends there.

        Raises:
            TruncatedEventError: An event or a transaction is half there; `finish` publishes those before it.
            CorruptEventError: What arrived is damaged; likewise.
        """
        if self._open is not None:
            self._open.scan()
            self._open.recorder.require_end()

    def finish(self) -> None:
        """Publishes the open segment, up to its last complete transaction.

        Raises:
            LakeUnavailableError: The storage refuses or is full.
            CorruptEventError: What arrived after the last look at it is damaged; nothing of the segment is published.
        """
        self._publish()

    def _publish(self, *, keep_empty: bool = False) -> None:
        if self._open is None:
            return
        recorder, self._open = self._open.recorder, None
        try:
            end = recorder.finish(keep_empty=keep_empty)
        except StrataError:
            recorder.discard()
            raise
        if end != self.end:
            self._published.append((str(recorder.name), recorder.size))
            position = recorder.name.binlog_file, recorder.server_end
            self._landed = LandedEnd(end, LandedSegment(self._folder, recorder.name), position)
            if self._file is not None:
                self._file = replace(self._file, published_to=recorder.server_end)

    def discard(self) -> None:
        """Drops the open segment."""
        if self._open:
            self._open.recorder.discard()
            self._open = None
