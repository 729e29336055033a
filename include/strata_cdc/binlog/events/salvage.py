"""Reading after damage: which ranges of a file can be read, and what may be lost between them.
Not here: reading them (`transactions.py`, `changes/`), what follows from a loss (`pipeline/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import GTID_EVENTS, HEADER_BYTES, EventType
from strata_cdc.binlog.bytes.frames import index_events
from strata_cdc.binlog.events.model import DomainGtidEvent, GtidEvent
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.transactions import scan_transactions
from strata_cdc.binlog.kernels import status as codes
from strata_cdc.binlog.kernels.crc import CRC_TABLES, verify_events
from strata_cdc.errors import CorruptEventError, MisplacedEventError, StrataError, TruncatedEventError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.position.sets import Gtid

_GTIDS: Final = tuple(GTID_EVENTS)
_ROWS: Final = (EventType.TABLE_MAP, EventType.ROWS_QUERY)
_LONGEST_GTID: Final = 8192
"""Bytes; MariaDB fills the first GTID of a file of one transaction up to byte 4096 of the file."""
_WINDOW_BYTES: Final = 1 << 20
_WINDOW_EVENTS: Final = 4096
_SHIFT_EVENTS: Final = 64
_MODULUS: Final = 0xFFFFFFFF


class Damage(Struct, frozen=True):
    """A part of a file that cannot be read as it was written; it has no bytes if whole transactions are missing. It
    counts as one transaction of the stream."""

    error: CorruptEventError
    begin: int
    """Offset after the last complete transaction."""
    end: int
    """Where reading continues: a transaction begins here, or the file ends."""
    gtid: Gtid | None
    """The transaction that is damaged, if its head can be read."""
    may_hide_ddl: bool
    """False only if exactly one transaction is damaged, and it changes rows: DDL has its own transactions."""


class WholeTransactions(Struct, frozen=True):
    """Consecutive complete transactions, and the damage after them if the file does not end there."""

    begin: int
    end: int
    """Offset after the last complete transaction."""
    transactions: int
    damage: Damage | None


def find_whole_transactions(binlog: BinlogFile) -> Iterator[WholeTransactions]:
    """All of a file, from the beginning to the end; an undamaged file is one range.

    Raises:
        UnsupportedEventError: An event is undamaged, but cannot be read.
    """
    begin, size = binlog.first_event, len(binlog.buffer)
    while begin < size:
        count, end, fault = 0, begin, None
        try:
            for batch in scan_transactions(binlog, begin=begin):
                count, end = count + len(batch), int(batch.ends[-1])
        except CorruptEventError as error:
            fault = error
        damage = None if fault is None else _assess(binlog, begin, end, fault)
        yield WholeTransactions(begin, end, count, damage)
        begin = size if damage is None else damage.end


def _assess(binlog: BinlogFile, start: int, end: int, fault: CorruptEventError) -> Damage:
    """The damage after the complete transactions between `start` and `end`."""
    size = len(binlog.buffer)
    at = end if fault.offset is None else max(fault.offset, end)
    head = None
    begin = _first_gtid_event(binlog, end, at)
    if begin is not None:
        head = _gtid_event(binlog, begin)
    if isinstance(fault, MisplacedEventError):
        # The event is as it was written: one that begins a transaction is where reading continues.
        return Damage(fault, end, _next_head(binlog, at), head.gtid if head else None, may_hide_ddl=True)
    if isinstance(head, GtidEvent) and begin is not None and head.transaction_length:
        after = begin + head.transaction_length
        if after > at and (after == size or _is_sound(binlog, after)):
            return Damage(fault, end, after, head.gtid, may_hide_ddl=not _changes_rows(binlog, begin, at))
    following = _next_transaction(binlog, at + 1, _shift(binlog, start, at))
    gtid = head.gtid if head is not None else None
    return Damage(fault, end, size if following is None else following, gtid, may_hide_ddl=True)


def _first_gtid_event(binlog: BinlogFile, begin: int, end: int) -> int | None:
    """Offset of the first GTID event between two offsets, the first of which is where an event begins."""
    index = index_events(binlog.buffer, begin, end, binlog.format, 16)
    heads = np.flatnonzero(np.isin(index.types, _GTIDS))
    return int(index.positions[heads[0]]) if len(heads) else None


def _next_head(binlog: BinlogFile, begin: int) -> int:
    """Offset of the first GTID event from an offset on at which an event begins; the file's end if there is none."""
    size = len(binlog.buffer)
    while begin < size:
        index = index_events(binlog.buffer, begin, size, binlog.format, _WINDOW_EVENTS)
        heads = np.flatnonzero(np.isin(index.types, _GTIDS))
        if len(heads):
            return int(index.positions[heads[0]])
        if index.status != codes.FULL:
            break
        begin = index.next
    return size


def _changes_rows(binlog: BinlogFile, begin: int, end: int) -> bool:
    """Whether the third event of a transaction lies before `end` and announces rows; the second one is BEGIN."""
    index = index_events(binlog.buffer, begin, end, binlog.format, 3)
    return len(index) == 3 and index.types[1] == EventType.QUERY and int(index.types[2]) in _ROWS


def _next_transaction(binlog: BinlogFile, begin: int, shift: int | None) -> int | None:
    """Offset of the first GTID event from byte `begin` on, wherever events begin.

    One whose header has the position in the server's file that its offset implies is preferred: any other may be bytes
    of a binlog that is stored in a BLOB. Another is used only if there is none, for example if bytes are missing.

    Args:
        binlog: The file.
        begin: Where to begin.
        shift: The result of `_shift` for the events before the damage.
    """
    buffer, last, other = binlog.buffer, len(binlog.buffer) - HEADER_BYTES, None
    for start in range(begin, last, _WINDOW_BYTES):
        stop = min(start + _WINDOW_BYTES, last)
        at = start + np.flatnonzero(np.isin(buffer[start + 4 : stop + 4], _GTIDS))
        # Of a length that is so short the upper two bytes are 0.
        at = at[(buffer[at + 10] < _LONGEST_GTID >> 8) & (buffer[at + 11] == 0) & (buffer[at + 12] == 0)]
        in_place = at[(_number(buffer, at + 13) - _number(buffer, at + 9) - at) & _MODULUS == shift]
        first_gtid_event = _first_gtid_event_of(binlog, in_place)
        if first_gtid_event is not None:
            return first_gtid_event
        if other is None:
            other = _first_gtid_event_of(binlog, at)
    return other


def _first_gtid_event_of(binlog: BinlogFile, places: npt.NDArray[np.int64]) -> int | None:
    return next((offset for offset in places.tolist() if _gtid_event(binlog, offset) is not None), None)


def _shift(binlog: BinlogFile, begin: int, end: int) -> int | None:
    """How much larger than their offsets the positions in the server's file are, modulo 2**32; None if no event
    shows it."""
    index = index_events(binlog.buffer, begin, end, binlog.format, _SHIFT_EVENTS)
    placed = np.flatnonzero(index.log_positions)
    if not len(placed):
        return None
    at = placed[-1]
    return int(index.log_positions[at] - index.lengths[at] - index.positions[at]) & _MODULUS


def _number(buffer: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The four bytes at each offset, little-endian."""
    return sum(buffer[at + k].astype(np.int64) << (8 * k) for k in range(4))  # type: ignore[return-value]  # an array


def _gtid_event(binlog: BinlogFile, position: int) -> GtidEvent | DomainGtidEvent | None:
    """The GTID event at an offset; None if there is none, or not as it was written."""
    buffer = binlog.buffer
    if int(buffer[position + 4]) not in _GTIDS or not _is_sound(binlog, position):
        return None
    length = int.from_bytes(buffer[position + 9 : position + 13].tobytes(), "little")
    try:
        event = parse_event(buffer, position, length, binlog.format)
    except StrataError:
        return None
    return event if isinstance(event, GtidEvent | DomainGtidEvent) else None


def _is_sound(binlog: BinlogFile, position: int) -> bool:
    """Whether an event begins at an offset that is as it was written."""
    buffer, form = binlog.buffer, binlog.format
    index = index_events(buffer, position, len(buffer), form, 2)
    if not len(index):
        return False
    if form.has_checksum:
        return int(verify_events(CRC_TABLES, buffer, index.positions[:1], index.lengths[:1])[0]) == codes.DONE
    # Each header says where the server's file continues after its event, so two consecutive headers confirm each other.
    after = (index.log_positions[:-1] + index.lengths[1:]) & 0xFFFFFFFF
    return bool((after == index.log_positions[1:]).all()) or 0 in index.log_positions


def describe(damage: Damage) -> str:
    """The damage and what follows from it, in one sentence without a full stop."""
    lost = "the file is cut off" if isinstance(damage.error, TruncatedEventError) else damage.error.message
    gtid = f" (GTID {damage.gtid})" if damage.gtid else ""
    if damage.begin == damage.end:
        return f"{damage.error.file} @ {damage.begin}: {lost}"
    return f"{damage.error.file}: bytes {damage.begin:,} to {damage.end:,} were skipped{gtid}: {lost}"
