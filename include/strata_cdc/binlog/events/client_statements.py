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


Texts = tuple[bytes | None, ...]
"""The statements that a row event may belong to; None for a statement whose text is not logged."""


def statements_of_rows(binlog: BinlogFile, begin: int, end: int, last: int | None = None) -> dict[int, Texts]:
    """The statements of a transaction's row events, by the offsets of these.

    Each row event belongs to one statement. The rows of a compressed transaction all have the offset of the whole: it
    has each of the transaction's statements that changed rows.

    Args:
        binlog: The file.
        begin: Offset of the transaction's first event.
        end: Offset after its last event.
        last: Offset of the last row event that is needed; None: all are.

    Raises:
        CorruptEventError: An event is damaged.
    """
    walk, statements = _StatementWalk(binlog.format), dict[int, Texts]()
    buffer = binlog.buffer
    end = min(end, len(buffer))
    if last is not None:
        end = min(end, binlog.load_event(last))
    binlog.load(begin, end)
    while begin < end:
        index = index_events(buffer, begin, end, binlog.format)
        index.raise_fault()
        for at, kind in enumerate(index.types.tolist()):
            position, length = int(index.positions[at]), int(index.lengths[at])
            if last is not None and position > last:
                return statements
            if kind == EventType.TRANSACTION_PAYLOAD:
                statements[position] = _inside(binlog, position, length)
            elif walk.add_event(buffer, kind, position, length - binlog.format.checksum_bytes):
                statements[position] = (walk.current,)
        begin = index.next if index.next > begin else end
    return statements


def _inside(binlog: BinlogFile, position: int, length: int) -> Texts:
    walk, texts = _StatementWalk(binlog.format), dict[bytes | None, None]()
    for chunk in read_payload(binlog.buffer, position, length, binlog.format):
        begin = 0
        while begin < len(chunk.buffer):
            index: EventIndex = index_payload(chunk.buffer, begin, len(chunk.buffer))
            index.raise_fault()
            for at, kind in enumerate(index.types.tolist()):
                if walk.add_event(chunk.buffer, kind, int(index.positions[at]), int(index.lengths[at])):
                    texts[walk.current] = None
            begin = index.next
    return tuple(texts)


class _StatementWalk:
    """The statement of each row event, over consecutive events."""

    def __init__(self, form: FormatDescription) -> None:
        self._form = form
        self._text: bytes | None = None
        self._is_over = True
        self.current: bytes | None = None
        """Of the newest row event."""

    def add_event(self, buffer: Bytes, kind: int, position: int, length: int) -> bool:
        """The next event; returns whether it is a row event."""
        if kind in {EventType.ROWS_QUERY, EventType.ANNOTATE_ROWS}:
            body = buffer[position + HEADER_BYTES : position + length].tobytes()
            self._text = parse_rows_query(body).statement if kind == EventType.ROWS_QUERY else body
            self._is_over = False
            return False
        if kind not in _ROWS:
            return False
        if self._is_over:
            # A statement without a text begins where the one before it has ended.
            self._text = None
        self.current = self._text
        # After the table id, which has 4 bytes in old files.
        flags = position + HEADER_BYTES + (4 if self._form.header_length(kind) == _SHORT else 6)
        self._is_over = bool(int(buffer[flags]) & STATEMENT_END)
        return True
