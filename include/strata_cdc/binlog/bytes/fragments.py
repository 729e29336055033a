"""MariaDB's row events that are logged in fragments (PARTIAL_ROW_DATA, from 12.3 on), joined again.
Not here: which event may follow a fragment (`kernels/grammar.py`), events with a compressed part
(`compressed_event.py`).

A row event above `binlog_row_event_fragment_threshold` is cut into fragments, which follow each other directly. Each
has how many there are, its own number from 1 on, and a byte of flags. The first also has the size of the whole event,
with its header and without a checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, HEADER_BYTES, LARGEST_EVENT_BYTES, ROW_EVENTS, EventType
from strata_cdc.binlog.bytes.compressed_event import plain_event
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.errors import CorruptEventError, StrataError, UnsupportedEventError

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.kernels.arrays import Bytes

_HAS_SIZE: Final = 1
_ROWS: Final = ROW_EVENTS | (COMPRESSED_EVENTS.keys() - {EventType.QUERY_COMPRESSED})


class EventParts:
    """The plain events that events of other forms stand for: those with a compressed part, and fragments."""

    def __init__(self, form: FormatDescription) -> None:
        """Begins without an open event; `form` is that of the file."""
        self._form = form
        self._joined = bytearray()
        self._total = self._number = self._size = 0

    def plain(self, buffer: Bytes, position: int, length: int) -> Bytes | None:
        """The plain event that the event at `position` completes, without a checksum; None after a fragment that others
        follow.

        Raises:
            CorruptEventError: A fragment does not follow the one before it, or the event is not what it says; with the
                offset.
            UnsupportedEventError: It has more bytes than any replica accepts, or an unknown compression.
        """
        if buffer[position + 4] != EventType.PARTIAL_ROW_DATA:
            return plain_event(buffer, position, length, self._form)
        body = buffer[position + HEADER_BYTES : position + length - self._form.checksum_bytes].tobytes()
        try:
            return self._add(body)
        except StrataError as error:
            raise error.located(offset=position) from None

    def _add(self, body: bytes) -> Bytes | None:
        cursor = ByteCursor(body)
        total, number, flags = cursor.uint(4), cursor.uint(4), cursor.uint(1)
        size = cursor.uint(8) if flags & _HAS_SIZE else 0
        if number == 1 and not self._total:
            self._joined, self._total, self._number, self._size = bytearray(), total, 0, size
        if (total, number) != (self._total, self._number + 1) or number > total or bool(size) != (number == 1):
            raise CorruptEventError(
                f"fragment {number} of {total} of a row event follows fragment {self._number} of {self._total}"
            )
        if self._size > LARGEST_EVENT_BYTES:
            raise UnsupportedEventError(f"a row event in fragments has {self._size} bytes; no replica takes so many")
        self._number = number
        self._joined += body[cursor.at :]
        if len(self._joined) > self._size or (number == total and len(self._joined) < self._size):
            raise CorruptEventError(
                f"fragments have {len(self._joined)} bytes of a row event of {self._size} up to fragment {number} of "
                f"{total}"
            )
        return self._whole() if number == total else None

    def _whole(self) -> Bytes:
        event = np.frombuffer(bytes(self._joined), np.uint8)
        self._joined, self._total, self._number = bytearray(), 0, 0
        if len(event) < HEADER_BYTES or int.from_bytes(event[9:13].tobytes(), "little") != len(event):
            raise CorruptEventError("the joined fragments of a row event are no event of their length")
        kind = int(event[4])
        if kind not in _ROWS:
            raise CorruptEventError(f"the joined fragments are an event of type {kind}, which has no rows")
        if kind not in COMPRESSED_EVENTS:
            return event
        return plain_event(event, 0, len(event), replace(self._form, has_checksum=False))
