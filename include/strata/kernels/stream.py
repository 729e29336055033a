"""Walks events in stream order: transactions, table maps, rows; hands every rare event back to its caller.
Not here: the cells of a row (`walk.py`), rare events (`rows/stream.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata.kernels.gtid import KEY_NUMBER, key_slot, read_gtid
from strata.kernels.jit import kernel
from strata.kernels.layout import (
    ANONYMOUS_GTID,
    AT,
    BETWEEN,
    CLOCK,
    DELTA,
    END_OF_STATEMENT,
    EVENT,
    FOREIGN,
    FORMAT_DESCRIPTION,
    GNO,
    GTID,
    HEADED,
    HEADER,
    HEARTBEAT,
    HEARTBEAT_V2,
    IGNORABLE,
    INSIDE,
    KEYS,
    MAP_BODY_AT,
    MAP_BODY_LENGTH,
    MAP_ID,
    MAP_SLOT,
    MAP_STATEMENT,
    NO_TABLE,
    OPEN,
    POSITION,
    PREVIOUS_GTIDS,
    QUERY,
    ROTATE,
    ROW,
    SEQ,
    SID,
    SLOT,
    STATEMENT,
    STOP,
    TABLE_MAP,
    TAGGED_GTID,
    TRANSACTION_CONTEXT,
    VIEW_CHANGE,
    XA_PREPARE,
    XID,
)
from strata.kernels.scan import read_i64, read_u16, read_u32, read_u48
from strata.kernels.statements import BEGIN, BROKEN, END, classify
from strata.kernels.statements import STATEMENT as STATEMENT_TEXT
from strata.kernels.status import CORRUPT, DONE, FULL, UNSUPPORTED
from strata.kernels.walk import walk_rows

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, IntRows, Ints
    from strata.kernels.layout import Events, Tables


NO_SLOT: Final = -2


@kernel
def find_map(maps: IntRows, table_id: Int) -> Int:
    """Place of a table id in the hash table: its own, or the free one where it would go.

    `maps` has a power of two of places and is never full.
    """
    mask = maps.shape[0] - 1
    place = (((table_id & 0xFFFFFFF) * np.int64(0x9E3779B1)) >> 16) & mask
    while maps[place, MAP_ID] not in (0, table_id + 1):
        place = (place + 1) & mask
    return place


@kernel
def same_bytes(left: Bytes, at: Int, right: Bytes, other: Int, length: Int) -> bool:
    """Whether `length` bytes are equal; the caller has checked that both sides have them."""
    for k in range(length):  # noqa: SIM110 -- a loop compiles, a generator does not
        if left[at + k] != right[other + k]:
            return False
    return True


@kernel
def known_map(buf: Bytes, at: Int, end: Int, maps: IntRows, bodies: Bytes, state: Ints) -> Int:
    """Puts a TABLE_MAP in force and returns 1 if it was registered with equal bytes; else 0."""
    if at + 8 > end or state[OPEN] == BETWEEN:
        return np.int64(0)
    place = find_map(maps, read_u48(buf, at))
    if maps[place, MAP_ID] == 0 or maps[place, MAP_BODY_LENGTH] != end - at - 8:
        return np.int64(0)
    if not same_bytes(buf, at + 8, bodies, maps[place, MAP_BODY_AT], end - at - 8):
        return np.int64(0)
    maps[place, MAP_STATEMENT] = state[STATEMENT]
    state[OPEN] = INSIDE
    return np.int64(1)


@kernel
def begin_transaction(state: Ints, sid: Int, gno: Int, timestamp: Int) -> None:
    """Counts a transaction and moves the commit clock to it; `timestamp` is in microseconds."""
    state[SEQ] += 1
    state[ROW] = 0
    state[SID] = sid
    state[GNO] = gno
    state[OPEN] = HEADED
    state[STATEMENT] += 1
    state[CLOCK] = max(state[CLOCK], timestamp)


@kernel
def begin_with_gtid(
    buf: Bytes, at: Int, end: Int, event_type: Int, timestamp: Int, keys: Bytes, key: Bytes, state: Ints
) -> Int:
    """Begins the transaction of a GTID, TAGGED_GTID or ANONYMOUS_GTID event.

    Args:
        buf: The event's buffer.
        at: Offset of the body.
        end: Offset behind the body.
        event_type: Its type code.
        timestamp: Of the event's header, seconds; the transaction's time where the server is older than 8.0.1.
        keys: UUIDs and tags that are known.
        key: Takes UUID, tag and number.
        state: Of the walk.

    Returns:
        DONE, CORRUPT, or UNSUPPORTED if the server's UUID and tag are not known yet.
    """
    if state[OPEN] != BETWEEN:
        return CORRUPT
    stamp = read_gtid(buf, at, end, event_type, key)
    if stamp < 0:
        return CORRUPT
    sid = np.int64(-1)
    if event_type != ANONYMOUS_GTID:
        sid = key_slot(keys, state[KEYS], state[SID], key)
        if sid < 0:
            return UNSUPPORTED
    if stamp == 0:
        stamp = timestamp * np.int64(1_000_000)
    begin_transaction(state, sid, read_i64(key, KEY_NUMBER), stamp)
    return DONE


@kernel
def place_in_file(state: Ints, position: Int, length: Int, log_position: Int) -> None:
    """Notes where an event starts in the server's file: by its own end position, whose upper half is lost."""
    if log_position == 0:
        return  # In a payload: the position is the outer event's.
    expected = position + state[DELTA]
    state[POSITION] = expected + ((log_position - length - expected) & np.int64(0xFFFFFFFF))


@kernel
def take_query(buf: Bytes, body: Int, end: Int, timestamp: Int, post_header: Int, state: Ints) -> Int:
    """Takes a QUERY that frames a transaction; UNSUPPORTED for any other statement."""
    what = classify(buf, body, end, post_header)
    if what == STATEMENT_TEXT:
        return UNSUPPORTED
    if what == BROKEN:
        return CORRUPT
    if what in (BEGIN, END):
        if state[OPEN] == BETWEEN:
            begin_transaction(state, np.int64(-1), np.int64(0), timestamp * np.int64(1_000_000))
        state[OPEN] = INSIDE if what == BEGIN else BETWEEN
    return DONE


@kernel
def is_row_event(kind: Int) -> Int:
    """Whether an event holds rows."""
    return 23 <= kind <= 25 or 30 <= kind <= 32 or kind == 39


@kernel
def is_statement_part(kind: Int) -> bool:
    """Whether an event belongs to a statement still to come: INTVAR, RAND, USER_VAR, ROWS_QUERY, LOAD DATA's."""
    return kind in (5, 9, 11, 13, 14, 17, 29)


@kernel
def is_passed_over(kind: Int) -> bool:
    """Whether an event says nothing about rows or transactions."""
    return kind in (
        STOP,
        ROTATE,
        FORMAT_DESCRIPTION,
        HEARTBEAT,
        HEARTBEAT_V2,
        IGNORABLE,
        KEYS,
        PREVIOUS_GTIDS,
        TRANSACTION_CONTEXT,
        VIEW_CHANGE,
    )


@kernel
def walk_events(  # noqa: C901, PLR0912 - one branch a kind of event
    buf: Bytes, base: Int, trailer: Int, events: Events, tables: Tables
) -> Int:
    """Goes on from event `state[EVENT]` of `events`.

    Args:
        buf: The bytes of a file, or of inflated payloads.
        base: What cells are relative to; no event lies before it.
        trailer: Bytes of the checksum behind each event.
        events: Where events start, and what they are.
        tables: What the walk keeps.

    Returns:
        DONE: all events were walked. FULL: slot `state[SLOT]` must be emptied first. UNSUPPORTED: event `state[EVENT]`
        is for the caller. CORRUPT: event `state[EVENT]` contradicts itself or its TABLE_MAP.
    """
    # Arrays are handed on one by one: a call that takes them all costs more than most events.
    state, maps = tables.state, tables.maps
    for i in range(state[EVENT], events.positions.shape[0]):
        state[EVENT] = i
        kind = np.int64(events.types[i])
        begin, length = events.positions[i], events.lengths[i]
        body, end = begin + HEADER, begin + length - trailer
        status = np.int64(UNSUPPORTED)
        if is_row_event(kind):
            place_in_file(state, begin, length, events.log_positions[i])
            rows = rows_begin(buf, body, end, kind, tables.post_headers[kind])
            slot = find_slot(buf, body, rows, tables.post_headers[kind], maps, state)
            if slot == NO_SLOT:
                return np.int64(CORRUPT)
            status = np.int64(DONE)
            if slot >= 0:
                state[SLOT] = -1 if state[FOREIGN] else slot
                if state[FOREIGN]:
                    return np.int64(FULL)
                status = walk_rows(
                    buf,
                    rows,
                    end,
                    kind,
                    base,
                    state,
                    tables.slots[slot],
                    tables.columns,
                    tables.scratch,
                    tables.cells,
                    tables.facts,
                )
            if status == DONE:
                end_statement(buf, body, tables.post_headers[kind], state)
        elif kind == TABLE_MAP:
            if tables.post_headers[TABLE_MAP] == 8 and known_map(buf, body, end, maps, tables.bodies, state):
                status = np.int64(DONE)
        elif kind in (GTID, ANONYMOUS_GTID, TAGGED_GTID):
            status = begin_with_gtid(buf, body, end, kind, events.timestamps[i], tables.keys, tables.key, state)
        elif kind == QUERY:
            status = take_query(buf, body, end, events.timestamps[i], tables.post_headers[QUERY], state)
        elif kind in (XID, XA_PREPARE):
            state[OPEN] = BETWEEN
            status = np.int64(DONE)
        elif is_statement_part(kind):
            if state[OPEN] == BETWEEN:
                begin_transaction(state, np.int64(-1), np.int64(0), events.timestamps[i] * np.int64(1_000_000))
            status = np.int64(DONE)
        elif is_passed_over(kind):
            status = np.int64(DONE)
        if status != DONE:
            return status
    state[EVENT] = events.positions.shape[0]
    return np.int64(DONE)


@kernel
def rows_begin(buf: Bytes, body: Int, end: Int, event_type: Int, post_header: Int) -> Int:
    """Offset of the column count of a row event: behind its post-header and extra data; -1 if it runs past `end`."""
    rows = body + post_header
    if post_header < 6 or rows > end:
        return np.int64(-1)
    if event_type >= 30:
        # The post-header ends in the length of the extra data, itself included (5.6, rows_event.h).
        if post_header < 10:
            return np.int64(-1)
        rows += max(read_u16(buf, body + 8), 2) - 2
    return rows if rows <= end else np.int64(-1)


@kernel
def find_slot(buf: Bytes, body: Int, rows: Int, post_header: Int, maps: IntRows, state: Ints) -> Int:
    """The slot of a row event's table; -1 for an event that only ends its statement, NO_SLOT for one without a map."""
    if rows < 0 or state[OPEN] == BETWEEN:
        return np.int64(NO_SLOT)
    # Before 5.1.4 a table id took 4 bytes.
    table_id = read_u32(buf, body) if post_header == 6 else read_u48(buf, body)
    if table_id == NO_TABLE:
        return np.int64(-1)
    place = find_map(maps, table_id)
    if maps[place, MAP_ID] == 0 or maps[place, MAP_STATEMENT] != state[STATEMENT]:
        return np.int64(NO_SLOT)
    return maps[place, MAP_SLOT]


@kernel
def end_statement(buf: Bytes, body: Int, post_header: Int, state: Ints) -> None:
    """Ends an event, and its statement if the event's flags say so: the next one writes its TABLE_MAPs again."""
    state[AT] = 0
    if read_u16(buf, body + (4 if post_header == 6 else 6)) & END_OF_STATEMENT:
        state[STATEMENT] += 1
