"""MariaDB's binlog in its storage engine (12.3 on, `binlog_storage_engine`), in the form that the stream of a file has.
Not here: receiving it (`replication.py`), its names (`engine_file.py`), what of it lands (`landing/`).

The server sends one endless stream (sql/sql_repl.cc, `send_engine_events`): a FORMAT_DESCRIPTION that is made for the
connection, events without end positions and checksums, and between transactions a ROTATE with the name of an `.ibb`
file, a GTID_LIST, or the FORMAT_DESCRIPTION of a start of the server. Its files have pages, so their offsets are those
of no event.

Here the stream becomes one file of its own, `ENGINE_FILE`. An offset in it is the number of bytes of all events before
it, from 4 on, and each event gets its end position (`PacketState.log_pos`). So whatever reads binlogs reads this one.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES, MAGIC, EventFlag, EventType
from strata_cdc.binlog.bytes.format import parse_format_description
from strata_cdc.binlog.bytes.segment import make_event
from strata_cdc.binlog.protocol.engine_file import ENGINE_FILE, STORAGE_ENGINE
from strata_cdc.errors import CorruptEventError, UnsupportedEventError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.position.binlog_position import BinlogPosition

_PASSED: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_HEADER: Final = struct.Struct("<IBIIIH")
_OFFSETS: Final = 0xFFFFFFFF
"""A header has the low 32 bits of an offset."""


class EngineBinlog:
    """The events between the transactions of such a stream, as the stream of a file has them."""

    def __init__(self, begin: BinlogPosition, now: int) -> None:
        """Begins before the stream's first event.

        Args:
            begin: Where in `ENGINE_FILE` the first event lies.
            now: The server's clock, seconds: the time of the FORMAT_DESCRIPTION if no event follows it.
        """
        self.begin, self._now = begin.offset, now
        self._format: bytes | None = None
        """A FORMAT_DESCRIPTION of which the next event has not come: it gets that event's time."""
        self._at = 0
        self._has_begun = False

    def add_event(self, event: bytes, at: int) -> Iterator[bytes]:
        """Takes an event that comes between transactions, and yields what the stream of a file would have.

        Args:
            event: As it was sent.
            at: Where the next event of a transaction lies.

        Raises:
            CorruptEventError: A FORMAT_DESCRIPTION is damaged.
            UnsupportedEventError: The events have checksums.
        """
        if event[4] == EventType.FORMAT_DESCRIPTION:
            _require_readable(event)
            self._format, self._at, self._has_begun = event, at, True
        elif event[4] in _PASSED:
            yield event

    def head(self, seconds: int | None = None) -> Iterator[bytes]:
        """What begins a file, if a FORMAT_DESCRIPTION has come: a ROTATE, this event, and an empty GTID_LIST.

        Args:
            seconds: Time of the event that follows; None if none follows for now.

        Raises:
            CorruptEventError: An event follows, and no FORMAT_DESCRIPTION has come.
        """
        if seconds is not None and not self._has_begun:
            raise CorruptEventError("the server sends events before a FORMAT_DESCRIPTION")
        sent, self._format = self._format, None
        if sent is not None:
            name = ENGINE_FILE.encode()
            yield _made(EventType.ROTATE, struct.pack("<Q", self._at) + name, 0)
            yield _dated(sent, self._now if seconds is None else seconds)
            yield _made(EventType.GTID_LIST, bytes(6), self._at)


def _require_readable(event: bytes) -> None:
    if len(event) < HEADER_BYTES + CHECKSUM_BYTES or _checksum(event[:-CHECKSUM_BYTES]) != event[-CHECKSUM_BYTES:]:
        raise CorruptEventError("the CRC32 of the FORMAT_DESCRIPTION that the server sends does not match its bytes")
    if parse_format_description(event[HEADER_BYTES:]).has_checksum:
        raise UnsupportedEventError(
            f"the server keeps its binlog in its storage engine ({STORAGE_ENGINE}) and sends events with checksums, as "
            "no version does that is known",
            remedy="Report the server's version.",
        )


def _dated(event: bytes, seconds: int) -> bytes:
    """A FORMAT_DESCRIPTION as the first event of a file: that of a connection has neither time nor position."""
    written, kind, server_id, length, _, _ = _HEADER.unpack_from(event)
    head = _HEADER.pack(written or seconds, kind, server_id, length, len(MAGIC) + length, 0)
    plain = head + event[HEADER_BYTES:-CHECKSUM_BYTES]
    return plain + _checksum(plain)


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(CHECKSUM_BYTES, "little")


def _made(kind: EventType, body: bytes, end: int) -> bytes:
    """An event that is made for the connection."""
    begin = (end & _OFFSETS) - HEADER_BYTES - len(body)
    return make_event(kind, body, begin=begin, flags=EventFlag.ARTIFICIAL, has_checksum=False)
