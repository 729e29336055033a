"""Reads the events that begin a transaction.
Not here: GTIDs as values (`binlog/events/gtid.py`, `position/sets.py`), where a transaction ends
(`transactions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.scan import HEADER_BYTES, read_i64, read_u48
from strata_cdc.binlog.kernels.status import DONE
from strata_cdc.binlog.kernels.words import EventCode, Fault, Request

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import ByteRows, Bytes, Int, IntRows
    from strata_cdc.binlog.kernels.layout import Events

KEY_BYTES = 49
"""A server's UUID (16), the length of a tag (1) and the tag (32). MariaDB's key is a domain and a server (4 each), 0s,
and `IS_DOMAIN` instead of the length."""
TAG_LENGTH = 16
"""Position of the length of the tag."""
IS_DOMAIN = 255
"""No tag is that long."""
KEY_NUMBER = KEY_BYTES
"""Position of the number (8 bytes) after them in the key that `read_gtid` fills."""
GTID_BYTES = KEY_BYTES + 8
_CLOCK_TYPE = 2
_ORIGINAL_FOLLOWS = 1 << 55
_UUID_BYTES = 16
_DOMAIN_GTID_BYTES = 13
"""Of the sequence number (8), the domain (4) and the flags (1)."""
_STANDALONE = 1
"""Flag of MariaDB's GTID: one statement follows, and no event that commits it (sql/log_event.h, FL_STANDALONE)."""


@part
def is_standalone(buffer: Bytes, at: Int, end: Int) -> bool:
    """Whether one statement alone follows a GTID of MariaDB; arguments as in `read_gtid`."""
    return bool(end - at >= _DOMAIN_GTID_BYTES and np.int64(buffer[at + 12]) & _STANDALONE)


@kernel
def _read_domain_gtid(buffer: Bytes, at: Int, end: Int, key: Bytes) -> Int:
    """Reads MariaDB's GTID; its server is in the event's header. Returns 0, or -1 as `read_gtid`."""
    if end - at < _DOMAIN_GTID_BYTES:
        return np.int64(-1)
    header = at - HEADER_BYTES
    for k in range(4):
        key[k] = buffer[at + 8 + k]
        key[4 + k] = buffer[header + 5 + k]
    for k in range(8):
        key[8 + k] = 0
        key[KEY_NUMBER + k] = buffer[at + k]
    key[TAG_LENGTH] = IS_DOMAIN
    return np.int64(0 if read_i64(key, KEY_NUMBER) >= 1 else -1)


@kernel
def read_gtid(buffer: Bytes, at: Int, end: Int, event_type: Int, key: Bytes) -> Int:
    """Reads GTID, ANONYMOUS_GTID or TAGGED_GTID of MySQL, or the GTID of MariaDB.

    Args:
        buffer: Bytes of the file.
        at: Offset after the event's header, which is there, too.
        end: Offset before its checksum.
        event_type: Its type code.
        key: Gets `GTID_BYTES` bytes: UUID, length of tag, tag and number, or what `KEY_BYTES` says of MariaDB; all 0
            for an anonymous transaction.

    Returns:
        The time of the commit (microseconds since 1970 UTC; 0 if the server does not write it), or -1 if the event
        is incomplete or has impossible values.
    """
    for k in range(_UUID_BYTES, GTID_BYTES):
        key[k] = 0
    if event_type == EventCode.TAGGED_GTID:
        return _read_tagged(buffer, at, end, key)
    if event_type == EventCode.DOMAIN_GTID:
        return _read_domain_gtid(buffer, at, end, key)
    if end - at < 25:
        return np.int64(-1)
    if event_type != EventCode.ANONYMOUS_GTID:
        for k in range(_UUID_BYTES):
            key[k] = buffer[at + 1 + k]
        for k in range(8):
            key[KEY_NUMBER + k] = buffer[at + 17 + k]
        if read_i64(key, KEY_NUMBER) < 1:
            return np.int64(-1)
    # After that, 5.7.5 added the logical clock, and 8.0.1 the time of the commit.
    if end - at >= 49 and buffer[at + 25] == _CLOCK_TYPE:
        stamp = read_u48(buffer, at + 42) | (np.int64(buffer[at + 48]) << 48)
        return stamp & ~np.int64(_ORIGINAL_FOLLOWS)
    return np.int64(0)


@kernel
def read_varint(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """An unsigned number of `mysql::serialization` and the offset after it; offset -1 if it runs past `end`."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(buffer[at])
    extra = np.int64(0)
    while extra < 8 and (first >> extra) & 1:
        extra += 1
    if at + 1 + extra > end:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for k in range(extra):
        value |= np.int64(buffer[at + 1 + k]) << np.int64(8 * k)
    if extra < 8:
        value = (value << (7 - extra)) | (first >> (extra + 1))
    return value, np.int64(at + 1 + extra)


@kernel
def _read_uuid(buffer: Bytes, at: Int, end: Int, key: Bytes) -> Int:
    """Reads a UUID of 16 numbers to `key`; returns the offset after it, -1 if it runs past `end`."""
    for k in range(_UUID_BYTES):
        byte, at = read_varint(buffer, at, end)
        if at < 0:
            return np.int64(-1)
        key[k] = byte
    return np.int64(at)


@kernel
def _note_number(value: Int, at: Int, key: Bytes) -> Int:
    """Writes the number of a transaction, signed and twice as large, to `key`; returns `at`, or -1 if it is below 1."""
    if value & 1 or value < 2:
        return np.int64(-1)
    for k in range(8):
        key[KEY_NUMBER + k] = (value >> (1 + 8 * k)) & 0xFF
    return np.int64(at)


@kernel
def _read_tag(buffer: Bytes, at: Int, end: Int, length: Int, key: Bytes) -> Int:
    """Reads a tag to `key`; returns the offset after it, -1 if it is too long or runs past `end`."""
    if at < 0 or length > KEY_BYTES - _UUID_BYTES - 1 or length < 0 or length > end - at:
        return np.int64(-1)
    key[_UUID_BYTES] = length
    for k in range(length):
        key[_UUID_BYTES + 1 + k] = buffer[at + k]
    return np.int64(at + length)


@kernel
def _read_tagged(buffer: Bytes, at: Int, end: Int, key: Bytes) -> Int:
    stamp = np.int64(0)
    field = np.int64(-3)  # Before the fields are the version, the size and the last field that must be understood.
    seen = np.int64(0)
    while at < end:
        number, at = read_varint(buffer, at, end)
        if at < 0:
            return np.int64(-1)
        if field < 0:
            field += 1
            continue
        if number > 6:  # After the time of the commit there is nothing that is needed to cut a stream.
            break
        if number == 1:
            at = _read_uuid(buffer, at, end, key)
            seen |= 1
        else:
            value, at = read_varint(buffer, at, end)
            if number == 2:
                at = _note_number(value, at, key)
                seen |= 2
            elif number == 3:
                at = _read_tag(buffer, at, end, value, key)
            elif number == 6:
                stamp = value & ((np.int64(1) << 55) - 1)
        if at < 0:
            return np.int64(-1)
    return stamp if seen == 3 else np.int64(-1)


@kernel
def key_row(keys: ByteRows, count: Int, hint: Int, key: Bytes) -> Int:
    """The row of `keys` that equals `key`, among the first `count`, trying `hint` first; -1 if there is none."""
    for step in range(count + 1):
        row = hint if step == 0 else step - 1
        if row < 0 or row >= count:
            continue
        same = True
        for k in range(KEY_BYTES):
            if keys[row, k] != key[k]:
                same = False
                break
        if same:
            return np.int64(row)
    return np.int64(-1)


@kernel
def read_head(
    buf: Bytes, body: Int, end: Int, event_type: Int, keys: ByteRows, count: Int, hint: Int, key: Bytes
) -> tuple[Int, Int, Int]:
    """Reads the event that begins a transaction; arguments as in `read_gtid` and `key_row`.

    Returns:
        Status (DONE, BAD_GTID or NEW_SERVER: `key` is in no row yet), the row of its server and tag (-1 for an
        anonymous transaction), and the time of its commit as in `read_gtid`.
    """
    stamp = read_gtid(buf, body, end, event_type, key)
    if stamp < 0:
        return np.int64(Fault.BAD_GTID), np.int64(-1), np.int64(0)
    if event_type == EventCode.ANONYMOUS_GTID:
        return np.int64(DONE), np.int64(-1), stamp
    row = key_row(keys, count, hint, key)
    return np.int64(DONE if row >= 0 else Request.NEW_SERVER), row, stamp


@kernel
def read_gtids(
    buf: Bytes, events: Events, trailer: Int, first: Int, keys: ByteRows, count: Int, key: Bytes, gtids: IntRows
) -> tuple[Int, Int]:
    """Reads GTID events one after the other.

    Args:
        buf: The bytes that they are in.
        events: Only GTID and TAGGED_GTID events, or MariaDB's GTID events.
        trailer: Bytes of the checksum after each event.
        first: The first event to read.
        keys: As in `key_row`.
        count: As in `key_row`.
        key: As in `key_row`.
        gtids: Gets the row of `keys` and the number of each event.

    Returns:
        Status and the event that it is about: DONE, BAD_GTID, or NEW_SERVER (add `key`, and continue with that event).
    """
    row = np.int64(-1)
    for i in range(first, len(events.positions)):
        position = events.positions[i]
        body, end = position + HEADER_BYTES, position + events.lengths[i] - trailer
        status, row, _ = read_head(buf, body, end, np.int64(events.types[i]), keys, count, row, key)
        if status != DONE:
            return status, np.int64(i)
        gtids[i, 0] = row
        gtids[i, 1] = read_i64(key, KEY_NUMBER)
    return np.int64(DONE), np.int64(len(events.positions))
