"""The statements of clients whose row events a transaction has, where the server logged their text
(`binlog_rows_query_log_events` of MySQL, `binlog_annotate_row_events` of MariaDB).
Not here: statements that are logged instead of rows (`transactions.py`), finding the transaction (`landing/landed.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, HEADER_BYTES, ROW_EVENTS, STATEMENT_END, EventType
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.binlog.events.parse import parse_rows_query

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.binlog.kernels.arrays import Bytes

_ROWS: Final = ROW_EVENTS | {kind for kind, plain in COMPRESSED_EVENTS.items() if plain in ROW_EVENTS}
_SHORT: Final = 6
"""Length of the post-header in which a table id has 4 bytes."""


def statements_of_rows(binlog: BinlogFile, begin: int, end: int, place: int) -> tuple[bytes | None, ...]:
    """The texts of the statements that a row event may belong to; None for a statement whose text is not logged.

    It is one statement; of a compressed transaction, whose rows all have the place of the whole, it is each of the
    transaction's statements that changed rows.

    Args:
        binlog: The file.
        begin: Offset of the transaction's first event.
        end: Offset after its last event.
        place: Offset of the row event, or of the compressed transaction.

    Raises:
        CorruptEventError: An event is damaged.
    """
    walk = _Walk(binlog.format)
    buffer = binlog.buffer
    while begin < end:
        index = index_events(buffer, begin, min(end, len(buffer)), binlog.format)
        index.raise_fault()
        for at, kind in enumerate(index.types.tolist()):
            position, length = int(index.positions[at]), int(index.lengths[at])
            if kind == EventType.TRANSACTION_PAYLOAD and position == place:
                return _inside(binlog, position, length)
            walk.take(buffer, kind, position, length - binlog.format.checksum_bytes)
            if position == place:
                return (walk.current,)
        begin = index.next if index.next > begin else end
    return ()


def _inside(binlog: BinlogFile, position: int, length: int) -> tuple[bytes | None, ...]:
    walk = _Walk(binlog.format)
    for chunk in read_payload(binlog.buffer, position, length, binlog.format):
        begin = 0
        while begin < len(chunk.buffer):
            index: EventIndex = index_payload(chunk.buffer, begin, len(chunk.buffer))
            index.raise_fault()
            for at, kind in enumerate(index.types.tolist()):
                walk.take(chunk.buffer, kind, int(index.positions[at]), int(index.lengths[at]))
            begin = index.next
    return tuple(dict.fromkeys(walk.found))


class _Walk:
    """The statement of each row event, over consecutive events."""

    def __init__(self, form: FormatDescription) -> None:
        self._form = form
        self._text: bytes | None = None
        self._is_over = True
        self.found: list[bytes | None] = []
        self.current: bytes | None = None
        """Of the newest row event."""

    def take(self, buffer: Bytes, kind: int, position: int, length: int) -> None:
        """The next event."""
        if kind in {EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS}:
            body = buffer[position + HEADER_BYTES : position + length].tobytes()
            self._text = parse_rows_query(body).statement if kind == EventType.ROWS_QUERY else body
            self._is_over = False
        elif kind in _ROWS:
            # A statement without a text begins where the one before it has ended.
            self.current = None if self._is_over else self._text
            self.found.append(self.current)
            # After the table id, which has 4 bytes in old files.
            flags = position + HEADER_BYTES + (4 if self._form.header_length(kind) == _SHORT else 6)
            self._is_over = bool(int(buffer[flags]) & STATEMENT_END)
