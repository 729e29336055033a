"""Turns bytes into events: a file's ranges as windows of checked events, inflated if they were compressed.
Not here: what the events mean (`blocks.py`), the bytes of a payload (`binlog/bytes/payload.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, GTID_EVENTS, HEADER_BYTES, EventType
from strata_cdc.binlog.bytes.fragments import EventParts
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.pages import forget_pages
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.binlog.events.places import chain_of
from strata_cdc.binlog.events.soundness import count_right
from strata_cdc.binlog.events.undone_rows import UndoneRows
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.words import State
from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.changes.region import MARGIN, Region
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.binlog.kernels.arrays import Bytes
    from strata_cdc.binlog.kernels.layout import Events
    from strata_cdc.changes.plan import Range

WINDOW_EVENTS = 32768
_INFLATED_BYTES = 8 << 20
"""Bytes of inflated events in one buffer, so that the rows of many small transactions are one batch."""


_HOLDS_EVENTS = np.isin(np.arange(256), (EventType.TRANSACTION_PAYLOAD, EventType.PARTIAL_ROW_DATA, *COMPRESSED_EVENTS))
"""Whether the events of a type hold other events, or a part of one, by type code."""


class RangeStart(Struct, frozen=True, eq=False):
    """The start of a range; its windows follow."""

    range: Range
    state: State
    """State of the stream before the windows."""
    table_maps: tuple[bytes, ...]
    """Bodies of the TABLE_MAPs that are in force at the start."""


class Window(Struct, frozen=True, eq=False):
    """Consecutive events whose bytes and positions were checked."""

    region: Region
    events: Events
    trailer: int
    """Bytes of the checksum after each event."""
    payload: int | None = None
    """Offset of the compressed transaction, or the compressed event, that they were in; None if they were in none."""
    fault: StrataError | None = None
    """The fault of the bytes after them."""

    def __len__(self) -> int:
        return len(self.events.positions)

    def place(self, at: int) -> tuple[int, int]:
        """Offset in the region's buffer and length of event number `at`."""
        return int(self.events.positions[at]), int(self.events.lengths[at])

    def body(self, at: int) -> bytes:
        """The body of event number `at`."""
        begin, length = self.place(at)
        return self.region.buffer[begin + HEADER_BYTES : begin + length - self.trailer].tobytes()


class PayloadEnd(Struct, frozen=True):
    """All events of the compressed transaction at this offset have been yielded."""

    position: int


class FlushPace:
    """After how many bytes all waiting rows are yielded. A reader that waits for the first rows gets some soon; then
    the number of bytes is doubled each time, up to the size from which larger batches are not decoded faster."""

    def __init__(self, limits: DecodeLimits = DecodeLimits()) -> None:
        """Begins with `first_bytes`."""
        self.limits = limits
        self._bytes = limits.first_bytes

    def is_due(self, unflushed: int) -> bool:
        """Whether rows are yielded now, after `unflushed` bytes; if so, the next time comes after more bytes."""
        if unflushed < self._bytes:
            return False
        self._bytes = min(2 * self._bytes, self.limits.flush_bytes)
        return True


class FlushPoint(Struct, frozen=True):
    """All rows so far must be yielded before the next window is requested: the memory of their bytes is released."""


WindowItem = RangeStart | Window | PayloadEnd | FlushPoint


def read_windows(
    binlog: BinlogFile, ranges: Iterable[Range], chain: EventChain | None = None, pace: FlushPace | None = None
) -> Iterator[WindowItem]:
    """The events of ranges of one file, in order. A window ends after each compressed transaction and each compressed
    event, whose own events are the next windows.

    Args:
        binlog: The open file.
        ranges: In the order of the stream; requested one at a time.
        chain: Where the events of whole transactions must lie, over all ranges; by default each range lies where it
            says, whatever is between the ranges.
        pace: Continues from file to file.

    Raises:
        StrataError: The bytes after the last window are not events, or a payload does not inflate; with the offset.
    """
    reader = _WindowReader(binlog, chain, pace or FlushPace())
    for file_range in ranges:
        yield from reader.read_windows(file_range)


class _WindowReader:
    """The state that continues from range to range."""

    def __init__(self, binlog: BinlogFile, chain: EventChain | None, pace: FlushPace) -> None:
        self._binlog, self._chain, self._pace = binlog, chain, pace
        self._region = Region(binlog.buffer, 0)
        self._inflated = _InflatedEvents()
        self._undone = UndoneRows(binlog)
        self._parts = EventParts(binlog.format)
        self._unflushed = 0
        """Bytes of earlier ranges since the last flush point."""

    def read_windows(self, file_range: Range) -> Iterator[WindowItem]:
        begin, state = file_range.begin, State.BETWEEN
        if file_range.inside is not None:
            begin, state = self._after_gtid(file_range)
        yield RangeStart(file_range, state, tuple(map(self._body_at, file_range.table_maps)))
        chain = self._chain_of(file_range, begin)
        flushed = begin
        for index in self._indexes(begin, file_range.end):
            yield from self._checked(index, chain)
            if self._pace.is_due(self._unflushed + index.next - flushed):
                yield FlushPoint()
                # Not earlier: gathering the cells of rows reads the pages again.
                forget_pages(self._binlog.buffer, flushed, index.next)
                flushed, self._unflushed = index.next, 0
        self._unflushed += file_range.end - flushed

    def _after_gtid(self, file_range: Range) -> tuple[int, State]:
        """Offset after the GTID of a prepared transaction, whose rows belong to its XA COMMIT, and the state there."""
        self._binlog.load(file_range.begin, min(file_range.begin + HEADER_BYTES, file_range.end))
        index = index_events(self._binlog.buffer, file_range.begin, file_range.end, self._binlog.format, 1)
        head = int(index.types[0]) if len(index) else -1
        # XA START, or the payload that it is in, follows a GTID; a split point is at neither.
        state = State.HEADED if head in GTID_EVENTS or head == EventType.QUERY else State.INSIDE
        return (index.next if head in GTID_EVENTS else file_range.begin), state

    def _body_at(self, offset: int) -> bytes:
        binlog = self._binlog
        binlog.load(offset, offset + HEADER_BYTES)
        index = index_events(binlog.buffer, offset, len(binlog.buffer), binlog.format, 1)
        binlog.load(offset, index.next)
        return self._window(index, 0, len(index)).body(0)

    def _chain_of(self, file_range: Range, at: int) -> EventChain:
        """Where a range's events must lie, from offset `at` on."""
        if self._chain is None:
            return chain_of(self._binlog, at, file_range.binlog_pos + at - file_range.begin)
        return self._chain if file_range.inside is None else chain_of(self._binlog, at)

    def _indexes(self, at: int, end: int) -> Iterator[EventIndex]:
        window = size = self._pace.limits.window_bytes
        while at < end:
            limit = min(at + size, end)
            self._binlog.load(at, limit)
            index = index_events(self._binlog.buffer, at, limit, self._binlog.format, WINDOW_EVENTS)
            is_cut = index.status == codes.TRUNCATED and limit < end
            if is_cut and len(index) == 0:
                # One event is longer than the window.
                size *= 2
                continue
            yield index
            if not is_cut:
                index.raise_fault()
            at, size = index.next, window

    def _checked(self, index: EventIndex, chain: EventChain) -> Iterator[WindowItem]:
        """The events before the first one that was altered, or is not where it was written."""
        count, fault = count_right(self._binlog.buffer, index, self._binlog.format, chain)
        undone = self._undone.mask(index, count)
        if undone is not None:
            index, count = index.without(undone), count - int(undone[:count].sum())
        if len(index) and not self._region.reaches(int(index.positions[0]), index.next):
            self._region = Region(self._binlog.buffer, int(index.positions[0]) - MARGIN)
        first = 0
        for at in np.flatnonzero(_HOLDS_EVENTS[index.types[:count]]).tolist():
            yield self._window(index, first, at + 1)
            position, length = int(index.positions[at]), int(index.lengths[at])
            if index.types[at] == EventType.TRANSACTION_PAYLOAD:
                yield from self._inner(position, length)
            else:
                yield from self._plain(position, length)
            first = at + 1
        if first < count or fault is not None:
            yield self._window(index, first, count, fault)

    def _window(self, index: EventIndex, first: int, end: int, fault: StrataError | None = None) -> Window:
        trailer = self._binlog.format.checksum_bytes
        return Window(self._region, index.events(first, end), trailer, None, fault)

    def _plain(self, position: int, length: int) -> Iterator[Window]:
        """The plain form of a compressed event, or of the fragments that end here."""
        plain = self._parts.plain(self._binlog.buffer, position, length)
        if plain is None:
            return
        region, begin, end = self._inflated.add(plain)
        yield Window(region, index_payload(region.buffer, begin, end, 1).events(0, 1), 0, position)

    def _inner(self, position: int, length: int) -> Iterator[WindowItem]:
        """The events of a compressed transaction."""
        try:
            for chunk in read_payload(self._binlog.buffer, position, length, self._binlog.format):
                region, at, end = self._inflated.add(chunk.buffer)
                while at < end:
                    index = index_payload(region.buffer, at, end, WINDOW_EVENTS)
                    yield Window(region, index.events(0, len(index)), 0, position)
                    index.raise_fault()
                    at = index.next
        except StrataError as error:
            # An inner event has no offset of its own in the file.
            error.offset = position
            raise
        yield PayloadEnd(position)


class _InflatedEvents:
    """Inflated events, one after the other in buffers that are never written again."""

    def __init__(self) -> None:
        self._region = Region(np.empty(0, np.uint8), -MARGIN)
        self._used = 0

    def add(self, events: Bytes) -> tuple[Region, int, int]:
        """Keeps some events; returns the region, and the offsets of its buffer where they begin and end."""
        if len(events) > _INFLATED_BYTES:
            # A very long event is not copied.
            return Region(events, -MARGIN), 0, len(events)
        begin, end = self._used, self._used + len(events)
        if end > len(self._region.buffer):
            self._region = Region(np.empty(_INFLATED_BYTES, np.uint8), -MARGIN)
            begin, end = 0, len(events)
        self._region.buffer[begin:end] = events
        self._used = end
        return self._region, begin, end
