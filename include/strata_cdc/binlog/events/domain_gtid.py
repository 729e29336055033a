"""MariaDB's GTID events, and the list of GTIDs that begins each of its files.
Not here: MySQL's (`gtid.py`), positions as values (`position/domains.py`).
"""

from __future__ import annotations

import struct
from enum import IntFlag
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.events.model import AlterPhase, DomainGtidEvent, PreviousGtids
from strata_cdc.errors import CorruptEventError, UnsupportedEventError
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.sets import DomainWriter, Gtid

if TYPE_CHECKING:
    from strata_cdc.position.port import Executed

_LARGEST_NUMBER: Final = (1 << 63) - 1
"""Columns of the index and of change tables have signed numbers; no server counts so far."""
_LIST_COUNT: Final = 0x0FFFFFFF
"""The upper bits of a list's count are flags (sql/log_event.h, `Gtid_list_log_event`)."""
_ENTRY_BYTES: Final = 16


class _Flag(IntFlag):
    """Flags of a GTID (sql/log_event.h, `Gtid_log_event`, flags2)."""

    STANDALONE = 1
    GROUP_COMMIT_ID = 2
    TRANSACTIONAL = 4
    DDL = 32
    PREPARED_XA = 64
    COMPLETED_XA = 128


class _Extra(IntFlag):
    """Further flags (flags_extra), which say which fields follow."""

    MULTI_ENGINE = 1
    START_ALTER = 2
    COMMIT_ALTER = 4
    ROLLBACK_ALTER = 8
    THREAD_ID = 16


_PHASES: Final = {
    _Extra.START_ALTER: AlterPhase.START,
    _Extra.COMMIT_ALTER: AlterPhase.COMMIT,
    _Extra.ROLLBACK_ALTER: AlterPhase.ROLLBACK,
}


def parse_domain_gtid(body: bytes, server_id: int) -> DomainGtidEvent:
    """Reads a GTID of MariaDB from what lies between its header and its checksum.

    Args:
        body: The event's body; zeros after the fields fill it up to any length (`binlog_large_commit_threshold`).
        server_id: From the event's header.

    Raises:
        CorruptEventError: A field runs beyond the end, or the number is 0.
        UnsupportedEventError: The number has more than 63 bits.
    """
    cursor = ByteCursor(body)
    number, domain, flags = cursor.uint(8), cursor.uint(4), _Flag(cursor.uint(1))
    if number == 0:
        raise CorruptEventError("a GTID event has the number 0")
    if number > _LARGEST_NUMBER:
        raise UnsupportedEventError(f"the sequence number {number} has more than 63 bits")
    commit_id = cursor.uint(8) if flags & _Flag.GROUP_COMMIT_ID else None
    if flags & (_Flag.PREPARED_XA | _Flag.COMPLETED_XA):
        cursor.next_bytes(4)
        cursor.next_bytes(cursor.uint(1) + cursor.uint(1))
    extra = _Extra(cursor.uint(1)) if cursor.left() else _Extra(0)
    if extra & _Extra.MULTI_ENGINE:
        cursor.next_bytes(1)
    phase = next((phase for flag, phase in _PHASES.items() if extra & flag), None)
    started_by = cursor.uint(8) if phase in (AlterPhase.COMMIT, AlterPhase.ROLLBACK) else None
    thread_id = cursor.uint(4) if extra & _Extra.THREAD_ID else None
    return DomainGtidEvent(
        Gtid(DomainWriter(domain, server_id), number),
        standalone=bool(flags & _Flag.STANDALONE),
        transactional=bool(flags & _Flag.TRANSACTIONAL),
        ddl=bool(flags & _Flag.DDL),
        prepared_xa=bool(flags & _Flag.PREPARED_XA),
        completed_xa=bool(flags & _Flag.COMPLETED_XA),
        commit_id=commit_id,
        alter_phase=phase,
        started_by=started_by,
        thread_id=thread_id,
    )


def parse_gtid_list(body: bytes) -> PreviousGtids:
    """Reads GTID_LIST from what lies between its header and its checksum. Of each domain it has the last GTID of every
    server that wrote to it, the newest of them last.

    Raises:
        CorruptEventError: A field runs beyond the end, or a number is 0.
    """
    cursor = ByteCursor(body)
    count = cursor.uint(4) & _LIST_COUNT
    if count > cursor.left() // _ENTRY_BYTES:
        raise CorruptEventError(f"a GTID_LIST of {count} GTIDs is too short")
    builder = DomainSet().builder()
    for _ in range(count):
        domain, server, number = cursor.uint(4), cursor.uint(4), cursor.uint(8)
        if number == 0:
            raise CorruptEventError("a GTID_LIST has the number 0")
        builder.add(Gtid(DomainWriter(domain, server), number))
    return PreviousGtids(builder.build())


def encode_gtid_list(executed: Executed) -> bytes:
    """The body of a GTID_LIST with the newest GTID of each domain.

    Raises:
        TypeError: The position is not MariaDB's.
    """
    if executed and not isinstance(executed, DomainSet):
        raise TypeError(f"{type(executed).__name__} has no form in MariaDB's events")
    ranges = executed.ranges if isinstance(executed, DomainSet) else ()
    entries = b"".join(struct.pack("<IIQ", known.domain, known.server, known.last) for known in ranges)
    # The server fills an empty list up (sql/log_event_server.cc, `Gtid_list_log_event::to_packet`).
    return struct.pack("<I", len(ranges)) + (entries or bytes(2))
