"""Where events start and end in a buffer, and whether their checksums hold.
Not here: what is in them (`binlog/events/`), opening files (`files.py`)."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.crc import CRC_TABLES, crc32, verify_events
from strata_cdc.binlog.kernels.layout import Events
from strata_cdc.binlog.kernels.scan import find_event, scan_events
from strata_cdc.errors import ChecksumError, CorruptEventError, TruncatedEventError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.format import FormatDescription

BATCH_EVENTS = 65536
"""Entries of one index; small enough to stay in the cache of a core together with the work on it."""

INNER: Final = -1
"""Instead of the end position of an event that lies in another event, and so nowhere in the server's file."""

_LARGE_BYTES = 16 << 20


class EventIndex(Struct, frozen=True):
    """The headers of consecutive events, as a struct of arrays with one entry an event."""

    positions: npt.NDArray[np.int64]
    """Bytes from the start of the buffer."""
    lengths: npt.NDArray[np.int64]
    """Bytes, header and checksum included."""
    types: npt.NDArray[np.uint8]
    timestamps: npt.NDArray[np.int64]
    """Seconds since 1970 UTC."""
    log_positions: npt.NDArray[np.int64]
    """Where the server's file continues after the event, modulo 2**32; 0 for artificial events, and for those in a
    transaction of MariaDB from 11.4 on; `INNER` for inner events."""
    flags: npt.NDArray[np.uint16]
    status: int
    """DONE, FULL, TRUNCATED or CORRUPT (`binlog/kernels/status.py`)."""
    next: int
    """Where to continue, or where the fault is."""

    def __len__(self) -> int:
        return len(self.positions)

    def events(self, first: int, until: int) -> Events:
        """The events from number `first` to before number `until`, in the form that the walks over events need."""
        return self._chosen(slice(first, until))

    def without(self, left_out: npt.NDArray[np.bool_]) -> EventIndex:
        """The index without some of its events."""
        return EventIndex(*self._chosen(np.flatnonzero(~left_out)), self.status, self.next)

    def of_types(self, types: Sequence[int]) -> Events:
        """Those of some types, as the kernels take them."""
        return self._chosen(np.flatnonzero(np.isin(self.types, types)))

    def _chosen(self, some: slice | npt.NDArray[np.int64]) -> Events:
        return Events(
            self.positions[some],
            self.lengths[some],
            self.types[some],
            self.timestamps[some],
            self.log_positions[some],
            self.flags[some],
        )

    def raise_fault(self) -> None:
        """Raises what ended the walk, if it was a fault; the events before it are right.

        Raises:
            TruncatedEventError: The buffer ends in an event.
            CorruptEventError: The length of an event cannot be.
        """
        if self.status == codes.TRUNCATED:
            raise TruncatedEventError("the file ends in the middle of an event", offset=self.next)
        if self.status == codes.CORRUPT:
            raise CorruptEventError("an event is shorter than its own header", offset=self.next)


def index_events(
    buffer: npt.NDArray[np.uint8], begin: int, end: int, form: FormatDescription, max_events: int = BATCH_EVENTS
) -> EventIndex:
    """Reads the headers of the events from byte `begin` (where one starts) to `end`, at most `max_events`.

    Never reads at or beyond `end`. To continue after FULL, call again with `begin` set to the index' `next`.
    """
    return _index(buffer, begin, end, form.least_length, max_events)


def index_payload(buffer: npt.NDArray[np.uint8], begin: int, end: int, max_events: int = BATCH_EVENTS) -> EventIndex:
    """The same for events of an inflated payload, or the plain form of a compressed event: they have no checksum."""
    index = _index(buffer, begin, end, HEADER_BYTES, max_events)
    index.log_positions[:] = INNER
    return index


def _index(buffer: npt.NDArray[np.uint8], begin: int, end: int, least: int, max_events: int) -> EventIndex:
    room = max(1, min(max_events, (end - begin) // least + 1))
    positions, lengths, timestamps, log_positions = np.empty((4, room), np.int64)
    types, flags = np.empty(room, np.uint8), np.empty(room, np.uint16)
    status, count, following = scan_events(
        buffer, begin, min(end, len(buffer)), least, positions, lengths, types, timestamps, log_positions, flags
    )
    return EventIndex(
        positions[:count],
        lengths[:count],
        types[:count],
        timestamps[:count],
        log_positions[:count],
        flags[:count],
        int(status),
        int(following),
    )


def next_of_types(
    buffer: npt.NDArray[np.uint8], begin: int, form: FormatDescription, wanted: npt.NDArray[np.uint8]
) -> int:
    """Offset of the first event of some types, from byte `begin` on, where one starts; if there is none, of the end of
    the last whole event.

    Args:
        buffer: The bytes of a file.
        begin: Where an event starts.
        form: Of the file.
        wanted: For each of the 256 type codes, whether it is one of these types.
    """
    return int(find_event(buffer, begin, len(buffer), form.least_length, wanted))


def count_sound(buffer: npt.NDArray[np.uint8], index: EventIndex, large_bytes: int = _LARGE_BYTES) -> int:
    """How many events at the beginning have the right checksum.

    Very large ones, of more than `large_bytes`, are read in chunks, and the pages of a mapped file that were read are
    dropped: memory stays bounded whatever the length of an event.
    """
    done = 0
    for large in (*np.flatnonzero(index.lengths > large_bytes).tolist(), len(index)):
        status, sound = verify_events(CRC_TABLES, buffer, index.positions[done:large], index.lengths[done:large])
        if status != codes.DONE:
            return done + int(sound)
        if large < len(index):
            begin, length = int(index.positions[large]), int(index.lengths[large])
            if not _is_sound(buffer, begin, length, large_bytes):
                return int(large)
        done = large + 1
    return len(index)


def _is_sound(buffer: npt.NDArray[np.uint8], begin: int, length: int, at_once: int) -> bool:
    end, crc = begin + length - CHECKSUM_BYTES, 0
    for at in range(begin, end, at_once):
        crc = int(crc32(CRC_TABLES, buffer, at, min(at + at_once, end), crc))
        _let_go(buffer)
    return crc == int.from_bytes(buffer[end : end + CHECKSUM_BYTES].tobytes(), "little")


def _let_go(buffer: npt.NDArray[np.uint8]) -> None:
    """Drops the pages of a mapped file from memory; they are loaded again when they are read."""
    base: Any = buffer.base
    mapped = base.obj if isinstance(base, memoryview) else base
    # Nobody writes into a map of a binlog, so nothing is lost. Not every system has the call.
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)


def verify_checksums(buffer: npt.NDArray[np.uint8], index: EventIndex) -> None:
    """Checks the CRC32 of each event; only for files whose format has checksums.

    Raises:
        ChecksumError: With the offset of the first event whose bytes are not those that were written.
    """
    sound = count_sound(buffer, index)
    if sound < len(index):
        raise ChecksumError("the CRC32 of an event does not match its bytes", offset=int(index.positions[sound]))


def post_headers(form: FormatDescription) -> npt.NDArray[np.int64]:
    """Bytes of the post-header by event type; -1 where the file's format lists none."""
    lengths = np.full(256, -1, np.int64)
    listed = form.header_lengths[:255]
    lengths[1 : len(listed) + 1] = listed
    return lengths
