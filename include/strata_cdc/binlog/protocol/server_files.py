"""Which binlog files a server has, and its position: all that is known if transactions have no GTID.
Not here: reading them (`replication.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from strata_cdc.binlog.bytes.codes import HEADER_BYTES
from strata_cdc.binlog.protocol.engine_file import ENGINE_SUFFIX, refuse_positions
from strata_cdc.errors import CorruptEventError, one_line
from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    import pymysql

_NAME = re.compile(r"[^/\\\x00-\x1f\x7f]{1,180}\.[0-9]{1,10}")
"""Bytes of a name without folder. A segment's name has some 50 bytes besides it; file systems allow at most 255."""
_OFFSETS = 1 << 32
"""A header has only the low 32 bits of an offset."""
FIRST_OFFSET = 4
"""Offset of the first event of a file, bytes."""


def server_file_name(text: str) -> str:
    """The name that a server gives to one of its files, which becomes part of a segment's name.

    Raises:
        SourceSettingsError: It is a file of a binlog in the storage engine, in which no event has a position.
        CorruptEventError: No server names a file so.
    """
    if text.endswith(ENGINE_SUFFIX):
        raise refuse_positions(f"{one_line(text)[:100]} has pages, and no events at offsets")
    if not _NAME.fullmatch(text):
        raise CorruptEventError(
            f"the server names a binlog file {one_line(text)[:100]!r}",
            remedy="Check that the address is that of a MySQL server.",
        )
    return text


def begins_at(header: bytes, offset: int) -> bool:
    """Whether the header of an event, as a server wrote it, is that of an event that begins at an offset of its
    file."""
    length, end = (int.from_bytes(header[at : at + 4], "little") for at in (9, 13))
    return length >= HEADER_BYTES and (offset + length) % _OFFSETS == end


class ServerFiles(Struct, frozen=True):
    """The binlog files that a server has."""

    ends: tuple[BinlogPosition, ...]
    """The end of each file, oldest first; the end of the newest is the server's position."""

    @classmethod
    def from_server(cls, connection: pymysql.Connection[Any]) -> Self:
        """Queries the server; needs the grant REPLICATION CLIENT."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            positions = [
                BinlogPosition.from_offset(server_file_name(str(row[0])), int(row[1])) for row in cursor.fetchall()
            ]
        if not positions:
            raise CorruptEventError("the server reports that it writes a binlog, but lists no files")
        return cls(tuple(positions))

    @property
    def begin(self) -> BinlogPosition:
        """The first event that the server still has."""
        return self.first_event(self.ends[0].file)

    @staticmethod
    def first_event(file: str) -> BinlogPosition:
        """Position of the first event of a file."""
        return BinlogPosition.from_offset(file, FIRST_OFFSET)

    @property
    def end(self) -> BinlogPosition:
        """The end of everything that has been written."""
        return self.ends[-1]

    def size(self, file: str) -> int | None:
        """Bytes of a file; None if it does not exist."""
        return next((end.offset for end in self.ends if end.file == file), None)
