"""Groups events into transactions the plain way: one event at a time, with the readers in Python.
The second witness for the walk in `binlog/kernels/transactions.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from strata_cdc.binlog.bytes.format import FormatDescription
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.payload import PayloadHeader, read_payload
from strata_cdc.binlog.events.cell_widths import CellWidths, count_rows
from strata_cdc.binlog.events.model import GtidEvent, Query, TableMap, XaPrepare, Xid
from strata_cdc.binlog.events.parse import OtherEvent, parse_event

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.files import BinlogFile


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
