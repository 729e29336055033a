"""Groups events into transactions the plain way: one event at a time, with the readers in Python.
The second witness for the walk in `binlog/kernels/transactions.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.bytes.codes import CHECKSUM_BYTES, HEADER_BYTES, EventType
from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.payload import PayloadHeader, read_payload
from strata_cdc.binlog.events.cell_widths import CellWidths
from strata_cdc.binlog.events.model import GtidEvent, Query, TableMap, XaPrepare, Xid
from strata_cdc.binlog.events.parse import OtherEvent, parse_event
from strata_cdc.binlog.kernels.status import DONE
from strata_cdc.binlog.kernels.widths import PRESENT_COLUMNS, count_image_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.bytes.files import BinlogFile

ROWS_V2_EVENTS = frozenset(
    {EventType.WRITE_ROWS, EventType.UPDATE_ROWS, EventType.DELETE_ROWS, EventType.PARTIAL_UPDATE_ROWS}
)


@dataclass
class Naive:
    gtid: str | None
    begin: int
    end: int = 0
    tables: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    statements: list[int] = field(default_factory=list)
    maps: dict[int, TableMap] = field(default_factory=dict)
    inside: bool = False

    def take(self, buffer, position: int, length: int, form: FormatDescription, at: int) -> bool:
        """Takes an event; True if the transaction ends with it."""
        event = parse_event(buffer, position, length, form)
        if isinstance(event, Query):
            text = event.statement.decode("utf-8", "replace").upper()
            if text == "BEGIN" or text.startswith("XA START"):
                self.inside = True
                return False
            if text in ("COMMIT", "ROLLBACK") or text.startswith(("XA COMMIT", "XA ROLLBACK")):
                return True
            if text.startswith(("SAVEPOINT ", "ROLLBACK TO", "XA END", "RELEASE")):
                return False
            if at not in self.statements:
                self.statements.append(at)
            return not self.inside
        if isinstance(event, TableMap):
            self.maps[event.table_id] = event
            self.tables.setdefault((event.database, event.table), [0, 0])
        elif isinstance(event, OtherEvent) and event.event_type in (23, 24, 25, 30, 31, 32, 39):
            table_map = self.maps[int.from_bytes(buffer[position + 19 : position + 25].tobytes(), "little")]
            counts = self.tables[table_map.database, table_map.table]
            counts[0] += 1
            widths = CellWidths.from_table_map(table_map)
            counts[1] += count_rows(buffer, position, position + length, event.event_type, widths, form)
        return isinstance(event, Xid | XaPrepare)


def naive_transactions(binlog: BinlogFile) -> list[Naive]:
    found: list[Naive] = []
    current: Naive | None = None
    form = binlog.format
    index = index_events(binlog.buffer, 4, len(binlog.buffer), form, 1 << 30)
    index.raise_fault()
    for position, length in zip(index.positions.tolist(), index.lengths.tolist(), strict=True):
        event = parse_event(binlog.buffer, position, length, form)
        if isinstance(event, GtidEvent):
            current = Naive(str(event.gtid) if event.gtid else None, position)
            continue
        if current is None:
            if not isinstance(event, Query):
                continue
            current = Naive(None, position)
        if isinstance(event, PayloadHeader):
            ends = _take_payload(current, binlog, position, length)
        else:
            ends = current.take(binlog.buffer, position, length, form, position)
        if ends:
            current.end = position + length
            found.append(current)
            current = None
    return found


def _take_payload(current: Naive, binlog: BinlogFile, position: int, length: int) -> bool:
    inner = FormatDescription(4, binlog.format.server_version, binlog.format.header_lengths, has_checksum=False)
    for chunk in read_payload(binlog.buffer, position, length, binlog.format):
        index = index_payload(chunk.buffer, 0, len(chunk.buffer), 1 << 30)
        for at, size in zip(index.positions.tolist(), index.lengths.tolist(), strict=True):
            current.take(chunk.buffer, at, size, inner, position)
    return True


def count_rows(
    buffer: NDArray[np.uint8], begin: int, end: int, event_type: int, widths: CellWidths, form: FormatDescription
) -> int:
    """How many rows a row event changes; an update counts once.

    Args:
        begin: Offset of the event's header.
        end: Offset after the event, its checksum included if `form` has one.
        form: Of the file; of inner events of a payload, without checksum.
    """
    end -= CHECKSUM_BYTES if form.has_checksum else 0
    post_header = form.header_lengths[event_type - 1] if event_type <= len(form.header_lengths) else 0
    body = begin + HEADER_BYTES + (post_header or (10 if event_type in ROWS_V2_EVENTS else 8))
    if event_type in ROWS_V2_EVENTS and body <= end:
        # The last two bytes of the post-header count the extra data, themselves included (5.6, log_event.h).
        body += max(int(buffer[body - 2]) | int(buffer[body - 1]) << 8, 2) - 2
    assert body <= end
    present = np.empty(PRESENT_COLUMNS, np.int64)
    status, rows = count_image_rows(buffer, body, end, widths.widths, widths.json_columns, event_type, present)
    assert status == DONE
    return int(rows)
