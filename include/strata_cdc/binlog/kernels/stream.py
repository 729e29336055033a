"""Walks over events in stream order: transactions, table maps, rows; returns to its caller at every rare event.
Not here: the cells of a row (`row_images.py`), rare events (`changes/blocks.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.grammar import (
    ends_statement,
    has_table_id,
    is_dummy,
    read_table_id,
    request_of,
    rows_begin,
    step_of,
    word_of,
)
from strata_cdc.binlog.kernels.gtid import KEY_NUMBER, read_head
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import HEADER
from strata_cdc.binlog.kernels.memory import borrowed
from strata_cdc.binlog.kernels.row_images import RowBytes, walk_rows
from strata_cdc.binlog.kernels.scan import read_i64
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.kernels.words import FAULT_SHIFT, Fault, Request, State, Step, Word

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int
    from strata_cdc.binlog.kernels.layout import Events, MapInForce, Tables, WalkState
    from strata_cdc.binlog.kernels.records import Records


@kernel
def find_map(maps: Records[MapInForce], table_id: Int) -> Int:
    """The slot of a table id in the hash table: its own, or the free slot where it belongs.

    The number of slots is a power of two, and the table is never full.
    """
    mask = len(maps) - 1
    place = (((table_id & 0xFFFFFFF) * np.int64(0x9E3779B1)) >> 16) & mask
    while maps[place].key not in (0, table_id + 1):
        place = (place + 1) & mask
    return place


@kernel
def same_bytes(left: Bytes, at: Int, right: Bytes, other: Int, length: Int) -> bool:
    """Whether `length` bytes are equal; the caller has checked that both sides have them."""
    for k in range(length):  # noqa: SIM110 -- a loop compiles, a generator does not
        if left[at + k] != right[other + k]:
            return False
    return True


@part
def known_map(buf: Bytes, at: Int, end: Int, post_header: Int, tables: Tables) -> Int:
    """Puts a TABLE_MAP in force if one with equal bytes is registered: DONE; else NEW_TABLE_MAP or BAD_TABLE_MAP."""
    if not has_table_id(at, end, post_header):
        return np.int64(Fault.BAD_TABLE_MAP)
    maps = tables.maps
    place = find_map(maps, read_table_id(buf, at, post_header))
    begin = at + post_header
    if maps[place].key == 0 or maps[place].body_length != end - begin:
        return np.int64(Request.NEW_TABLE_MAP)
    if not same_bytes(buf, begin, tables.bodies, maps[place].body_at, end - begin):
        return np.int64(Request.NEW_TABLE_MAP)
    maps[place].statement = tables.state[0].statement
    return np.int64(DONE)


@kernel
def open_transaction(state: WalkState, sid: Int, gno: Int, timestamp: Int) -> None:
    """Counts a transaction and moves the commit clock to it; `timestamp` is in microseconds."""
    state.seq += 1
    state.row = 0
    state.sid = sid
    state.gno = gno
    state.place = State.HEADED
    state.statement += 1
    state.clock = max(state.clock, timestamp)


@part
def begin(buf: Bytes, body: Int, end: Int, event_type: Int, word: Int, timestamp: Int, tables: Tables) -> Int:
    """Opens a transaction with an event; DONE, NEW_SERVER or BAD_GTID.

    Args:
        buf: The event's buffer.
        body: Offset after its header.
        end: Offset before its checksum.
        event_type: Its type code.
        word: Its word.
        timestamp: Seconds, from its header: when a statement began; taken where the event has no other time.
        tables: What the walk keeps.
    """
    state, key = tables.state[0], tables.key
    stamp = np.int64(0)
    sid, number = np.int64(-1), np.int64(0)
    if word in (Word.GTID, Word.GROUP):
        status, sid, stamp = read_head(buf, body, end, event_type, tables.keys, state.keys, state.sid, key)
        if status != DONE:
            return status
        number = read_i64(key, KEY_NUMBER)
    if stamp == 0:
        stamp = timestamp * np.int64(1_000_000)
    open_transaction(state, sid, number, stamp)
    return np.int64(DONE)


@part
def place_in_file(state: WalkState, position: Int, length: Int, log_position: Int) -> None:
    """Notes where an event starts in the server's file; for an inner event, the outer event was noted."""
    if log_position < 0:
        return
    expected = position + state.delta
    if state.is_piece and log_position:
        # From its own end position, of which only the lower 32 bits are known.
        expected += (log_position - length - expected) & np.int64(0xFFFFFFFF)
    state.position = expected


@part
def take_rows(rows: RowBytes, body: Int, post_header: Int, tables: Tables) -> Int:
    """Adds the rows of an event; DONE, FULL, BAD_ROWS or NO_TABLE_MAP."""
    buf, end, _, event_type = rows
    state, maps = tables.state[0], tables.maps
    if not has_table_id(body, end, post_header):
        return np.int64(Fault.BAD_ROWS)
    is_last, table_id = ends_statement(buf, body, post_header), read_table_id(buf, body, post_header)
    place = find_map(maps, table_id)
    if maps[place].key == 0 or maps[place].statement != state.statement:
        if not is_last or not is_dummy(table_id, post_header):
            return np.int64(Fault.NO_TABLE_MAP)
    else:
        buffer = maps[place].buffer
        at = rows_begin(buf, body, end, event_type, post_header)
        if at < 0:
            return np.int64(Fault.BAD_ROWS)
        state.buffer = -1 if state.foreign else buffer
        if state.foreign:
            return np.int64(FULL)
        status = walk_rows(rows, at, tables.buffers[buffer], tables)
        if status != DONE:
            return np.int64(Fault.BAD_ROWS) if status == CORRUPT else status
    state.at = 0
    if is_last:
        state.statement += 1
    return np.int64(DONE)


@kernel
def walk_events(buf: Bytes, base: Int, trailer: Int, events: Events, tables: Tables) -> Int:
    """Continues with event `state.event` of `events`.

    Args:
        buf: The bytes of a file, or of inflated payloads.
        base: The position that cells are relative to; no event lies before it.
        trailer: Bytes of the checksum after each event.
        events: Where events start, and what they are.
        tables: What the walk keeps.

    Returns:
        DONE: all events were walked. FULL: buffer `state.buffer` must be emptied first. Else a request or a fault of
        `words.py` about event `state.event`: for a request after which the stream continues, `state.following` is the
        state after the event.
    """
    buf, tables = borrowed(buf), borrowed(tables)
    positions, lengths, types, timestamps, log_positions, flags = borrowed(events)
    state = tables.state[0]
    for i in range(state.event, positions.shape[0]):
        state.event = i
        kind, body, end = np.int64(types[i]), positions[i] + HEADER, positions[i] + lengths[i] - trailer
        post_header = tables.post_headers[kind]
        place_in_file(state, positions[i], lengths[i], log_positions[i])
        word = word_of(buf, kind, flags[i], body, end, post_header)
        step = step_of(state.place, word)
        status = step >> FAULT_SHIFT
        if status == DONE and step & Step.OPENS:
            # Of MariaDB's events (from 11.4 on) only some have their end position: the others lie after this event.
            state.delta = state.position - positions[i]
            status = begin(buf, body, end, kind, word, timestamps[i], tables)
        if status == DONE:
            if word == Word.ROWS:
                status = take_rows(RowBytes(buf, end, base, kind), body, post_header, tables)
            elif word == Word.TABLE_MAP:
                status = known_map(buf, body, end, post_header, tables)
            else:
                status = request_of(word)
        state.following = step & Step.NEXT
        if status != DONE:
            return status
        state.place = step & Step.NEXT
    state.event = positions.shape[0]
    return np.int64(DONE)
