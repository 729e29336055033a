"""The first event of a file, which says how the others are laid out.
Not here: walking over them (`frames.py`), every other event (`binlog/events/parse.py`)."""

from __future__ import annotations

import zlib

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import (
    CHECKSUM_BYTES,
    HEADER_BYTES,
    MAGIC,
    ChecksumAlgorithm,
    EventFlag,
    EventType,
)
from strata_cdc.errors import CorruptEventError, UnsupportedEventError
from strata_cdc.flavour import Flavour, Vendor

_FIXED_BYTES = 2 + 50 + 4 + 1
"""Binlog version, server version, time of creation, length of the common header."""
_END_POSITION, _FLAGS = slice(13, 17), slice(17, 19)
"""In an event's header."""
_CREATED = slice(HEADER_BYTES + 52, HEADER_BYTES + 56)
"""The time of the server's start, in its first file; 0 in others. It is the time of the event itself."""
_FIRST_WITH_CHECKSUM = (5, 6, 1)
"""5.6.1 wrote the first checksums, and with them the byte that names the algorithm."""
OLDEST_MARIADB = (10, 6, 0)
"""The oldest series of MariaDB that is maintained, and tested."""
_FIRST_WITH_V4 = 50000
_NO_SUCH_VERSION = 1000000
"""Both bounds separate damage from old versions: they decide whether the event has a checksum that shows damage."""


class FormatDescription(Struct, frozen=True):
    """The first event of a file: how the others are laid out."""

    binlog_version: int
    server_version: str
    header_lengths: tuple[int, ...]
    """Bytes of the post-header of event type i+1."""
    has_checksum: bool

    @property
    def flavour(self) -> Flavour:
        """Of the server that wrote the file."""
        return Flavour.parse(self.server_version)

    def header_length(self, event_type: int) -> int:
        """Bytes of the post-header of an event type.

        Raises:
            CorruptEventError: The file does not list that type, yet holds such an event.
        """
        if 1 <= event_type <= len(self.header_lengths):
            return self.header_lengths[event_type - 1]
        raise CorruptEventError(f"the format description lists no event type {event_type}")

    @property
    def checksum_bytes(self) -> int:
        """Bytes of checksum after each event: 4 or 0."""
        return CHECKSUM_BYTES if self.has_checksum else 0

    @property
    def least_length(self) -> int:
        """The shortest event there can be, in bytes."""
        return HEADER_BYTES + self.checksum_bytes


def parse_format_description(body: bytes) -> FormatDescription:
    """Reads FORMAT_DESCRIPTION from what follows its common header, its own checksum included.

    From 5.6.1 on, this event always ends in an algorithm byte and a checksum, whatever the other events have
    (`Format_description_log_event::write`).

    Raises:
        CorruptEventError: The event is too short, or names an unknown checksum.
        UnsupportedEventError: The file was written before MySQL 5.0 or MariaDB 10.6.
    """
    binlog_version, server_version = _written_by(body)
    if body[56] != HEADER_BYTES:
        raise CorruptEventError(f"event headers of {body[56]} bytes instead of {HEADER_BYTES}")
    lengths, has_checksum = _without_checksum(body[_FIXED_BYTES:], Flavour.parse(server_version))
    if len(lengths) < EventType.TABLE_MAP:
        raise CorruptEventError(f"the format description lists {len(lengths)} event types only")
    return FormatDescription(binlog_version, server_version, tuple(lengths), has_checksum)


def names_checksum(flavour: Flavour) -> bool:
    """Whether a server ends FORMAT_DESCRIPTION in a checksum algorithm and a checksum, whatever the other events
    have."""
    return flavour.vendor is Vendor.MARIADB or flavour.is_mysql(*_FIRST_WITH_CHECKSUM)


def with_own_checksum(event: bytes, form: FormatDescription) -> bytes:
    """FORMAT_DESCRIPTION with the checksum of its bytes.

    For a stream that begins within a file, a server sends it with its end or the time of the server's start blanked
    out. In a file without checksums it leaves this event's own checksum as it was (sql/rpl_binlog_sender.cc,
    `send_format_description_event`). Then the checksum is replaced; any other event is returned as it is.

    Args:
        form: What it says.
    """
    if form.has_checksum or not names_checksum(form.flavour):
        return event
    end = (len(MAGIC) + len(event)).to_bytes(4, "little")
    for created in (event[_CREATED], event[:4]):
        in_file = event[: _END_POSITION.start] + end + event[_END_POSITION.stop : _CREATED.start]
        if _checksum(in_file + created + event[_CREATED.stop :]) == event[-CHECKSUM_BYTES:]:
            return event[:-CHECKSUM_BYTES] + _checksum(event)
    return event


def _checksum(event: bytes) -> bytes:
    flags = int.from_bytes(event[_FLAGS], "little") & ~EventFlag.BINLOG_IN_USE
    covered = event[: _FLAGS.start] + flags.to_bytes(2, "little") + event[_FLAGS.stop : -CHECKSUM_BYTES]
    return zlib.crc32(covered).to_bytes(CHECKSUM_BYTES, "little")


def _written_by(body: bytes) -> tuple[int, str]:
    """Binlog version and server, which decides how the rest is laid out."""
    if len(body) < _FIXED_BYTES:
        raise CorruptEventError(f"a format description of {len(body)} bytes is too short")
    binlog_version = int.from_bytes(body[:2], "little")
    server_version = body[2:52].split(b"\0", 1)[0].decode("ascii", "replace")
    if binlog_version != 4:
        raise UnsupportedEventError(
            f"binlog version {binlog_version}, written by server {server_version}, is not read",
            remedy="Strata reads version 4, which MySQL writes since 5.0.",
        )
    flavour = Flavour.parse(server_version)
    if flavour.vendor is Vendor.MARIADB and flavour.version < OLDEST_MARIADB:
        raise UnsupportedEventError(
            f"the binlog was written by MariaDB {server_version}",
            remedy=f"Strata reads the binlogs of MariaDB from {'.'.join(map(str, OLDEST_MARIADB))} on.",
        )
    if not _FIRST_WITH_V4 <= flavour.number < _NO_SUCH_VERSION:
        raise CorruptEventError(f"{server_version!r} is no version of a server that writes such binlogs")
    return binlog_version, server_version


def _without_checksum(lengths: bytes, flavour: Flavour) -> tuple[bytes, bool]:
    """The lengths alone, and whether the other events have a checksum."""
    if not names_checksum(flavour):
        return lengths, False
    if len(lengths) < 1 + CHECKSUM_BYTES:
        raise CorruptEventError("the format description ends before its checksum algorithm")
    algorithm = lengths[-1 - CHECKSUM_BYTES]
    if algorithm not in (ChecksumAlgorithm.OFF, ChecksumAlgorithm.CRC32):
        raise CorruptEventError(f"checksum algorithm {algorithm} is not known")
    return lengths[: -1 - CHECKSUM_BYTES], algorithm == ChecksumAlgorithm.CRC32
