"""Compressed transactions: the header of TRANSACTION_PAYLOAD, and its inner events as a bounded stream.
Not here: what the inner events mean (`binlog/events/`)."""

from __future__ import annotations

from enum import IntEnum
from threading import local
from typing import TYPE_CHECKING

import numpy as np
import zstandard
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import HEADER_BYTES, LARGEST_EVENT_BYTES
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.errors import CorruptEventError, TruncatedEventError, UnsupportedEventError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.format import FormatDescription

CHUNK_BYTES = 8 << 20
_HEADER_ROOM = 64
"""More than the fields before a payload take."""


class PayloadCompression(IntEnum):
    """How the inner events are packed (libs/mysql/binlog/event/compression/base.h)."""

    ZSTD = 0
    NONE = 255


_COMPRESSIONS = frozenset(PayloadCompression)


class _OfThread(local):
    """A decompressor takes longer to make than a small transaction to inflate."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_OF_THREAD = _OfThread()
"""For what is inflated in one call: nothing else in the thread can use it meanwhile."""


class _PayloadField(IntEnum):
    END = 0
    PAYLOAD_BYTES = 1
    COMPRESSION = 2
    UNCOMPRESSED_BYTES = 3


class PayloadHeader(Struct, frozen=True):
    """What precedes the bytes of a compressed transaction."""

    compression: PayloadCompression
    payload_bytes: int
    uncompressed_bytes: int
    """As the server says; nothing is inflated beyond it."""
    payload_offset: int
    """Bytes from the start of the event's body to the payload."""


class PayloadChunk(Struct, frozen=True):
    """Some of the inner events, each of them whole."""

    buffer: npt.NDArray[np.uint8]
    """Belongs to the reader; the next chunk has its own buffer."""
    begin: int
    """Bytes of inner events that earlier chunks held."""


def parse_payload_header(body: bytes) -> PayloadHeader:
    """Reads the fields before a payload; `body` starts after the event's header.

    Raises:
        CorruptEventError: A field is missing or runs beyond the end.
        UnsupportedEventError: The compression is not known.
    """
    cursor = ByteCursor(body)
    fields: dict[int, int] = {}
    while (field := cursor.lenenc()) != _PayloadField.END:
        # A field that a later server added is skipped: its length comes before it.
        fields[field] = ByteCursor(value).lenenc() if (value := cursor.next_bytes(cursor.lenenc())) else 0
    if not {_PayloadField.PAYLOAD_BYTES, _PayloadField.COMPRESSION} <= fields.keys():
        raise CorruptEventError("a compressed transaction does not say how long it is, or how it is packed")
    packed = fields[_PayloadField.COMPRESSION]
    if packed not in _COMPRESSIONS:
        raise UnsupportedEventError(f"compression {packed} of a transaction is not known")
    size = fields[_PayloadField.PAYLOAD_BYTES]
    return PayloadHeader(
        PayloadCompression(packed),
        size,
        fields.get(_PayloadField.UNCOMPRESSED_BYTES, size if packed == PayloadCompression.NONE else 0),
        cursor.at,
    )


def read_payload(
    buffer: npt.NDArray[np.uint8],
    position: int,
    length: int,
    form: FormatDescription,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[PayloadChunk]:
    """The inner events of the TRANSACTION_PAYLOAD at `position`, in chunks of about `chunk_bytes`.

    Memory is bounded by a chunk, or by the longest inner event if that is longer, whatever an event's header claims;
    no more is inflated than the payload's header says. Inner events have no checksum.

    Raises:
        CorruptEventError: The payload does not inflate, or inflates to something else than whole events.
        UnsupportedEventError: An inner event is larger than any replica accepts.
    """
    begin = position + HEADER_BYTES
    end = position + length - form.checksum_bytes
    header = parse_payload_header(buffer[begin : min(begin + _HEADER_ROOM, end)].tobytes())
    first = begin + header.payload_offset
    if header.payload_bytes > end - first:
        raise CorruptEventError("a compressed transaction is longer than its event", offset=position)
    payload = buffer[first : first + header.payload_bytes].data
    done = 0
    left = bytearray()
    for chunk in _inflate(payload, header, chunk_bytes, position):
        left += chunk
        if done + len(left) > header.uncompressed_bytes:
            raise CorruptEventError(
                f"a compressed transaction holds more than the {header.uncompressed_bytes} bytes that it claims",
                offset=position,
            )
        whole = _whole_events(left, header.uncompressed_bytes - done, position)
        if whole:
            yield PayloadChunk(np.frombuffer(left, np.uint8)[:whole], done)
            done += whole
            left = left[whole:]
    if left:
        raise TruncatedEventError("a compressed transaction ends in the middle of an event", offset=position)
    # Only the size shows a payload whose last frame was cut: zstd reports no error there.
    if done != header.uncompressed_bytes:
        raise CorruptEventError(
            f"a compressed transaction holds {done} bytes instead of {header.uncompressed_bytes}", offset=position
        )


def _inflate(
    payload: memoryview[int], header: PayloadHeader, chunk_bytes: int, position: int
) -> Iterator[bytes | memoryview[int]]:
    if header.compression == PayloadCompression.NONE:
        for at in range(0, len(payload), chunk_bytes):
            yield payload[at : at + chunk_bytes]
        return
    most = header.uncompressed_bytes
    at_once = most < chunk_bytes
    decompressor = _OF_THREAD.decompressor if at_once else zstandard.ZstdDecompressor()
    # A payload may be of several frames: the server starts another one when its buffer is full.
    reader = decompressor.stream_reader(payload, read_across_frames=True)
    try:
        # One byte beyond the claim shows that there is more.
        if at_once:
            yield reader.read(most + 1)
            return
        while chunk := reader.read(min(chunk_bytes, most + 1)):
            most -= len(chunk)
            yield chunk
    except zstandard.ZstdError as error:
        raise CorruptEventError(f"a compressed transaction does not inflate: {error}", offset=position) from error


def _whole_events(data: bytearray, most: int, position: int) -> int:
    """Bytes at the beginning that are complete events; `most` is the total to come, including these bytes."""
    at = 0
    while len(data) - at >= HEADER_BYTES:
        length = int.from_bytes(data[at + 9 : at + 13], "little")
        if length < HEADER_BYTES:
            raise CorruptEventError("an event in a compressed transaction is shorter than its header", offset=position)
        if length > most - at:
            raise CorruptEventError(
                "an event in a compressed transaction is longer than the rest of the transaction", offset=position
            )
        if length > LARGEST_EVENT_BYTES:
            raise UnsupportedEventError(
                f"an event in a compressed transaction has {length} bytes; no replica takes so many", offset=position
            )
        if length > len(data) - at:
            break
        at += length
    return at
