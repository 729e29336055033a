"""The bytes of a segment on an object store that somebody needs, and no others: they arrive while others are decoded.
Not here: opening the segment (`files.py`), requests (`files/objects.py`).

They are written to a sparse temporary file of the segment's size, so that every byte has its own offset and pages can
be dropped from memory and load again.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from bisect import bisect_right, insort
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Self

import numpy as np
from msgspec import Struct

from strata_cdc.files.objects import S3Object
from strata_cdc.files.storage import require_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from strata_cdc.binlog.kernels.arrays import Bytes

HEAD_BYTES: Final = 4096
"""What is read first; the format description is in it."""
CHUNK_BYTES: Final = 8 << 20
"""Of one request: long enough that its start does not matter, short enough that decoding starts soon."""
AT_ONCE: Final = 4
"""Requests at once; a stream of S3 gives 50 to 90 MB/s, decoding takes several times that."""
LEAST_BYTES: Final = 4096
"""Of a request for bytes that were in no extent: an event's header alone is not worth one."""
_GAP_BYTES: Final = 64 << 10
"""Bytes between two extents that are read along: a request more would take longer."""


class _RequestedBytes(Struct, eq=False):
    """Bytes of one request."""

    begin: int
    end: int
    number: int
    """In the order in which chunks are needed."""
    arriving: Future[None] | None = None


_BEGIN: Final = attrgetter("begin")


class RangedBytes:
    """Bytes of an object; `load` waits until those that are needed next have arrived."""

    def __init__(self, path: str, extents: Iterable[tuple[int, int]]) -> None:
        """Reads the first bytes, and begins with the extents.

        Args:
            path: URL of the object.
            extents: Offsets from and up to which bytes will be needed, in this order.

        Raises:
            FileNotFoundError: There is no such object.
            LakeUnavailableError: The store does not answer.
            OSError: This machine has no space for the bytes.
        """
        self._object, head = S3Object.open(path, HEAD_BYTES)
        self._file = tempfile.TemporaryFile(prefix="strata-")  # noqa: SIM115  closed by `__exit__`
        self._requests = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ranges")
        os.ftruncate(self._file.fileno(), self._object.size)
        self._write(0, head)
        first = _RequestedBytes(0, len(head), -1, self._requests.submit(lambda: None))
        self._order: list[_RequestedBytes] = []
        self._by_offset = [first]
        self.expect(extents)
        self._request(0)

    def expect(self, extents: Iterable[tuple[int, int]]) -> None:
        """More bytes that will be needed, after those that are known to be.

        Args:
            extents: As of the class.

        Raises:
            OSError: This machine has no space for them.
        """
        first = len(self._order)
        for begin, end in _joined(extents, 0, self._object.size):
            for part in list(self._missing(begin, end)):
                for low, high in _chunks([part]):
                    chunk = _RequestedBytes(low, high, len(self._order))
                    self._order.append(chunk)
                    insort(self._by_offset, chunk, key=_BEGIN)
        require_room(tempfile.gettempdir(), sum(chunk.end - chunk.begin for chunk in self._order[first:]))

    def _missing(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of an extent that no request has or will have."""
        after = bisect_right(self._by_offset, begin, key=_BEGIN)
        for chunk in self._by_offset[after - 1 :]:
            if chunk.begin >= end:
                break
            if begin < chunk.begin:
                yield begin, chunk.begin
            begin = max(begin, chunk.end)
        if begin < end:
            yield begin, end

    def map(self) -> Bytes:
        """The object, byte for byte, as far as it has been loaded; zeros elsewhere."""
        mapped = mmap.mmap(self._file.fileno(), self._object.size, access=mmap.ACCESS_WRITE)
        return np.frombuffer(mapped, np.uint8)

    def load(self, begin: int, end: int) -> None:
        """Waits until the bytes between two offsets are there.

        Raises:
            FileNotFoundError: The object was deleted.
            LakeUnavailableError: The object was replaced, or the store does not answer.
            OSError: This machine has no space for the bytes.
        """
        at, end = begin, min(end, self._object.size)
        while at < end:
            after = bisect_right(self._by_offset, at, key=_BEGIN)
            chunk = self._by_offset[after - 1]
            if chunk.end <= at:
                # These bytes were in no extent: what is in force before a split point, for example.
                following = self._by_offset[after].begin if after < len(self._by_offset) else self._object.size
                chunk = _RequestedBytes(at, min(max(end, at + LEAST_BYTES), following), -1)
                insort(self._by_offset, chunk, key=_BEGIN)
                chunk.arriving = self._requests.submit(self._fetch, chunk)
            elif chunk.number >= 0:
                self._request(chunk.number)
            if chunk.arriving is not None:
                chunk.arriving.result()
            at = chunk.end

    def _request(self, number: int) -> None:
        """Asks for a chunk and those after it, so that as many as allowed are on their way."""
        for chunk in self._order[number : number + AT_ONCE]:
            if chunk.arriving is None:
                chunk.arriving = self._requests.submit(self._fetch, chunk)

    def _fetch(self, chunk: _RequestedBytes) -> None:
        self._write(chunk.begin, self._object.read_range(chunk.begin, chunk.end))

    def _write(self, at: int, content: memoryview) -> None:
        while content:
            written = os.pwrite(self._file.fileno(), content, at)
            content, at = content[written:], at + written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.shutdown(cancel_futures=True)
        self._file.close()


def _joined(extents: Iterable[tuple[int, int]], begin: int, size: int) -> list[tuple[int, int]]:
    """Extents after the first bytes of an object of this size, each byte once, in the order of what is needed first."""
    merged: list[tuple[int, int, int]] = []
    wanted = ((max(low, begin), min(high, size), number) for number, (low, high) in enumerate(extents))
    for low, high, number in sorted(extent for extent in wanted if extent[0] < extent[1]):
        if merged and low - merged[-1][1] <= _GAP_BYTES:
            first, last, before = merged[-1]
            merged[-1] = first, max(last, high), min(before, number)
        else:
            merged.append((low, high, number))
    return [(low, high) for low, high, _ in sorted(merged, key=lambda extent: extent[2])]


def _chunks(extents: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for begin, end in extents:
        yield from ((at, min(at + CHUNK_BYTES, end)) for at in range(begin, end, CHUNK_BYTES))
