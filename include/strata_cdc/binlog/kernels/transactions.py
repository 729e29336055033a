"""Groups events into transactions, and counts what each transaction did to which table, in one walk.
Not here: what the numbers mean (`binlog/events/scanner.py`), decoding rows (`changes/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.grammar import (
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
from strata_cdc.binlog.kernels.gtid import KEY_NUMBER, read_head
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import borrowed
from strata_cdc.binlog.kernels.scan import HEADER_BYTES, read_i64
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.kernels.table_maps import NO_MAP, find_equal
from strata_cdc.binlog.kernels.widths import UNSIZED, count_image_rows, numbers_of_unsized
from strata_cdc.binlog.kernels.words import FAULT_SHIFT, Fault, Request, State, Step, Word

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints
    from strata_cdc.binlog.kernels.layout import (
        Entry,
        Events,
        Form,
        IndexMemory,
        IndexState,
        Notes,
        OpenMap,
        Transaction,
    )
    from strata_cdc.binlog.kernels.records import Records


@kernel
def open_transaction(position: Int, log_begin: Int, state: IndexState) -> None:
    """A transaction starts with the event at `position`; its GTID is not known yet."""
    state.begin = position
    state.log_begin = log_begin
    state.sid = -1
    state.gno = 0
    state.stamp = 0
    state.incident = -1
    state.xa = -1
    state.row = 0
    state.split = position
    state.maps = 0


@kernel
def close_transaction(transactions: Records[Transaction], states: Records[IndexState], end: Int, seconds: Int) -> None:
    """The open transaction ends before byte `end`; `seconds` is the time of its last event."""
    state = states[0]
    closed = transactions[state.transactions]
    closed.begin = state.begin
    closed.end = end
    closed.log_begin = state.log_begin
    closed.sid = state.sid
    closed.gno = state.gno
    closed.stamp = state.stamp if state.stamp != 0 else np.int64(seconds) * 1000000
    closed.incident = state.incident
    closed.xa = state.xa
    closed.entries_end = state.entries
    closed.statements_end = state.statements
    closed.splits_end = state.splits
    state.transactions += 1
    state.first_entry = state.entries
    state.first_statement = state.statements
    state.maps = 0


@part
def _open(buf: Bytes, position: Int, end: Int, word: Int, log_begin: Int, known: IndexMemory, notes: Notes) -> Int:
    """Opens a transaction with the event at `position`; DONE, NEW_SERVER or BAD_GTID."""
    state, key = notes.state[0], notes.key
    if word not in (Word.GTID, Word.GROUP):
        open_transaction(position, log_begin, state)
        return np.int64(DONE)
    kind = np.int64(buf[position + 4])
    body = position + HEADER_BYTES
    status, at, stamp = read_head(buf, body, end, kind, known.keys, state.keys, state.sid, key)
    if status == DONE:
        open_transaction(position, log_begin, state)
        state.sid = at
        state.gno = read_i64(key, KEY_NUMBER)
        state.stamp = stamp
    return status


@kernel
def _add_statement(statements: Ints, position: Int, payload: Int, state: IndexState) -> None:
    # The next statement has its own TABLE_MAPs again.
    state.maps = 0
    count = state.statements
    if payload >= 0:
        if count > state.first_statement and statements[count - 1] == payload:
            return
        position = payload
    statements[count] = position
    state.statements = count + 1


@part
def _take_other(word: Int, position: Int, payload: Int, statements: Ints, state: IndexState) -> Int:
    """Notes what an event without rows does; DONE or a request."""
    if word == Word.INCIDENT:
        state.incident = position
    elif word == Word.STATEMENT:
        _add_statement(statements, position, payload, state)
    elif word == Word.XA_PREPARE or (word == Word.END and state.place in (State.BETWEEN, State.HEADED, State.PACKED)):
        # XA COMMIT or XA ROLLBACK of a prepared transaction: nothing else ends a transaction that did not begin.
        state.xa = payload if payload >= 0 and state.place < State.PACKED else position
    else:
        return request_of(word)
    return np.int64(DONE)


@part
def _note_split(position: Int, form: Form, notes: Notes) -> Int:
    """Notes a split point before the event at `position` if it is due; FULL if there is no space for it."""
    state, splits, split_maps, maps = notes.state[0], notes.splits, notes.split_maps, notes.maps
    if form.payload >= 0 or position - state.split < form.split_bytes:
        return np.int64(DONE)
    count = state.maps
    if state.split_maps + count > len(split_maps):
        return np.int64(FULL)
    row = state.splits
    for k in range(count):
        split_maps[state.split_maps + k] = maps[k].position
    state.split_maps += count
    splits[row].offset = position
    splits[row].row = state.row
    splits[row].maps_end = state.split_maps
    state.splits = row + 1
    state.split = position
    return np.int64(DONE)


@kernel
def _find_map(maps: Records[OpenMap], count: Int, table_id: Int) -> Int:
    for k in range(count - 1, -1, -1):
        if maps[k].table_id == table_id:
            return np.int64(k)
    return np.int64(-1)


@kernel
def _entry_of(table: Int, entries: Records[Entry], state: IndexState) -> Int:
    """The entry of a table among the entries of the transaction; a new one if it has none."""
    for k in range(state.entries - 1, state.first_entry - 1, -1):
        if entries[k].table == table:
            return np.int64(k)
    entry = state.entries
    entries[entry].table = table
    entries[entry].events = 0
    entries[entry].rows = 0
    state.entries = entry + 1
    return entry


@part
def _take_table_map(buf: Bytes, position: Int, end: Int, post_header: Int, known: IndexMemory, notes: Notes) -> Int:
    """Puts a TABLE_MAP in force; DONE, NEW_TABLE_MAP or BAD_TABLE_MAP."""
    state, maps = notes.state[0], notes.maps
    body = position + HEADER_BYTES
    if not has_table_id(body, end, post_header):
        return np.int64(Fault.BAD_TABLE_MAP)
    table_map = find_equal(known.bodies, known.table_maps, known.places, buf, body + post_header, end)
    if table_map == NO_MAP:
        return np.int64(Request.NEW_TABLE_MAP)
    entry = _entry_of(known.table_maps[table_map].table, notes.entries, state)
    table_id = read_table_id(buf, body, post_header)
    at = _find_map(maps, state.maps, table_id)
    if at < 0:
        at = state.maps
        state.maps = at + 1
    maps[at].table_id = table_id
    maps[at].table_map = table_map
    maps[at].entry = entry
    maps[at].position = position
    return np.int64(DONE)


@part
def _take_rows(buf: Bytes, position: Int, end: Int, post_header: Int, known: IndexMemory, notes: Notes) -> Int:
    """Counts the rows of an event; DONE, BAD_ROWS or NO_TABLE_MAP."""
    state, maps, entries, table_maps = notes.state[0], notes.maps, notes.entries, known.table_maps
    kind, body = np.int64(buf[position + 4]), position + HEADER_BYTES
    if not has_table_id(body, end, post_header):
        return np.int64(Fault.BAD_ROWS)
    is_last = ends_statement(buf, body, post_header)
    table_id = read_table_id(buf, body, post_header)
    at = _find_map(maps, state.maps, table_id)
    if at >= 0:
        table_map = maps[at].table_map
        widths = known.widths[table_maps[table_map].widths : table_maps[table_map + 1].widths]
        first = rows_begin(buf, body, end, kind, post_header)
        if first < 0:
            return np.int64(Fault.BAD_ROWS)
        json_columns = table_maps[table_map].json_columns
        if json_columns == UNSIZED:
            rows, numbers = np.int64(1), numbers_of_unsized(buf, first, end, widths.shape[0], kind)
            status = np.int64(DONE) if numbers > 0 else np.int64(CORRUPT)
        else:
            status, rows = count_image_rows(buf, first, end, widths, json_columns, kind, notes.present)
            numbers = rows
        if status != DONE:
            return np.int64(Fault.BAD_ROWS)
        entries[maps[at].entry].events += 1
        entries[maps[at].entry].rows += rows
        state.row += numbers
    elif not is_last or not is_dummy(table_id, post_header):
        return np.int64(Fault.NO_TABLE_MAP)
    if is_last:
        state.maps = 0
    return np.int64(DONE)


@kernel
def group_events(
    buf: Bytes, events: Events, first: Int, form: Form, known: IndexMemory, notes: Notes
) -> tuple[Int, Int]:
    """Walks over events from number `first` on; its notes are kept from call to call.

    Args:
        buf: The bytes that the events are in; all of them lie within it.
        events: Where they start, and what they are.
        first: The first event to read.
        form: How they are laid out.
        known: Servers and TABLE_MAPs that have been seen so far.
        notes: Its results; the state is all 0 at the start.

    Returns:
        Status and the event that it is about: DONE, FULL (`split_maps`), a request or a fault of `words.py`. After
        INFLATE and COMPARE_FORMAT the stream continues with the next event, else the same event is repeated.
    """
    buf, post_headers, known, notes = borrowed(buf), borrowed(form.post_headers), borrowed(known), borrowed(notes)
    positions, lengths, types, timestamps, log_positions, flags = borrowed(events)
    state = notes.state[0]
    for i in range(first, len(positions)):
        position, behind = positions[i], positions[i] + lengths[i]
        kind, body, end = np.int64(types[i]), position + HEADER_BYTES, behind - form.checksum_bytes
        post_header = post_headers[kind]
        word = word_of(buf, kind, flags[i], body, end, post_header)
        step = step_of(state.place, word)
        status = step >> FAULT_SHIFT
        if status == DONE and step & Step.OPENS:
            log_begin = (log_positions[i] - lengths[i]) & 0xFFFFFFFF
            status = _open(buf, position, end, word, log_begin, known, notes)
        is_first = word == Word.FRAGMENT and state.place == State.INSIDE
        if status == DONE and (is_first or word in (Word.ROWS, Word.TABLE_MAP, Word.COMPRESSED)):
            status = _note_split(position, form, notes)
        if status == DONE:
            if word == Word.ROWS:
                status = _take_rows(buf, position, end, post_header, known, notes)
            elif word == Word.TABLE_MAP:
                status = _take_table_map(buf, position, end, post_header, known, notes)
            else:
                status = _take_other(word, position, form.payload, notes.statements, state)
        if goes_on(status):
            state.place = step & Step.NEXT
            if step & Step.CLOSES:
                closed = behind if form.payload < 0 else form.payload_end
                close_transaction(notes.transactions, notes.state, closed, timestamps[i])
        if status != DONE:
            return status, np.int64(i)
    return np.int64(DONE), np.int64(len(positions))
