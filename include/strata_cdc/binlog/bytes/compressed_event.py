"""MariaDB's events of which a part is compressed (`log_bin_compress`), and the plain events that they stand for.
Not here: MySQL's compressed transactions (`payload.py`), compressed columns (`changes/`).

The fields up to the text of a statement, or up to the rows, are plain. After them comes a byte with an algorithm and a
number of bytes n, then the plain length in n bytes, big-endian, then a zlib stream (sql/log_event.cc,
`binlog_buf_compress`). Only events with a long text or long rows are compressed: plain events of the same statement
come between them.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, HEADER_BYTES, LARGEST_EVENT_BYTES, EventType
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.errors import CorruptEventError, StrataError, UnsupportedEventError

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata_cdc.binlog.bytes.format import FormatDescription

_ALGORITHM: Final = 0x70
_LENGTH_BYTES: Final = 0x07


def plain_event(
    buffer: npt.NDArray[np.uint8], position: int, length: int, form: FormatDescription
) -> npt.NDArray[np.uint8]:
    """The plain event that the compressed event at `position` stands for: its header with the plain type and length,
    and its body, without a checksum.

    Raises:
        CorruptEventError: It does not inflate to what it says; with its offset.
        UnsupportedEventError: Another algorithm than zlib, or more bytes than any replica accepts.
    """
    kind = int(buffer[position + 4])
    header = bytearray(buffer[position : position + HEADER_BYTES].tobytes())
    try:
        body = plain_body(
            buffer[position + HEADER_BYTES : position + length - form.checksum_bytes].tobytes(), form, kind
        )
    except StrataError as error:
        raise error.located(offset=position) from None
    header[4] = COMPRESSED_EVENTS[EventType(kind)]
    header[9:13] = (HEADER_BYTES + len(body)).to_bytes(4, "little")
    return np.frombuffer(header + body, np.uint8)


def plain_body(body: bytes, form: FormatDescription, event_type: int) -> bytes:
    """The body of the plain event for the body of a compressed event of a type.

    Raises:
        CorruptEventError: It does not inflate to what it says.
        UnsupportedEventError: Another algorithm than zlib, or more bytes than any replica accepts.
    """
    is_query = event_type == EventType.QUERY_COMPRESSED
    begin = _text_begin(body, form) if is_query else _rows_begin(body, form, event_type)
    return body[:begin] + _inflate(body, begin)


def _text_begin(body: bytes, form: FormatDescription) -> int:
    post_header = form.header_length(EventType.QUERY_COMPRESSED)
    cursor = ByteCursor(body)
    fixed = cursor.next_bytes(post_header)
    cursor.next_bytes(int.from_bytes(fixed[11:13], "little") + fixed[8] + 1)
    return cursor.at


def _rows_begin(body: bytes, form: FormatDescription, event_type: int) -> int:
    cursor = ByteCursor(body)
    cursor.next_bytes(form.header_length(event_type))
    bitmap_bytes = (cursor.lenenc() + 7) // 8
    images = 2 if event_type == EventType.UPDATE_ROWS_COMPRESSED_V1 else 1
    cursor.next_bytes(images * bitmap_bytes)
    return cursor.at


def _inflate(body: bytes, at: int) -> bytes:
    cursor = ByteCursor(body, at)
    head = cursor.uint(1)
    if head & _ALGORITHM:
        raise UnsupportedEventError(f"compression {(head & _ALGORITHM) >> 4} of an event is not known")
    claimed = int.from_bytes(cursor.next_bytes(head & _LENGTH_BYTES), "big")
    if claimed > LARGEST_EVENT_BYTES:
        raise UnsupportedEventError(f"a compressed event has {claimed} bytes; no replica takes so many")
    stream = zlib.decompressobj()
    try:
        # One byte beyond the claim shows that there is more.
        plain = stream.decompress(memoryview(body)[cursor.at :], claimed + 1)
    except zlib.error as error:
        raise CorruptEventError(f"a compressed event does not inflate: {error}") from None
    if len(plain) != claimed or not stream.eof or stream.unused_data:
        raise CorruptEventError(f"a compressed event does not hold the {claimed} bytes that it claims")
    return plain
