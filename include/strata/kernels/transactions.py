"""Groups events into transactions and counts what each did to which table, in one walk.
Not here: what the numbers mean (`events/scanner.py`), decoding rows (`rows/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.gtid import KEY_NUMBER, key_slot, read_gtid
from strata.kernels.jit import kernel
from strata.kernels.scan import HEADER_BYTES, read_i64, read_u16, read_u32, read_u48
from strata.kernels.shapes import NO_SHAPE, SHAPE_JSON, SHAPE_TABLE, SHAPE_WIDTHS, shape_slot
from strata.kernels.statements import BEGIN, BROKEN, END, FRAME, STATEMENT, classify
from strata.kernels.status import DONE, FULL, UNSUPPORTED
from strata.kernels.widths import count_image_rows

if TYPE_CHECKING:
    from strata.kernels.arrays import ByteRows, Bytes, Flags, Int, IntRows, Ints

# What the caller has to do before the walk goes on.
NEW_SERVER = 10
"""Add `key` to the known ones, and repeat the event."""
NEW_SHAPE = 11
"""Add the TABLE_MAP to the known shapes, and repeat the event."""
PAYLOAD = 12
"""Walk over the inner events of a compressed transaction, then go on behind it."""
FORMAT = 13
"""Compare another FORMAT_DESCRIPTION with the one in force, and go on behind it."""

# Faults: what the event at which the walk stopped is.
NESTED = 20
OUTSIDE = 21
UNFINISHED = 22
BAD_GTID = 23
BAD_QUERY = 24
BAD_TABLE_MAP = 25
BAD_ROWS = 26
NO_TABLE_MAP = 27
MISPLACED_PAYLOAD = 28

# Where the stream is.
BETWEEN = 0
HEADED = 1
"""Behind a GTID event, or behind what belongs to a statement that is still to come."""
INSIDE = 2
"""Behind BEGIN."""
ENDED = 3
"""Behind the last inner event of a payload."""

# Entries of the state.
WHERE = 0
BEGIN_AT = 1
SLOT = 2
NUMBER = 3
STAMP = 4
LOG_BEGIN = 5
INCIDENT_AT = 6
ROWS = 7
SPLIT_AT = 8
TRANSACTIONS = 9
ENTRIES = 10
STATEMENTS = 11
SPLITS = 12
SPLIT_MAPS = 13
MAPS = 14
FIRST_ENTRY = 15
FIRST_STATEMENT = 16
STATE_FIELDS = 17

# Columns of a transaction; the last three say where its entries in the other tables end.
T_BEGIN = 0
T_END = 1
T_LOG_BEGIN = 2
"""Where its first event starts in the server's file, modulo 2**32."""
T_SLOT = 3
T_NUMBER = 4
T_STAMP = 5
T_INCIDENT = 6
"""Offset of an INCIDENT; -1 without."""
T_ENTRIES_END = 7
T_STATEMENTS_END = 8
T_SPLITS_END = 9
TRANSACTION_FIELDS = 10

# Columns of what a transaction did to one table.
E_TABLE = 0
E_EVENTS = 1
E_ROWS = 2
ENTRY_FIELDS = 3

# Columns of a split point.
S_OFFSET = 0
S_ROW = 1
S_MAPS_END = 2
SPLIT_FIELDS = 3

# Columns of a TABLE_MAP of the open statement.
M_ID = 0
M_SHAPE = 1
M_ENTRY = 2
M_POSITION = 3
MAP_FIELDS = 4

# What all events of a walk have in common.
F_CHECKSUM_BYTES = 0
F_PAYLOAD = 1
"""Offset of the payload that the events are in; -1 outside of one."""
F_SPLIT_BYTES = 2
"""A larger transaction gets points to split it at, this many bytes from each other."""
F_HEADERS = 3
"""From here on, bytes of the post-header by event type; -1 where the file's format lists none."""
FORM_FIELDS = F_HEADERS + 256

_ROTATE, _STOP, _PREVIOUS_GTIDS, _FORMAT_DESCRIPTION = 4, 3, 35, 15
_QUERY, _EXECUTE_LOAD_QUERY, _XID, _XA_PREPARE, _INCIDENT = 2, 18, 16, 38, 26
_GTID, _ANONYMOUS_GTID, _TAGGED_GTID = 33, 34, 42
_TABLE_MAP, _PAYLOAD = 19, 40
_STATEMENT_END = 1
_IGNORABLE = 0x80
_DUMMY_TABLE = 0xFFFFFF
"""Table id of a row event without rows, which only ends its statement (5.1, `Rows_log_event::do_apply_event`)."""


@kernel
def open_transaction(position: Int, log_begin: Int, state: Ints) -> None:
    """A transaction starts with the event at `position`; its GTID is not known yet."""
    state[WHERE] = HEADED
    state[BEGIN_AT] = position
    state[LOG_BEGIN] = log_begin
    state[SLOT] = -1
    state[NUMBER] = 0
    state[STAMP] = 0
    state[INCIDENT_AT] = -1
    state[ROWS] = 0
    state[SPLIT_AT] = position
    state[MAPS] = 0


@kernel
def close_transaction(transactions: IntRows, state: Ints, end: Int, seconds: Int) -> None:
    """The open transaction ends in front of byte `end`; `seconds` is the time of its last event."""
    row = state[TRANSACTIONS]
    stamp = state[STAMP]
    if stamp == 0:
        stamp = np.int64(seconds) * 1000000
    transactions[row, T_BEGIN] = state[BEGIN_AT]
    transactions[row, T_END] = end
    transactions[row, T_LOG_BEGIN] = state[LOG_BEGIN]
    transactions[row, T_SLOT] = state[SLOT]
    transactions[row, T_NUMBER] = state[NUMBER]
    transactions[row, T_STAMP] = stamp
    transactions[row, T_INCIDENT] = state[INCIDENT_AT]
    transactions[row, T_ENTRIES_END] = state[ENTRIES]
    transactions[row, T_STATEMENTS_END] = state[STATEMENTS]
    transactions[row, T_SPLITS_END] = state[SPLITS]
    state[TRANSACTIONS] = row + 1
    state[FIRST_ENTRY] = state[ENTRIES]
    state[FIRST_STATEMENT] = state[STATEMENTS]
    state[WHERE] = BETWEEN
    state[MAPS] = 0


@kernel
def _end(transactions: IntRows, state: Ints, end: Int, seconds: Int, form: Ints) -> None:
    if form[F_PAYLOAD] >= 0:
        state[WHERE] = ENDED
    else:
        close_transaction(transactions, state, end, seconds)


@kernel
def _begin_gtid(
    buffer: Bytes, position: Int, end: Int, log_begin: Int, keys: ByteRows, known: Int, key: Bytes, state: Ints
) -> Int:
    if state[WHERE] != BETWEEN:
        return np.int64(NESTED)
    kind = np.int64(buffer[position + 4])
    stamp = read_gtid(buffer, position + HEADER_BYTES, end, kind, key)
    if stamp < 0:
        return np.int64(BAD_GTID)
    slot = np.int64(-1)
    if kind != _ANONYMOUS_GTID:
        slot = key_slot(keys, known, state[SLOT], key)
        if slot < 0:
            return np.int64(NEW_SERVER)
    open_transaction(position, log_begin, state)
    state[SLOT] = slot
    state[NUMBER] = read_i64(key, KEY_NUMBER)
    state[STAMP] = stamp
    return np.int64(DONE)


@kernel
def _add_statement(statements: Ints, position: Int, payload: Int, state: Ints) -> None:
    count = state[STATEMENTS]
    if payload >= 0:
        if count > state[FIRST_STATEMENT] and statements[count - 1] == payload:
            return
        position = payload
    statements[count] = position
    state[STATEMENTS] = count + 1


@kernel
def _note_split(splits: IntRows, split_maps: Ints, maps: IntRows, position: Int, state: Ints) -> bool:
    """Notes a split point in front of the event at `position`; False if there is no room for it."""
    count = state[MAPS]
    if state[SPLIT_MAPS] + count > len(split_maps):
        return False
    row = state[SPLITS]
    for k in range(count):
        split_maps[state[SPLIT_MAPS] + k] = maps[k, M_POSITION]
    state[SPLIT_MAPS] += count
    splits[row, S_OFFSET] = position
    splits[row, S_ROW] = state[ROWS]
    splits[row, S_MAPS_END] = state[SPLIT_MAPS]
    state[SPLITS] = row + 1
    state[SPLIT_AT] = position
    return True


@kernel
def _read_table_id(buffer: Bytes, at: Int, post_header: Int) -> Int:
    return read_u32(buffer, at) if post_header == 6 else read_u48(buffer, at)


@kernel
def _find_map(maps: IntRows, count: Int, table_id: Int) -> Int:
    for k in range(count - 1, -1, -1):
        if maps[k, M_ID] == table_id:
            return np.int64(k)
    return np.int64(-1)


@kernel
def _open_map(
    buffer: Bytes, position: Int, post_header: Int, shape: Int, table: Int, maps: IntRows, entries: IntRows, state: Ints
) -> None:
    """Puts a TABLE_MAP in force, and its table among those that the transaction touches."""
    entry = np.int64(-1)
    for k in range(state[ENTRIES] - 1, state[FIRST_ENTRY] - 1, -1):
        if entries[k, E_TABLE] == table:
            entry = np.int64(k)
            break
    if entry < 0:
        entry = state[ENTRIES]
        entries[entry, E_TABLE] = table
        entries[entry, E_EVENTS] = 0
        entries[entry, E_ROWS] = 0
        state[ENTRIES] = entry + 1
    table_id = _read_table_id(buffer, position + HEADER_BYTES, post_header)
    slot = _find_map(maps, state[MAPS], table_id)
    if slot < 0:
        slot = state[MAPS]
        state[MAPS] = slot + 1
    maps[slot, M_ID] = table_id
    maps[slot, M_SHAPE] = shape
    maps[slot, M_ENTRY] = entry
    maps[slot, M_POSITION] = position
    state[WHERE] = INSIDE


@kernel
def _rows_body(buffer: Bytes, at: Int, kind: Int, post_header: Int) -> Int:
    """Where the column count of a row event stands; `at` is behind its header."""
    body = at + post_header
    if kind >= 30 and post_header >= 10:
        # Its last two bytes count the extra data behind it, themselves included (5.6, version 2 row events).
        body += max(read_u16(buffer, body - 2), np.int64(2)) - 2
    return np.int64(body)


@kernel
def group_events(  # noqa: C901, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917 - a branch for each kind of event; arrays have no other way in
    buffer: Bytes,
    positions: Ints,
    lengths: Ints,
    types: Bytes,
    timestamps: Ints,
    log_positions: Ints,
    flags: Flags,
    first: Int,
    form: Ints,
    keys: ByteRows,
    known_keys: Int,
    bodies: Bytes,
    shapes: IntRows,
    places: Ints,
    all_widths: Ints,
    key: Bytes,
    maps: IntRows,
    transactions: IntRows,
    entries: IntRows,
    statements: Ints,
    splits: IntRows,
    split_maps: Ints,
    present: Ints,
    state: Ints,
) -> tuple[Int, Int]:
    """Walks over events from number `first` on; `state`, `maps` and the tables that it fills go on from call to call.

    Args:
        buffer: The bytes that the events are in; all of them lie within it.
        positions: Of each event; this and the next five are as in `wire.frames.EventIndex`.
        lengths: Of each event.
        types: Of each event.
        timestamps: Of each event.
        log_positions: Of each event.
        flags: Of each event.
        first: The first event to take.
        form: How they are laid out: `F_*`.
        keys: UUIDs and tags that are known, one a row (`kernels/gtid.py`).
        known_keys: How many rows of `keys` are.
        bodies: This and the next three: the TABLE_MAPs that are known (`kernels/shapes.py`).
        shapes: As above.
        places: As above.
        all_widths: As above.
        key: Takes the GTID that was read last.
        maps: TABLE_MAPs in force (`M_*`), with room for one more a event.
        transactions: What it finds (`T_*`), with room for one more a event; so the next three.
        entries: `E_*`.
        statements: Offsets of QUERY events, or of the payloads that they are in.
        splits: `S_*`.
        split_maps: Offsets of TABLE_MAPs in force at split points; may run out.
        present: As `widths.count_image_rows` has it.
        state: `STATE_FIELDS` numbers, 0 at the start.

    Returns:
        Status and the event that it is about: DONE, FULL (`split_maps`), a request, UNSUPPORTED or a fault.
    """
    checksum_bytes = form[F_CHECKSUM_BYTES]
    payload = form[F_PAYLOAD]
    for i in range(first, len(positions)):
        kind = np.int64(types[i])
        position = positions[i]
        end = position + lengths[i] - checksum_bytes
        begin = position + HEADER_BYTES
        log_begin = (log_positions[i] - lengths[i]) & 0xFFFFFFFF
        post_header = form[F_HEADERS + kind]
        if kind in (_GTID, _ANONYMOUS_GTID, _TAGGED_GTID):
            if payload >= 0:
                return np.int64(NESTED), np.int64(i)
            status = _begin_gtid(buffer, position, end, log_begin, keys, known_keys, key, state)
            if status != DONE:
                return status, np.int64(i)
        elif kind in (_QUERY, _EXECUTE_LOAD_QUERY):
            what = np.int64(STATEMENT)
            if kind == _QUERY:
                what = classify(buffer, begin, end, post_header)
            if what == BROKEN:
                return np.int64(BAD_QUERY), np.int64(i)
            if what != FRAME and state[WHERE] == BETWEEN:
                open_transaction(position, log_begin, state)
            if what == BEGIN:
                if state[WHERE] != HEADED:
                    return np.int64(NESTED), np.int64(i)
                state[WHERE] = INSIDE
            elif what == STATEMENT:
                _add_statement(statements, position, payload, state)
            if what == END or (what == STATEMENT and state[WHERE] == HEADED):
                _end(transactions, state, position + lengths[i], timestamps[i], form)
        elif kind == _TABLE_MAP or 23 <= kind <= 25 or 30 <= kind <= 32 or kind == 39:
            if post_header < 6 or end - begin < post_header:
                return np.int64(BAD_TABLE_MAP if kind == _TABLE_MAP else BAD_ROWS), np.int64(i)
            far = payload < 0 and position - state[SPLIT_AT] >= form[F_SPLIT_BYTES]
            if far and not _note_split(splits, split_maps, maps, position, state):
                return np.int64(FULL), np.int64(i)
            if kind == _TABLE_MAP:
                if state[WHERE] != INSIDE and state[WHERE] != HEADED:
                    return np.int64(OUTSIDE), np.int64(i)
                shape = shape_slot(bodies, shapes, places, buffer, begin + post_header, end)
                if shape == NO_SHAPE:
                    return np.int64(NEW_SHAPE), np.int64(i)
                _open_map(buffer, position, post_header, shape, shapes[shape, SHAPE_TABLE], maps, entries, state)
                continue
            table_id = _read_table_id(buffer, begin, post_header)
            ends_statement = read_u16(buffer, begin + (4 if post_header == 6 else 6)) & _STATEMENT_END
            slot = _find_map(maps, state[MAPS], table_id)
            if slot >= 0:
                shape = maps[slot, M_SHAPE]
                widths = all_widths[shapes[shape, SHAPE_WIDTHS] : shapes[shape + 1, SHAPE_WIDTHS]]
                body = _rows_body(buffer, begin, kind, post_header)
                if body > end:
                    return np.int64(BAD_ROWS), np.int64(i)
                status, rows = count_image_rows(buffer, body, end, widths, shapes[shape, SHAPE_JSON], kind, present)
                if status != DONE:
                    return np.int64(BAD_ROWS), np.int64(i)
                entries[maps[slot, M_ENTRY], E_EVENTS] += 1
                entries[maps[slot, M_ENTRY], E_ROWS] += rows
                state[ROWS] += rows
            elif table_id != _DUMMY_TABLE or not ends_statement:
                return np.int64(NO_TABLE_MAP), np.int64(i)
            if ends_statement:
                # The next statement writes the TABLE_MAPs that it needs again.
                state[MAPS] = 0
        elif kind in (_XID, _XA_PREPARE):
            if state[WHERE] == BETWEEN or state[WHERE] == ENDED:
                return np.int64(OUTSIDE), np.int64(i)
            _end(transactions, state, position + lengths[i], timestamps[i], form)
        elif kind == _PAYLOAD:
            ready = state[WHERE] == HEADED and payload < 0
            return np.int64(PAYLOAD if ready else MISPLACED_PAYLOAD), np.int64(i)
        elif kind in (_FORMAT_DESCRIPTION, _ROTATE, _STOP, _PREVIOUS_GTIDS):
            if state[WHERE] != BETWEEN:
                return np.int64(UNFINISHED), np.int64(i)
            if kind == _FORMAT_DESCRIPTION:
                return np.int64(FORMAT), np.int64(i)
        elif kind == _INCIDENT:
            if state[WHERE] == BETWEEN:
                open_transaction(position, log_begin, state)
            state[INCIDENT_AT] = position
            if state[WHERE] == HEADED:
                _end(transactions, state, position + lengths[i], timestamps[i], form)
        elif kind in (5, 9, 11, 13, 14, 17, 29):
            # INTVAR, LOAD DATA's blocks, RAND, USER_VAR, ROWS_QUERY: parts of a statement that is still to come.
            if state[WHERE] == BETWEEN:
                open_transaction(position, log_begin, state)
        elif kind not in (27, 28, 36, 37, 41) and not flags[i] & _IGNORABLE:
            # HEARTBEAT, IGNORABLE, TRANSACTION_CONTEXT and VIEW_CHANGE change nothing.
            return np.int64(UNSUPPORTED), np.int64(i)
    return np.int64(DONE), np.int64(len(positions))
