"""JSON documents of any bytes in a real server's tables: a row event of its own, changed, and given back with BINLOG.
So the server says what it prints for documents that no statement of this version makes."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.changes.live import Live

_FORMAT, _TABLE_MAP, _WRITE_ROWS = 15, 19, 30
_HEADER, _CHECKSUM, _LENGTH_AT = 19, 4, 9
_MARK = b"\x0c\x04mark"
"""The document `"mark"`."""


UNREADABLE = b"\x0f\xfd\x03\xff\xfe\xff"
"""Text of several bytes a character that is no UTF-8: what the server prints for it is no text."""


def plant(live: Live, documents: Iterable[bytes]) -> Path:
    """Makes the table `planted (id, j)` and gives it a row for each binary document, numbered from 1.

    Returns:
        The binlog with these rows.
    """
    live.run("CREATE TABLE planted (id INT PRIMARY KEY, j JSON)")
    with live.recorded() as files:
        live.run("""INSERT INTO planted VALUES (1, '"mark"')""")
    live.run("DELETE FROM planted")
    events = dict(_events(files[0].read_bytes()))
    _give(live, events[_FORMAT])
    # The format made the session one that applies a log, whose transactions have no number of their own.
    live.run("SET gtid_next = 'AUTOMATIC'")
    row = events[_WRITE_ROWS]
    at = row.index(len(_MARK).to_bytes(4, "little") + _MARK)
    with live.recorded() as files:
        for number, document in enumerate(documents, start=1):
            begin = row[: at - 4] + number.to_bytes(4, "little")
            whole = begin + len(document).to_bytes(4, "little") + document + row[at + 4 + len(_MARK) :]
            _give(live, events[_TABLE_MAP] + _sealed(whole))
    return files[0]


def _give(live: Live, events: bytes) -> None:
    live.run(f"BINLOG '{b64encode(events).decode()}'")


def _events(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 4
    while at < len(data):
        size = int.from_bytes(data[at + _LENGTH_AT : at + _LENGTH_AT + 4], "little")
        yield data[at + 4], data[at : at + size]
        at += size


def _sealed(event: bytes) -> bytes:
    """With its length and checksum set."""
    body = event[:_LENGTH_AT] + struct.pack("<I", len(event)) + event[_LENGTH_AT + 4 : -_CHECKSUM]
    return body + struct.pack("<I", zlib.crc32(body))
