"""The stream of a live server as a change source: each transaction as soon as its last byte has arrived.
Not here: the protocol (`binlog/protocol/replication.py`), keeping the stream (`landing/`)."""

from __future__ import annotations

import mmap
import tempfile
import zlib
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, EXECUTED_LISTS, HEADER_BYTES, EventFlag, EventType
from strata_cdc.binlog.bytes.files import BinlogFile
from strata_cdc.binlog.bytes.format import parse_format_description
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.parse import parse_rotate
from strata_cdc.binlog.events.places import arriving_chain
from strata_cdc.binlog.events.scanner import TransactionScanner
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.protocol.replication import Control, EventBytes
from strata_cdc.binlog.protocol.server_files import server_file_name
from strata_cdc.binlog.sources.file_start import FileStart
from strata_cdc.binlog.sources.port import FileEnd, NothingNew, Transactions
from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import require_room
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.clock import CommitClock
from strata_cdc.position.executed import ExecutedBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.protocol.replication import Quiet
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.position.port import Executed

_FIRST_OFFSET: Final = 4
_LENGTH: Final = slice(9, 13)
"""Of an event's header: bytes of the whole event."""
_LOG_POSITION: Final = slice(13, 17)
_FLAGS: Final = slice(17, 19)
_CREATED_AT: Final = HEADER_BYTES + 2 + 50
_LEAST: Final = 64 << 10
_MEMORY_BYTES: Final = 64 << 20


class LiveSource:
    """The stream that a server sends. Memory and disk are bounded by its largest transaction."""

    def __init__(
        self,
        items: Iterable[EventBytes | Control | Quiet],
        executed: Executed,
        server_uuid: str,
        *,
        after_seq: int = 0,
        clock: int = 0,
        memory_bytes: int = _MEMORY_BYTES,
    ) -> None:
        """Nothing is requested yet.

        Args:
            items: Of `BinlogStream.read_events`.
            executed: GTID set of what the stream has before them.
            server_uuid: Of the server.
            after_seq: Ordinal of the last transaction before them.
            clock: The commit clock at that point, microseconds UTC.
            memory_bytes: A larger transaction is kept in a temporary file until it is complete.
        """
        self._items, self._uuid, self._memory_bytes = items, server_uuid, memory_bytes
        self._executed = ExecutedBuilder(executed)
        self._binlog_file, self._offset = "", _FIRST_OFFSET
        self._open: _NewestFile | None = None
        self._seq, self._clock = after_seq, CommitClock(clock)

    def read_items(self) -> Iterator[Item]:
        """As `ChangeSource.read_items`; if the server sends nothing, or a part of a transaction, `NothingNew`.

        Raises:
            UnsupportedEventError: A number of MariaDB was set back.
        """
        try:
            for item in self._items:
                if isinstance(item, Control):
                    yield from self._take_control(item.event)
                elif isinstance(item, EventBytes) and self._open is not None:
                    yield from self._take(self._open, item.data)
                else:
                    yield NothingNew()
            yield from self._end(None)
        finally:
            if self._open is not None:
                self._open.close()

    def _take_control(self, event: bytes) -> Iterator[Item]:
        kind = event[4]
        if kind == EventType.ROTATE:
            is_artificial = int.from_bytes(event[_FLAGS], "little") & EventFlag.ARTIFICIAL
            yield from self._end(None if is_artificial else int.from_bytes(event[_LOG_POSITION], "little"))
            self._binlog_file, self._offset = rotate_name(event), max(_FIRST_OFFSET, rotate_offset(event))
        elif kind == EventType.FORMAT_DESCRIPTION:
            yield from self._end(None)
            form = parse_format_description(event[HEADER_BYTES:])
            self._open = _NewestFile(
                self._binlog_file, self._offset, form, self._seq + 1, self._clock, self._memory_bytes
            )
            written = int.from_bytes(event[:4], "little")
            yield FileStart(
                binlog_file=self._binlog_file,
                identity=self._uuid,
                begin_pos=0,
                previous=self._executed.build(),
                created_at=written * 1_000_000,
                # A server that sends from the middle of a file sets it to 0 (sql/rpl_binlog_sender.cc,
                # `send_format_description_event`).
                restarted=any(event[_CREATED_AT : _CREATED_AT + 4]),
            )
        elif kind in EXECUTED_LISTS and event[_LOG_POSITION] != bytes(4):
            yield NothingNew(
                BinlogPosition.from_offset(self._binlog_file, int.from_bytes(event[_LOG_POSITION], "little"))
            )

    def _take(self, file: _NewestFile, data: memoryview) -> Iterator[Item]:
        count = 0
        for whole in file.feed(data):
            whole.batch.refuse_step_back(self._executed, self._binlog_file)
            whole.batch.add_to(self._executed)
            self._seq, count = whole.batch.last_seq, count + 1
            yield whole
        if not count:
            yield NothingNew()

    def _end(self, low: int | None) -> Iterator[Item]:
        """The open file ends before an offset of which the header has the low 32 bits."""
        if self._open is not None:
            self._open.close()
            end, self._open = self._open.server_pos, None
            yield FileEnd(end if low is None else end + ((low - end) & 0xFFFFFFFF))


class _NewestFile:
    """A file of the server as it arrives: the bytes after the last transaction that was yielded."""

    def __init__(
        self,
        binlog_file: str,
        offset: int,
        form: FormatDescription,
        first_seq: int,
        clock: CommitClock,
        memory_bytes: int,
    ) -> None:
        self._form, self._binlog_file, self._clock = form, binlog_file, clock
        self._memory_bytes = memory_bytes
        self.server_pos = offset
        """Where the last transaction that was yielded ends; before the first one, at most where that begins."""
        self._chain = arriving_chain(form, None)
        """Offset before the bytes that are kept."""
        self._kept = _GrowingBytes(memory_bytes)
        self._scanned = 0
        self._scanner = self._scan_from(first_seq)

    def _scan_from(self, first_seq: int) -> TransactionScanner:
        self._ahead = copy(self._chain)
        """Offset after the bytes that have been scanned."""
        return TransactionScanner(
            self._form,
            chain=self._ahead,
            binlog_file=self._binlog_file,
            first_seq=first_seq,
            clock=self._clock,
            server_offset=self.server_pos,
        )

    def feed(self, data: memoryview) -> Iterator[Transactions]:
        """Adds the next bytes; returns the transactions that ended in them."""
        self._kept.append(data)
        while self._kept.has_event(self._scanned):
            buffer = self._kept.bytes()
            index = index_events(buffer, self._scanned, len(buffer), self._form)
            if index.status == codes.TRUNCATED:
                # The rest of the event is still to come.
                index = replace(index, status=codes.DONE)
            self._scanned = index.next
            before, first_seq = copy(self._chain), self._scanner.next_seq
            for batch in self._scanner.scan(buffer, index):
                batch.refuse_unnumbered(self._form.flavour.vendor)
                self.server_pos = batch.server_end(-1)
                binlog = BinlogFile(self._binlog_file, buffer, self._form, None)
                yield Transactions(batch, partial(_same, binlog), partial(copy, before))
            if self._scanner.next_seq > first_seq:
                self._begin_again(buffer)

    def close(self) -> None:
        """Drops all bytes."""
        self._kept.close()

    def _begin_again(self, buffer: npt.NDArray[np.uint8]) -> None:
        """Keeps only the transaction that has begun, if there is one; its events are scanned again, because a walk
        identifies them by their offsets."""
        cut, at = self._scanner.open_transaction, 0
        if cut is None:
            cut, self._chain = self._scanned, copy(self._ahead)
        else:
            while at < cut:
                index = index_events(buffer, at, cut, self._form)
                self._chain.follow(buffer, index)
                at = index.next
            self._scanner = self._scan_from(self._scanner.next_seq)
        self._kept.close()
        self._kept, self._scanned = _GrowingBytes(self._memory_bytes), 0
        self._kept.append(buffer[cut:].data)


class _GrowingBytes:
    """Bytes that grow; arrays returned earlier do not change."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._memory = np.empty(_LEAST, np.uint8)
        self._file: BinaryIO | None = None
        self._size = 0
        self._given: npt.NDArray[np.uint8] | None = None

    def append(self, data: memoryview) -> None:
        """Adds a copy of more bytes.

        Raises:
            LakeUnavailableError: They are many, and this machine's folder for temporary files is full.
        """
        size = self._size + len(data)
        self._given = None
        if self._file is None and size <= self._memory_bytes:
            if size > len(self._memory):
                larger = np.empty(2 * size, np.uint8)
                larger[: self._size] = self._memory[: self._size]
                self._memory = larger
            self._memory[self._size : size] = data
        else:
            self._write(data)
        self._size = size

    def close(self) -> None:
        """Closes the file; arrays returned earlier do not change."""
        if self._file is not None:
            self._file.close()

    def _write(self, data: memoryview) -> None:
        try:
            require_room(tempfile.gettempdir(), len(data) + len(self._memory))
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="strata-")  # noqa: SIM115  `close` does it
                self._file.write(self._memory[: self._size].data)
                self._memory = np.empty(0, np.uint8)
            self._file.write(data)
            self._file.flush()
        except OSError as error:
            raise LakeUnavailableError(f"a large transaction cannot be kept until it is whole: {error}") from error

    def bytes(self) -> npt.NDArray[np.uint8]:
        """All bytes, in one array that is not changed later."""
        if self._given is None:
            if self._file is None:
                self._given = self._memory[: self._size]
            else:
                mapped = mmap.mmap(self._file.fileno(), self._size, access=mmap.ACCESS_COPY)
                self._given = np.frombuffer(mapped, np.uint8)
        return self._given

    def has_event(self, at: int) -> bool:
        """Whether the complete event at an offset has arrived: a large event must not be checked again with each
        chunk."""
        left = self._size - at
        if left < HEADER_BYTES:
            return False
        return left >= int.from_bytes(self.bytes()[at + _LENGTH.start : at + _LENGTH.stop].tobytes(), "little")


def _same(binlog: BinlogFile) -> BinlogFile:
    return binlog


def rotate_name(event: bytes) -> str:
    """The file that an artificial ROTATE names.

    Only the FORMAT_DESCRIPTION that follows says whether a checksum follows the name
    (`Binlog_sender::fake_rotate_event`), so the checksum itself decides.

    Raises:
        CorruptEventError: It is not the name of a binlog file.
    """
    has_checksum = zlib.crc32(event[:-CHECKSUM_BYTES]) == int.from_bytes(event[-CHECKSUM_BYTES:], "little")
    return server_file_name(parse_rotate(event[HEADER_BYTES : -CHECKSUM_BYTES if has_checksum else None]).file)


def rotate_offset(event: bytes) -> int:
    """The offset that a ROTATE names: nothing that follows lies before it."""
    return int.from_bytes(event[HEADER_BYTES : HEADER_BYTES + 8], "little")
