"""The grammar of a binlog: which event may come where, and what it does to the transaction around it.
Not here: what is in the events (`gtid.py`, `row_images.py`, `widths.py`), the walks (`transactions.py`, `stream.py`).

Every event is a *word*. A word and the state that the stream is in give one *step*: the next state, whether a
transaction opens in front of the event, whether one closes behind it, or the fault that the event is. The index, the
tracker and the decoder take their steps from here, so that no input can make them differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata.kernels.jit import part
from strata.kernels.scan import read_u16, read_u32, read_u48
from strata.kernels.statements import BEGIN, BROKEN, END, FRAME, STATEMENT, classify
from strata.kernels.status import DONE, UNSUPPORTED

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, Ints

# Type codes that are asked for by name (libs/mysql/binlog/event/binlog_event.h) --------------------
QUERY: Final = 2
TABLE_MAP_EVENT: Final = 19
WRITE_V1: Final = 23
UPDATE_V1: Final = 24
WRITE_V2: Final = 30
UPDATE_V2: Final = 31
PARTIAL_UPDATE: Final = 39
ANONYMOUS_GTID: Final = 34
TAGGED_GTID: Final = 42
_EXECUTE_LOAD_QUERY: Final = 18
_IGNORABLE_FLAG: Final = 0x80
"""Of an event's header: a reader that does not know the type may skip it (`LOG_EVENT_IGNORABLE_F`)."""

# Words. A QUERY is STATEMENT, BEGIN, END or FRAME, by its text (`statements.py`) -------------------
PASSED: Final = 4
"""Says nothing about rows or transactions."""
GTID: Final = 5
PART: Final = 6
"""Belongs to a statement that is still to come: INTVAR, RAND, USER_VAR, ROWS_QUERY, the blocks of LOAD DATA."""
TABLE_MAP: Final = 7
ROWS: Final = 8
XID: Final = 9
XA_PREPARE: Final = 10
"""Ends a transaction, whose rows take effect with the XA COMMIT that may come later, in a transaction of its own."""
PAYLOAD: Final = 11
"""A compressed transaction; its inner events follow as words of their own, then PAYLOAD_END."""
PAYLOAD_END: Final = 12
INCIDENT: Final = 13
"""The server lost events: a transaction by itself, also without a GTID (5.1 to 5.5)."""
FORMAT: Final = 14
FILE: Final = 15
"""ROTATE, STOP, PREVIOUS_GTIDS: stand between transactions."""
FILE_END: Final = 16
UNKNOWN: Final = 17
"""Of a type that is not read: pre-releases, LOAD DATA before 5.0.3, and whatever is newer than this."""
BROKEN_QUERY: Final = 18
"""A QUERY whose lengths contradict each other."""
_WORDS: Final = 19

# States -------------------------------------------------------------------------------------------
BETWEEN: Final = 0
"""Between two transactions."""
HEADED: Final = 1
"""Behind a GTID event, or behind what belongs to a statement that is still to come."""
INSIDE: Final = 2
"""Behind BEGIN or a TABLE_MAP."""
PACKED: Final = 3
"""At the front of a payload."""
PACKED_INSIDE: Final = 4
ENDED: Final = 5
"""Behind the last inner event of a payload."""
_STATES: Final = 6

# A step: the next state, and what happens on the way ----------------------------------------------
NEXT: Final = 0xFF
OPENS: Final = 0x100
CLOSES: Final = 0x200
FAULT_SHIFT: Final = 16
"""The bits from here on are a fault; 0 for none."""

# What a walk asks of its caller, who then goes on with the step's next state -----------------------
INFLATE: Final = 10
"""Walk over the inner events of a payload, then take PAYLOAD_END."""
COMPARE_FORMAT: Final = 11
"""Compare another FORMAT_DESCRIPTION with the one in force."""
READ_STATEMENT: Final = 12
REPORT_LOSS: Final = 13
NEW_SERVER: Final = 14
"""Add the UUID and tag to the known ones, and repeat the event."""
NEW_TABLE_MAP: Final = 15
"""Add the TABLE_MAP to the known ones, and repeat the event."""

# Faults, apart from the codes of `status.py` ------------------------------------------------------
NESTED: Final = 20
OUTSIDE: Final = 21
UNFINISHED: Final = 22
BAD_GTID: Final = 23
BAD_QUERY: Final = 24
BAD_TABLE_MAP: Final = 25
BAD_ROWS: Final = 26
NO_TABLE_MAP: Final = 27
MISPLACED_PAYLOAD: Final = 28
UNFINISHED_PAYLOAD: Final = 29
NOT_PACKED: Final = 30


def _words() -> Bytes:
    """The word of each type code; QUERY's is STATEMENT until its text is read."""
    words = np.full(256, UNKNOWN, np.uint8)
    words[[QUERY, _EXECUTE_LOAD_QUERY]] = STATEMENT
    words[[5, 9, 11, 13, 14, 17, 29]] = PART
    words[[WRITE_V1, UPDATE_V1, 25, WRITE_V2, UPDATE_V2, 32, PARTIAL_UPDATE]] = ROWS
    # HEARTBEAT, IGNORABLE, TRANSACTION_CONTEXT, VIEW_CHANGE, HEARTBEAT_V2.
    words[[27, 28, 36, 37, 41]] = PASSED
    words[[33, ANONYMOUS_GTID, TAGGED_GTID]] = GTID
    words[[3, 4, 35]] = FILE
    for code, word in ((TABLE_MAP_EVENT, TABLE_MAP), (15, FORMAT), (16, XID), (26, INCIDENT), (38, XA_PREPARE)):
        words[code] = word
    words[40] = PAYLOAD
    return words


def _fault(code: int) -> int:
    return code << FAULT_SHIFT


# fmt: off
_RULES: Final = {
    BETWEEN: {
        PASSED: BETWEEN, FRAME: BETWEEN, FORMAT: BETWEEN, FILE: BETWEEN, FILE_END: BETWEEN,
        GTID: HEADED | OPENS, PART: HEADED | OPENS, BEGIN: INSIDE | OPENS,
        STATEMENT: BETWEEN | OPENS | CLOSES, END: BETWEEN | OPENS | CLOSES, INCIDENT: BETWEEN | OPENS | CLOSES,
    },
    HEADED: {
        PASSED: HEADED, FRAME: HEADED, PART: HEADED, ROWS: HEADED,
        BEGIN: INSIDE, TABLE_MAP: INSIDE, PAYLOAD: PACKED,
        STATEMENT: BETWEEN | CLOSES, END: BETWEEN | CLOSES, INCIDENT: BETWEEN | CLOSES,
        XID: BETWEEN | CLOSES, XA_PREPARE: BETWEEN | CLOSES,
    },
    INSIDE: {
        PASSED: INSIDE, FRAME: INSIDE, PART: INSIDE, ROWS: INSIDE, TABLE_MAP: INSIDE, STATEMENT: INSIDE,
        INCIDENT: INSIDE,
        END: BETWEEN | CLOSES, XID: BETWEEN | CLOSES, XA_PREPARE: BETWEEN | CLOSES,
    },
    PACKED: {
        PASSED: PACKED, FRAME: PACKED, PART: PACKED, ROWS: PACKED,
        BEGIN: PACKED_INSIDE, TABLE_MAP: PACKED_INSIDE,
        STATEMENT: ENDED, END: ENDED, XID: ENDED, XA_PREPARE: ENDED,
    },
    PACKED_INSIDE: {
        PASSED: PACKED_INSIDE, FRAME: PACKED_INSIDE, PART: PACKED_INSIDE, ROWS: PACKED_INSIDE,
        TABLE_MAP: PACKED_INSIDE, STATEMENT: PACKED_INSIDE,
        END: ENDED, XID: ENDED, XA_PREPARE: ENDED,
    },
    ENDED: {PASSED: ENDED, PAYLOAD_END: BETWEEN | CLOSES},
}
"""What is allowed; an EXECUTE_LOAD_QUERY is a STATEMENT."""
# fmt: on


def _refusal(state: int, word: int) -> int:
    """The fault that a word is in a state in which it is not allowed."""
    by_word = {UNKNOWN: UNSUPPORTED, BROKEN_QUERY: BAD_QUERY, GTID: NESTED, BEGIN: NESTED, PAYLOAD: MISPLACED_PAYLOAD}
    if word in by_word:
        return by_word[word]
    if state in (PACKED, PACKED_INSIDE, ENDED) and word in (FORMAT, FILE, FILE_END, INCIDENT):
        return NOT_PACKED
    if word == PAYLOAD_END:
        return UNFINISHED_PAYLOAD
    return UNFINISHED if word in (FORMAT, FILE, FILE_END) else OUTSIDE


def _steps() -> Ints:
    steps = np.zeros((_STATES, _WORDS), np.int64)
    for state in range(_STATES):
        for word in range(_WORDS):
            rule = _RULES[state].get(word)
            steps[state, word] = _fault(_refusal(state, word)) if rule is None else rule
    return steps


def _requests() -> Bytes:
    requests = np.zeros(_WORDS, np.uint8)
    requests[STATEMENT], requests[INCIDENT] = READ_STATEMENT, REPORT_LOSS
    requests[PAYLOAD], requests[FORMAT] = INFLATE, COMPARE_FORMAT
    return requests


_WORD_OF_TYPE = _words()
STEPS = _steps()
_REQUESTS = _requests()


@part
def step_of(state: Int, word: Int) -> Int:
    """What a word does in a state: `NEXT` state, `OPENS`, `CLOSES`, or a fault from `FAULT_SHIFT` on."""
    return STEPS[state, word]


@part
def request_of(word: Int) -> Int:
    """What a caller is asked for at a word; 0 (DONE) for nothing."""
    return np.int64(_REQUESTS[word])


@part
def goes_on(status: Int) -> bool:
    """Whether a walk takes the step of the event that it has this status for, and does not meet it again."""
    return bool(status == DONE or INFLATE <= status <= REPORT_LOSS)


@part
def word_of(buf: Bytes, event_type: Int, flags: Int, body: Int, end: Int, post_header: Int) -> Int:
    """The word that an event is.

    Args:
        buf: The event's buffer.
        event_type: Its type code.
        flags: Of its header.
        body: Offset behind the header.
        end: Offset in front of the checksum.
        post_header: Bytes of the post-header of its type.
    """
    word = np.int64(_WORD_OF_TYPE[event_type])
    if event_type == QUERY:
        word = classify(buf, body, end, post_header)
        if word == BROKEN:
            word = np.int64(BROKEN_QUERY)
    elif word == UNKNOWN and flags & _IGNORABLE_FLAG:
        word = np.int64(PASSED)
    return word


# Row events and TABLE_MAPs ------------------------------------------------------------------------
_STATEMENT_END: Final = 1


@part
def has_table_id(body: Int, end: Int, post_header: Int) -> bool:
    """Whether an event is long enough for its table id and flags: 4 bytes (before 5.1.4) or 6, and 2."""
    return bool((post_header == 6 or post_header >= 8) and end - body >= post_header)


@part
def read_table_id(buf: Bytes, body: Int, post_header: Int) -> Int:
    """The table id of a row event or TABLE_MAP for which `has_table_id` holds."""
    return read_u32(buf, body) if post_header == 6 else read_u48(buf, body)


@part
def ends_statement(buf: Bytes, body: Int, post_header: Int) -> bool:
    """Whether a row event is the last one of its statement: the next writes the TABLE_MAPs that it needs again."""
    return bool(read_u16(buf, body + (4 if post_header == 6 else 6)) & _STATEMENT_END)


@part
def is_dummy(table_id: Int, post_header: Int) -> bool:
    """Whether a row event without a TABLE_MAP has no rows, and only ends its statement.

    The server writes ~0UL there (5.1 and 5.5, sql/log_event.cc, Rows_log_event::Rows_log_event), of 8 bytes, or of 4
    on 32-bit systems, cut to the width of a table id. 0xFFFFFF, which the internals manual gives, is an id like others.
    """
    return bool(table_id == 0xFFFFFFFF or (post_header != 6 and table_id == 0xFFFFFFFFFFFF))


@part
def rows_begin(buf: Bytes, body: Int, end: Int, event_type: Int, post_header: Int) -> Int:
    """Offset of the column count of a row event: behind its post-header and extra data; -1 if it runs past `end`."""
    rows = body + post_header
    if event_type >= 30:
        # The post-header ends in the length of the extra data, itself included (5.6, rows_event.h).
        if post_header < 10:
            return np.int64(-1)
        rows += max(read_u16(buf, body + 8), 2) - 2
    return np.int64(rows) if rows <= end else np.int64(-1)
