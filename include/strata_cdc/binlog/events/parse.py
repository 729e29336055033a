"""Bytes of one event to its value.
Not here: rows (`changes/`), the order of events in a transaction (`transactions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import COMPRESSED_EVENTS, HEADER_BYTES, ROW_EVENTS, EventFlag, EventType
from strata_cdc.binlog.bytes.compressed_event import plain_body
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.bytes.format import FormatDescription, parse_format_description
from strata_cdc.binlog.bytes.payload import PayloadHeader, parse_payload_header
from strata_cdc.binlog.events.domain_gtid import parse_domain_gtid, parse_gtid_list
from strata_cdc.binlog.events.gtid import parse_gtid, parse_previous_gtids
from strata_cdc.binlog.events.model import (
    DomainGtidEvent,
    GtidEvent,
    Incident,
    PreviousGtids,
    Query,
    Rotate,
    RowsQuery,
    ServerHeartbeat,
    Stop,
    TableMap,
    ViewChange,
    XaPrepare,
    Xid,
)
from strata_cdc.binlog.events.query import parse_query
from strata_cdc.binlog.events.table_map import parse_table_map
from strata_cdc.errors import EncryptedBinlogError, StrataError, UnsupportedEventError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

__all__ = [
    "BinlogEvent",
    "event_body",
    "parse_event",
    "parse_gtid",
    "parse_heartbeat",
    "parse_incident",
    "parse_previous_gtids",
    "parse_query",
    "parse_rotate",
    "parse_rows_query",
    "parse_table_map",
    "parse_view_change",
    "parse_xa_prepare",
    "parse_xid",
]

BinlogEvent = (
    FormatDescription
    | GtidEvent
    | DomainGtidEvent
    | ServerHeartbeat
    | Incident
    | PayloadHeader
    | PreviousGtids
    | Query
    | Rotate
    | RowsQuery
    | Stop
    | TableMap
    | ViewChange
    | XaPrepare
    | Xid
)


class OtherEvent(Struct, frozen=True):
    """An event that is known but not parsed here: rows, and the parts of statement-format statements."""

    event_type: EventType


class IgnoredEvent(Struct, frozen=True):
    """An event of an unknown type whose flag says that it may be skipped."""

    event_type: int


def event_body(buffer: npt.NDArray[np.uint8], position: int, length: int, form: FormatDescription) -> bytes:
    """What lies between the header and the checksum of an event whose bounds are known (`index_events`)."""
    return buffer[position + HEADER_BYTES : position + length - form.checksum_bytes].tobytes()


def parse_event(
    buffer: npt.NDArray[np.uint8], position: int, length: int, form: FormatDescription
) -> BinlogEvent | OtherEvent | IgnoredEvent:
    """Reads the event at byte `position` of `buffer`, `length` bytes long.

    Raises:
        CorruptEventError: The event contradicts itself; with its offset.
        UnsupportedEventError: Its type is not known and may not be skipped.
    """
    kind = int(buffer[position + 4])
    try:
        if kind == EventType.FORMAT_DESCRIPTION:
            # It has a checksum even if the other events have none, so this is handled inside.
            return parse_format_description(buffer[position + HEADER_BYTES : position + length].tobytes())
        if kind == EventType.DOMAIN_GTID:
            return parse_domain_gtid(event_body(buffer, position, length, form), _server_id(buffer, position))
        parse = _PARSERS.get(kind)
        if parse is not None:
            event = parse(event_body(buffer, position, length, form), form)
            return with_header(event, buffer, position) if isinstance(event, Query) else event
        if kind in _UNPARSED:
            return OtherEvent(EventType(kind))
        if _flags(buffer, position) & EventFlag.IGNORABLE:
            return IgnoredEvent(kind)
    except StrataError as error:
        raise error.located(offset=position) from None
    raise unsupported(kind, position)


def with_header(query: Query, buffer: npt.NDArray[np.uint8], position: int) -> Query:
    """The statement with the fields in the header of its event, at byte `position` of `buffer`."""
    is_specific = bool(_flags(buffer, position) & EventFlag.THREAD_SPECIFIC)
    server_id, began_at = _server_id(buffer, position), _number(buffer, position)
    return replace(query, thread_specific=is_specific, server_id=server_id, began_at=began_at)


def _server_id(buffer: npt.NDArray[np.uint8], position: int) -> int:
    return _number(buffer, position + 5)


def _number(buffer: npt.NDArray[np.uint8], position: int) -> int:
    return int.from_bytes(buffer[position : position + 4].tobytes(), "little")


def _flags(buffer: npt.NDArray[np.uint8], position: int) -> int:
    return int(buffer[position + 17]) | int(buffer[position + 18]) << 8


def unsupported(event_type: int, position: int) -> StrataError:
    """The error for an event that cannot be read and may not be skipped."""
    if event_type == EventType.START_ENCRYPTION:
        return EncryptedBinlogError(
            "the binlog is encrypted at rest",
            remedy="Land it from the server, which sends it decrypted: `strata land`; "
            "or set `encrypt_binlog=OFF` and restart the server for files to come.",
            offset=position,
        )
    known = EventType(event_type).name if event_type in set(EventType) else "of an unknown type"
    return UnsupportedEventError(
        f"event type {event_type} ({known}) cannot be read",
        remedy="It comes from a server before MySQL 5.1, or from a server that is newer than this Strata.",
        offset=position,
    )


def parse_rotate(body: bytes) -> Rotate:
    """Reads ROTATE from what lies between its header and its checksum.

    Raises:
        CorruptEventError: The event is too short.
    """
    cursor = ByteCursor(body)
    offset = cursor.uint(8)
    return Rotate(cursor.text(cursor.left()), offset)


def parse_xid(body: bytes) -> Xid:
    """Reads XID.

    Raises:
        CorruptEventError: The event is too short.
    """
    return Xid(ByteCursor(body).uint(8))


def parse_xa_prepare(body: bytes) -> XaPrepare:
    """Reads XA_PREPARE.

    Raises:
        CorruptEventError: The event is too short.
    """
    cursor = ByteCursor(body)
    one_phase = bool(cursor.uint(1))
    format_id = int.from_bytes(cursor.next_bytes(4), "little", signed=True)
    gtrid_bytes, bqual_bytes = cursor.uint(4), cursor.uint(4)
    return XaPrepare(format_id, cursor.next_bytes(gtrid_bytes), cursor.next_bytes(bqual_bytes), one_phase)


def parse_rows_query(body: bytes) -> RowsQuery:
    """Reads ROWS_QUERY. Its first byte is the length modulo 256, which nobody reads.

    Raises:
        CorruptEventError: The event is empty.
    """
    cursor = ByteCursor(body)
    cursor.next_bytes(1)
    return RowsQuery(cursor.rest())


def parse_incident(body: bytes) -> Incident:
    """Reads INCIDENT.

    Raises:
        CorruptEventError: The event is too short.
    """
    cursor = ByteCursor(body)
    number = cursor.uint(2)
    return Incident(number, cursor.text(cursor.uint(1)) if cursor.left() else "")


def parse_heartbeat(body: bytes, event_type: int = EventType.HEARTBEAT) -> ServerHeartbeat:
    """Reads HEARTBEAT, or HEARTBEAT_V2 (8.0.26), which has its offset in 64 bits.

    Raises:
        CorruptEventError: A field runs beyond the end.
    """
    if event_type == EventType.HEARTBEAT:
        return ServerHeartbeat(body.decode("utf-8", "surrogateescape"), None)
    cursor = ByteCursor(body)
    file, offset = "", None
    while cursor.left() and (field := cursor.lenenc()):
        value = ByteCursor(cursor.next_bytes(cursor.lenenc()))
        if field == 1:
            file = value.text(value.left())
        elif field == 2:
            offset = value.lenenc()
    return ServerHeartbeat(file, offset)


def parse_view_change(body: bytes) -> ViewChange:
    """Reads VIEW_CHANGE, without the certification data after it.

    Raises:
        CorruptEventError: The event is too short.
    """
    cursor = ByteCursor(body)
    view_id = cursor.next_bytes(40).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
    return ViewChange(view_id, cursor.uint(8))


_PARSERS: dict[int, Callable[[bytes, FormatDescription], BinlogEvent]] = {
    EventType.STOP: lambda _body, _form: Stop(),
    EventType.ROTATE: lambda body, _form: parse_rotate(body),
    EventType.GTID: lambda body, _form: parse_gtid(body),
    EventType.ANONYMOUS_GTID: lambda body, _form: parse_gtid(body, EventType.ANONYMOUS_GTID),
    EventType.TAGGED_GTID: lambda body, _form: parse_gtid(body, EventType.TAGGED_GTID),
    EventType.PREVIOUS_GTIDS: lambda body, _form: parse_previous_gtids(body),
    EventType.GTID_LIST: lambda body, _form: parse_gtid_list(body),
    EventType.QUERY: parse_query,
    EventType.QUERY_COMPRESSED: lambda body, form: parse_query(
        plain_body(body, form, EventType.QUERY_COMPRESSED), form, EventType.QUERY_COMPRESSED
    ),
    EventType.EXECUTE_LOAD_QUERY: lambda body, form: parse_query(body, form, EventType.EXECUTE_LOAD_QUERY),
    EventType.XID: lambda body, _form: parse_xid(body),
    EventType.XA_PREPARE: lambda body, _form: parse_xa_prepare(body),
    EventType.TABLE_MAP: lambda body, form: parse_table_map(
        body, form.header_length(EventType.TABLE_MAP), form.flavour.vendor
    ),
    EventType.ROWS_QUERY: lambda body, _form: parse_rows_query(body),
    EventType.ANNOTATE_ROWS: lambda body, _form: RowsQuery(body),
    EventType.TRANSACTION_PAYLOAD: lambda body, _form: parse_payload_header(body),
    EventType.INCIDENT: lambda body, _form: parse_incident(body),
    EventType.HEARTBEAT: lambda body, _form: parse_heartbeat(body),
    EventType.HEARTBEAT_V2: lambda body, _form: parse_heartbeat(body, EventType.HEARTBEAT_V2),
    EventType.VIEW_CHANGE: lambda body, _form: parse_view_change(body),
}

_UNPARSED = (
    ROW_EVENTS
    | (COMPRESSED_EVENTS.keys() - {EventType.QUERY_COMPRESSED})
    | {
        EventType.BINLOG_CHECKPOINT,
        EventType.PARTIAL_ROW_DATA,
        EventType.INTVAR,
        EventType.RAND,
        EventType.USER_VAR,
        EventType.BEGIN_LOAD_QUERY,
        EventType.APPEND_BLOCK,
        EventType.DELETE_FILE,
        EventType.IGNORABLE,
        EventType.TRANSACTION_CONTEXT,
    }
)
