"""Which binlog files a server has, and where it writes: what there is to know where transactions have no GTID.
Not here: reading them (`replication.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct

from strata.gtid.position import BinlogPosition

if TYPE_CHECKING:
    import pymysql

FIRST_OFFSET = 4
"""Of the first event of a file, bytes."""


class ServerFiles(Struct, frozen=True):
    """The binlog files that a server has."""

    ends: tuple[BinlogPosition, ...]
    """Behind the last byte of each, oldest first; that of the newest is where the server writes."""

    @classmethod
    def read(cls, connection: pymysql.Connection[Any]) -> Self:
        """Asks the server, which needs the grant REPLICATION CLIENT for it."""
        with connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOGS")
            return cls(tuple(BinlogPosition.of(str(row[0]), int(row[1])) for row in cursor.fetchall()))

    @property
    def begin(self) -> BinlogPosition:
        """The first event that can be had."""
        return BinlogPosition.of(self.ends[0].file, FIRST_OFFSET)

    @property
    def end(self) -> BinlogPosition:
        """Behind all that has been written."""
        return self.ends[-1]

    def size(self, file: str) -> int | None:
        """Bytes of a file; None if it is not there."""
        return next((end.offset for end in self.ends if end.file == file), None)
