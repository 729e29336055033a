"""Groups events into transactions and counts what each did to which table, in one walk.
Not here: what the numbers mean (`events/scanner.py`), decoding rows (`rows/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.grammar import (
    BAD_ROWS,
    BAD_TABLE_MAP,
    BETWEEN,
    CLOSES,
    FAULT_SHIFT,
    GTID,
    HEADED,
    INCIDENT,
    NEW_TABLE_MAP,
    NEXT,
    NO_TABLE_MAP,
    OPENS,
    PACKED,
    ROWS,
    TABLE_MAP,
    XA_PREPARE,
    ends_statement,
    goes_on,
    has_table_id,
    is_dummy,
    read_table_id,
    request_of,
    rows_begin,
    step_of,
    word_of,
)
from strata.kernels.gtid import KEY_NUMBER, read_head
from strata.kernels.jit import kernel, part
from strata.kernels.memory import borrowed
from strata.kernels.scan import HEADER_BYTES, read_i64
from strata.kernels.statements import END, STATEMENT
from strata.kernels.status import DONE, FULL
from strata.kernels.table_maps import MAP_JSON, MAP_TABLE, MAP_WIDTHS, NO_MAP, find_equal
from strata.kernels.widths import count_image_rows

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, IntRows, Ints
    from strata.kernels.layout import Events, Known, Notes

# Entries of the state.
WHERE = 0
"""A state of `grammar.py`."""
BEGIN_AT = 1
SID = 2
"""Who numbered the open transaction: its number among the known servers; -1 for an anonymous transaction."""
GNO = 3
STAMP = 4
LOG_BEGIN = 5
INCIDENT_AT = 6
ROW = 7
"""Rows of the open transaction so far."""
SPLIT_AT = 8
TRANSACTIONS = 9
ENTRIES = 10
STATEMENTS = 11
SPLITS = 12
SPLIT_MAPS = 13
MAPS = 14
FIRST_ENTRY = 15
FIRST_STATEMENT = 16
KEYS = 17
"""How many rows of `Known.keys` are in use."""
XA_AT = 18
STATE_FIELDS = 19

# Columns of a transaction; the last three say where its entries in the other tables end.
T_BEGIN = 0
T_END = 1
T_LOG_BEGIN = 2
"""Where its first event starts in the server's file, modulo 2**32."""
T_SID = 3
T_GNO = 4
T_STAMP = 5
T_INCIDENT = 6
"""Offset of an INCIDENT; -1 without."""
T_XA = 7
"""Offset of the event that says what it has to do with XA: XA_PREPARE, a QUERY that is all of it, or the payload that
XA_PREPARE is in; -1 without. Not each of them is a step of two phases (`events/xa.py`)."""
T_ENTRIES_END = 8
T_STATEMENTS_END = 9
T_SPLITS_END = 10
TRANSACTION_FIELDS = 11

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
M_TABLE_MAP = 1
M_ENTRY = 2
M_POSITION = 3
OPEN_MAP_FIELDS = 4

# What all events of a walk have in common.
F_CHECKSUM_BYTES = 0
F_PAYLOAD = 1
"""Offset of the payload that the events are in; -1 outside of one."""
F_SPLIT_BYTES = 2
"""A larger transaction gets points to split it at, this many bytes from each other."""
F_HEADERS = 3
"""From here on, bytes of the post-header by event type; -1 where the file's format lists none."""
FORM_FIELDS = F_HEADERS + 256


@kernel
def open_transaction(position: Int, log_begin: Int, state: Ints) -> None:
    """A transaction starts with the event at `position`; its GTID is not known yet."""
    state[BEGIN_AT] = position
    state[LOG_BEGIN] = log_begin
    state[SID] = -1
    state[GNO] = 0
    state[STAMP] = 0
    state[INCIDENT_AT] = -1
    state[XA_AT] = -1
    state[ROW] = 0
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
    transactions[row, T_SID] = state[SID]
    transactions[row, T_GNO] = state[GNO]
    transactions[row, T_STAMP] = stamp
    transactions[row, T_INCIDENT] = state[INCIDENT_AT]
    transactions[row, T_XA] = state[XA_AT]
    transactions[row, T_ENTRIES_END] = state[ENTRIES]
    transactions[row, T_STATEMENTS_END] = state[STATEMENTS]
    transactions[row, T_SPLITS_END] = state[SPLITS]
    state[TRANSACTIONS] = row + 1
    state[FIRST_ENTRY] = state[ENTRIES]
    state[FIRST_STATEMENT] = state[STATEMENTS]
    state[MAPS] = 0


@part
def _open(buf: Bytes, position: Int, end: Int, word: Int, log_begin: Int, known: Known, notes: Notes) -> Int:
    """Opens a transaction with the event at `position`; DONE, NEW_SERVER or BAD_GTID."""
    state, key = notes.state, notes.key
    if word != GTID:
        open_transaction(position, log_begin, state)
        return np.int64(DONE)
    kind = np.int64(buf[position + 4])
    body = position + HEADER_BYTES
    status, at, stamp = read_head(buf, body, end, kind, known.keys, state[KEYS], state[SID], key)
    if status == DONE:
        open_transaction(position, log_begin, state)
        state[SID] = at
        state[GNO] = read_i64(key, KEY_NUMBER)
        state[STAMP] = stamp
    return status


@kernel
def _add_statement(statements: Ints, position: Int, payload: Int, state: Ints) -> None:
    # The next statement writes the TABLE_MAPs that it needs again.
    state[MAPS] = 0
    count = state[STATEMENTS]
    if payload >= 0:
        if count > state[FIRST_STATEMENT] and statements[count - 1] == payload:
            return
        position = payload
    statements[count] = position
    state[STATEMENTS] = count + 1


@part
def _take_other(word: Int, position: Int, payload: Int, statements: Ints, state: Ints) -> Int:
    """Notes what an event without rows does; DONE or a request."""
    if word == INCIDENT:
        state[INCIDENT_AT] = position
    elif word == STATEMENT:
        _add_statement(statements, position, payload, state)
    elif word == XA_PREPARE or (word == END and state[WHERE] in (BETWEEN, HEADED, PACKED)):
        # XA COMMIT and XA ROLLBACK of what was prepared: nothing else ends what did not begin.
        state[XA_AT] = position
    else:
        return request_of(word)
    return np.int64(DONE)


@part
def _note_split(position: Int, form: Ints, notes: Notes) -> Int:
    """Notes a split point in front of the event at `position` if it is due; FULL if there is no room for it."""
    state, splits, split_maps, maps = notes.state, notes.splits, notes.split_maps, notes.maps
    if form[F_PAYLOAD] >= 0 or position - state[SPLIT_AT] < form[F_SPLIT_BYTES]:
        return np.int64(DONE)
    count = state[MAPS]
    if state[SPLIT_MAPS] + count > len(split_maps):
        return np.int64(FULL)
    row = state[SPLITS]
    for k in range(count):
        split_maps[state[SPLIT_MAPS] + k] = maps[k, M_POSITION]
    state[SPLIT_MAPS] += count
    splits[row, S_OFFSET] = position
    splits[row, S_ROW] = state[ROW]
    splits[row, S_MAPS_END] = state[SPLIT_MAPS]
    state[SPLITS] = row + 1
    state[SPLIT_AT] = position
    return np.int64(DONE)


@kernel
def _find_map(maps: IntRows, count: Int, table_id: Int) -> Int:
    for k in range(count - 1, -1, -1):
        if maps[k, M_ID] == table_id:
            return np.int64(k)
    return np.int64(-1)


@kernel
def _entry_of(table: Int, entries: IntRows, state: Ints) -> Int:
    """The entry of a table among those that the transaction touches; a new one if it has none."""
    for k in range(state[ENTRIES] - 1, state[FIRST_ENTRY] - 1, -1):
        if entries[k, E_TABLE] == table:
            return np.int64(k)
    entry = state[ENTRIES]
    entries[entry, E_TABLE] = table
    entries[entry, E_EVENTS] = 0
    entries[entry, E_ROWS] = 0
    state[ENTRIES] = entry + 1
    return entry


@part
def _take_table_map(buf: Bytes, position: Int, end: Int, post_header: Int, known: Known, notes: Notes) -> Int:
    """Puts a TABLE_MAP in force; DONE, NEW_TABLE_MAP or BAD_TABLE_MAP."""
    state, maps = notes.state, notes.maps
    body = position + HEADER_BYTES
    if not has_table_id(body, end, post_header):
        return np.int64(BAD_TABLE_MAP)
    table_map = find_equal(known.bodies, known.table_maps, known.places, buf, body + post_header, end)
    if table_map == NO_MAP:
        return np.int64(NEW_TABLE_MAP)
    entry = _entry_of(known.table_maps[table_map, MAP_TABLE], notes.entries, state)
    table_id = read_table_id(buf, body, post_header)
    at = _find_map(maps, state[MAPS], table_id)
    if at < 0:
        at = state[MAPS]
        state[MAPS] = at + 1
    maps[at, M_ID] = table_id
    maps[at, M_TABLE_MAP] = table_map
    maps[at, M_ENTRY] = entry
    maps[at, M_POSITION] = position
    return np.int64(DONE)


@part
def _take_rows(buf: Bytes, position: Int, end: Int, post_header: Int, known: Known, notes: Notes) -> Int:
    """Counts the rows of an event; DONE, BAD_ROWS or NO_TABLE_MAP."""
    state, maps, entries, table_maps = notes.state, notes.maps, notes.entries, known.table_maps
    kind, body = np.int64(buf[position + 4]), position + HEADER_BYTES
    if not has_table_id(body, end, post_header):
        return np.int64(BAD_ROWS)
    is_last = ends_statement(buf, body, post_header)
    table_id = read_table_id(buf, body, post_header)
    at = _find_map(maps, state[MAPS], table_id)
    if at >= 0:
        table_map = maps[at, M_TABLE_MAP]
        widths = known.widths[table_maps[table_map, MAP_WIDTHS] : table_maps[table_map + 1, MAP_WIDTHS]]
        first = rows_begin(buf, body, end, kind, post_header)
        if first < 0:
            return np.int64(BAD_ROWS)
        status, rows = count_image_rows(buf, first, end, widths, table_maps[table_map, MAP_JSON], kind, notes.present)
        if status != DONE:
            return np.int64(BAD_ROWS)
        entries[maps[at, M_ENTRY], E_EVENTS] += 1
        entries[maps[at, M_ENTRY], E_ROWS] += rows
        state[ROW] += rows
    elif not is_last or not is_dummy(table_id, post_header):
        return np.int64(NO_TABLE_MAP)
    if is_last:
        state[MAPS] = 0
    return np.int64(DONE)


@kernel
def group_events(buf: Bytes, events: Events, first: Int, form: Ints, known: Known, notes: Notes) -> tuple[Int, Int]:
    """Walks over events from number `first` on; what it notes goes on from call to call.

    Args:
        buf: The bytes that the events are in; all of them lie within it.
        events: Where they start, and what they are.
        first: The first event to take.
        form: How they are laid out: `F_*`.
        known: What has been met so far.
        notes: What it finds; `STATE_FIELDS` numbers of state, 0 at the start.

    Returns:
        Status and the event that it is about: DONE, FULL (`split_maps`), a request or a fault of `grammar.py`. Behind
        INFLATE and COMPARE_FORMAT the stream goes on with the next event, else with the same once more.
    """
    buf, form, known, notes = borrowed(buf), borrowed(form), borrowed(known), borrowed(notes)
    positions, lengths, types, timestamps, log_positions, flags = borrowed(events)
    state = notes.state
    for i in range(first, len(positions)):
        position, behind = positions[i], positions[i] + lengths[i]
        kind, body, end = np.int64(types[i]), position + HEADER_BYTES, behind - form[F_CHECKSUM_BYTES]
        post_header = form[F_HEADERS + kind]
        word = word_of(buf, kind, flags[i], body, end, post_header)
        step = step_of(state[WHERE], word)
        status = step >> FAULT_SHIFT
        if status == DONE and step & OPENS:
            log_begin = (log_positions[i] - lengths[i]) & 0xFFFFFFFF
            status = _open(buf, position, end, word, log_begin, known, notes)
        if status == DONE and word in (ROWS, TABLE_MAP):
            status = _note_split(position, form, notes)
        if status == DONE:
            if word == ROWS:
                status = _take_rows(buf, position, end, post_header, known, notes)
            elif word == TABLE_MAP:
                status = _take_table_map(buf, position, end, post_header, known, notes)
            else:
                status = _take_other(word, position, form[F_PAYLOAD], notes.statements, state)
        if goes_on(status):
            state[WHERE] = step & NEXT
            if step & CLOSES:
                close_transaction(notes.transactions, state, behind, timestamps[i])
        if status != DONE:
            return status, np.int64(i)
    return np.int64(DONE), np.int64(len(positions))
