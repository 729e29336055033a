"""GTID events of both kinds, and PREVIOUS_GTIDS.
Not here: GTIDs and sets as values (`position/sets.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING
from uuid import UUID

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.events.model import GtidEvent, PreviousGtids
from strata_cdc.errors import CorruptEventError
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.position.sets import Gtid, GtidSet, Sid

if TYPE_CHECKING:
    from strata_cdc.position.port import Executed

_CLOCK_TYPE = 2
"""The byte before last_committed and sequence_number (5.7.5, `LOGICAL_TIMESTAMP_TYPECODE`)."""
_ORIGINAL_FOLLOWS = 1 << 55
"""Set in immediate_commit_timestamp if original_commit_timestamp differs (8.0.1)."""
_TAGGED_SETS = 1
"""Format byte of a PREVIOUS_GTIDS with tags (8.3.0, sql/rpl_gtid_set.cc, `Gtid_format`)."""


class _GtidField(IntEnum):
    """Fields of TAGGED_GTID (8.3.0, libs/mysql/binlog/event/control_events.h, `Gtid_event::define_fields`)."""

    FLAGS = 0
    UUID = 1
    GNO = 2
    TAG = 3
    LAST_COMMITTED = 4
    SEQUENCE_NUMBER = 5
    IMMEDIATE_COMMIT = 6
    ORIGINAL_COMMIT = 7
    TRANSACTION_LENGTH = 8
    IMMEDIATE_VERSION = 9


def parse_gtid(body: bytes, event_type: int = EventType.GTID) -> GtidEvent:
    """Reads GTID, ANONYMOUS_GTID or TAGGED_GTID from what lies between its header and its checksum.

    Raises:
        CorruptEventError: A field runs beyond the end, or there is no such GTID.
    """
    if event_type == EventType.TAGGED_GTID:
        return _parse_tagged(ByteCursor(body))
    cursor = ByteCursor(body)
    cursor.next_bytes(1)
    uuid = cursor.next_bytes(16)
    gno = int.from_bytes(cursor.next_bytes(8), "little", signed=True)
    # 5.6 ends here, 5.7.5 added the logical clock, 8.0.1 times, 8.0.2 the length, 8.0.14 the version.
    last_committed = sequence_number = immediate = original = length = version = 0
    if cursor.left() >= 17 and cursor.uint(1) == _CLOCK_TYPE:
        last_committed, sequence_number = cursor.uint(8), cursor.uint(8)
        if cursor.left() >= 7:
            immediate = original = cursor.uint(7)
            if immediate & _ORIGINAL_FOLLOWS:
                immediate ^= _ORIGINAL_FOLLOWS
                original = cursor.uint(7)
        if cursor.left():
            length = cursor.lenenc()
        if cursor.left() >= 4:
            version = cursor.uint(4) & 0x7FFFFFFF
    anonymous = event_type == EventType.ANONYMOUS_GTID
    return GtidEvent(
        None if anonymous else Gtid(Sid(_uuid_text(uuid)), _checked(gno)),
        last_committed=last_committed,
        sequence_number=sequence_number,
        immediate_commit_timestamp=immediate,
        original_commit_timestamp=original,
        transaction_length=length,
        ran_first_on=_flavour(version),
    )


def _flavour(number: int) -> Flavour | None:
    """999999 means "unknown" (libs/mysql/binlog/event/binlog_event.h, UNKNOWN_SERVER_VERSION)."""
    return Flavour.mysql(number) if 0 < number < 999_999 else None


def _parse_tagged(cursor: ByteCursor) -> GtidEvent:
    """`mysql::serialization`: version, size, last field that must be understood, then fields by ascending number."""
    cursor.varint()
    cursor.varint()
    cursor.varint()
    uuid, tag = b"", ""
    numbers = dict.fromkeys(_GtidField, 0)
    original: int | None = None
    # After these come original version and commit group ticket, and whatever a later server adds.
    while cursor.left() and (number := cursor.varint()) <= _GtidField.IMMEDIATE_VERSION:
        field = _GtidField(number)
        if field == _GtidField.UUID:
            uuid = bytes(cursor.varint() & 0xFF for _ in range(16))
        elif field == _GtidField.TAG:
            tag = cursor.text(cursor.varint())
        elif field in (_GtidField.GNO, _GtidField.LAST_COMMITTED, _GtidField.SEQUENCE_NUMBER):
            numbers[field] = cursor.signed_varint()
        elif field == _GtidField.ORIGINAL_COMMIT:
            original = cursor.varint()
        else:
            numbers[field] = cursor.varint()
    if len(uuid) != 16:
        raise CorruptEventError("a tagged GTID has no UUID")
    immediate = numbers[_GtidField.IMMEDIATE_COMMIT]
    return GtidEvent(
        Gtid(Sid(_uuid_text(uuid), tag), _checked(numbers[_GtidField.GNO])),
        last_committed=numbers[_GtidField.LAST_COMMITTED],
        sequence_number=numbers[_GtidField.SEQUENCE_NUMBER],
        immediate_commit_timestamp=immediate,
        original_commit_timestamp=immediate if original is None else original,
        transaction_length=numbers[_GtidField.TRANSACTION_LENGTH],
        ran_first_on=_flavour(numbers[_GtidField.IMMEDIATE_VERSION] & 0x7FFFFFFF),
    )


def parse_previous_gtids(body: bytes) -> PreviousGtids:
    """Reads PREVIOUS_GTIDS, with or without tags, from what lies between its header and its checksum.

    Raises:
        CorruptEventError: A field runs beyond the end, or an interval is empty or out of order.
    """
    cursor = ByteCursor(body)
    head = cursor.uint(8)
    tagged = head >> 56 == _TAGGED_SETS
    count = head >> 8 & ((1 << 48) - 1) if tagged else head
    if count > cursor.left() // 16:
        raise CorruptEventError(f"a PREVIOUS_GTIDS of {count} servers is too short")
    spans: dict[Sid, list[tuple[int, int]]] = {}
    for _ in range(count):
        uuid = _uuid_text(cursor.next_bytes(16))
        tag = cursor.text(cursor.varint()) if tagged else ""
        intervals = cursor.uint(8)
        if intervals > cursor.left() // 16:
            raise CorruptEventError(f"a PREVIOUS_GTIDS of {intervals} intervals is too short")
        spans.setdefault(Sid(uuid, tag), []).extend(_interval(cursor) for _ in range(intervals))
    return PreviousGtids(GtidSet.from_spans(spans))


def _interval(cursor: ByteCursor) -> tuple[int, int]:
    first, until = cursor.uint(8), cursor.uint(8)
    if not 1 <= first < until:
        raise CorruptEventError(f"a PREVIOUS_GTIDS has the interval {first} to {until}")
    return first, until - 1


def encode_gtid_set(gtid_set: Executed) -> bytes:
    """The binary form of a set, as PREVIOUS_GTIDS and COM_BINLOG_DUMP_GTID have it; with tags only if it has some.

    Raises:
        TypeError: The position is not MySQL's.
    """
    if not isinstance(gtid_set, GtidSet):
        raise TypeError(f"{type(gtid_set).__name__} has no form in MySQL's events")
    entries = list(gtid_set.items())
    tagged = any(sid.tag for sid, _ in entries)
    head = (_TAGGED_SETS << 56 | len(entries) << 8 | _TAGGED_SETS) if tagged else len(entries)
    parts = [head.to_bytes(8, "little")]
    for sid, spans in entries:
        parts.append(UUID(sid.uuid).bytes)
        if tagged:
            tag = sid.tag.encode("ascii")
            parts.append(bytes([len(tag) << 1]) + tag)
        parts.append(len(spans).to_bytes(8, "little"))
        parts.extend(first.to_bytes(8, "little") + (last + 1).to_bytes(8, "little") for first, last in spans)
    return b"".join(parts)


def stream_request(executed: Executed, vendor: Vendor) -> bytes | str:
    """What requests, from a server of a vendor, all that a position does not contain (`BinlogStream.read_events`).

    Raises:
        TypeError: The position is of the other vendor.
    """
    return encode_gtid_set(executed) if vendor is Vendor.MYSQL else str(executed)


def _uuid_text(data: bytes) -> str:
    digits = data.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _checked(gno: int) -> int:
    if gno < 1:
        raise CorruptEventError(f"a GTID event has the number {gno}")
    return gno
