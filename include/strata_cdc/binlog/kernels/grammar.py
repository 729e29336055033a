"""The grammar of a binlog: which event is allowed where, and what it does to the transaction around it.
Not here: the words (`words.py`), what is in the events (`gtid.py`, `row_images.py`, `widths.py`), the walks
(`transactions.py`, `stream.py`).

Every event is a *word*. A word and the state of the stream determine one *step*: the next state, whether a
transaction begins before the event, and whether one ends after it; or the fault of the event. The index, the tracker
and the decoder take their steps from here, so that no input can make them differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.gtid import is_standalone
from strata_cdc.binlog.kernels.jit import part
from strata_cdc.binlog.kernels.scan import read_u16, read_u32, read_u48
from strata_cdc.binlog.kernels.statements import classify
from strata_cdc.binlog.kernels.status import DONE, UNSUPPORTED
from strata_cdc.binlog.kernels.words import FAULT_SHIFT, EventCode, Fault, Request, State, Step, Word

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints

_IGNORABLE_FLAG: Final = 0x80
"""Flag in an event's header: a reader that does not know the type may skip the event (`LOG_EVENT_IGNORABLE_F`)."""


_CODES: Final[dict[Word, tuple[int, ...]]] = {
    Word.STATEMENT: (EventCode.QUERY, EventCode.EXECUTE_LOAD_QUERY),
    # INTVAR, APPEND_BLOCK, DELETE_FILE, RAND, USER_VAR, BEGIN_LOAD_QUERY, ROWS_QUERY; ANNOTATE_ROWS.
    Word.PART: (5, 9, 11, 13, 14, 17, 29, 160),
    # Including those that no code uses by name: DELETE_ROWS of both versions.
    Word.ROWS: (23, 24, 25, 30, 31, 32, 39),
    # HEARTBEAT, IGNORABLE, TRANSACTION_CONTEXT, VIEW_CHANGE, HEARTBEAT_V2; BINLOG_CHECKPOINT.
    Word.PASSED: (27, 28, 36, 37, 41, 161),
    Word.GTID: (33, EventCode.ANONYMOUS_GTID, EventCode.TAGGED_GTID),
    Word.GROUP: (EventCode.DOMAIN_GTID,),
    # QUERY, WRITE_ROWS, UPDATE_ROWS and DELETE_ROWS.
    Word.COMPRESSED: (165, 166, 167, 168),
    Word.FRAGMENT: (EventCode.PARTIAL_ROW_DATA,),
    # STOP, ROTATE, PREVIOUS_GTIDS, GTID_LIST.
    Word.FILE: (3, 4, 35, 163),
    Word.TABLE_MAP: (EventCode.TABLE_MAP,),
    Word.FORMAT: (15,),
    Word.XID: (16,),
    Word.INCIDENT: (26,),
    Word.XA_PREPARE: (38,),
    Word.PAYLOAD: (40,),
}
"""The type codes of each word: those below 160 of MySQL, and those of MariaDB, which never collide with them. The word
of MariaDB's GTID is GROUP until its flags are read, that of PARTIAL_ROW_DATA is FRAGMENT until its number is read."""


def _words() -> Bytes:
    """The word of each type code; the word of QUERY is STATEMENT until its text is read."""
    words = np.full(256, Word.UNKNOWN, np.uint8)
    for word, codes in _CODES.items():
        words[list(codes)] = word
    return words


_INSIDE: Final = (Word.PASSED, Word.FRAME, Word.PART, Word.ROWS, Word.TABLE_MAP, Word.STATEMENT)
"""The words of which a transaction consists."""

_RULES: Final[dict[State, dict[int, tuple[Word, ...]]]] = {
    State.BETWEEN: {
        State.BETWEEN: (Word.PASSED, Word.FRAME, Word.FORMAT, Word.FILE, Word.FILE_END),
        State.HEADED | Step.OPENS: (Word.GTID, Word.PART),
        State.INSIDE | Step.OPENS: (Word.BEGIN, Word.GROUP),
        State.BETWEEN | Step.OPENS | Step.CLOSES: (Word.STATEMENT, Word.END, Word.INCIDENT),
    },
    State.HEADED: {
        State.HEADED: (Word.PASSED, Word.FRAME, Word.PART, Word.ROWS, Word.COMPRESSED),
        State.INSIDE: (Word.BEGIN, Word.TABLE_MAP),
        State.PACKED: (Word.PAYLOAD,),
        State.BETWEEN | Step.CLOSES: (Word.STATEMENT, Word.END, Word.INCIDENT, Word.XID, Word.XA_PREPARE),
    },
    State.INSIDE: {
        State.INSIDE: (*_INSIDE, Word.INCIDENT, Word.COMPRESSED, Word.LAST_FRAGMENT),
        State.FRAGMENTED: (Word.FRAGMENT,),
        State.BETWEEN | Step.CLOSES: (Word.END, Word.XID, Word.XA_PREPARE),
    },
    State.FRAGMENTED: {
        State.FRAGMENTED: (Word.FRAGMENT,),
        State.INSIDE: (Word.LAST_FRAGMENT,),
    },
    State.PACKED: {
        State.PACKED: (Word.PASSED, Word.FRAME, Word.PART, Word.ROWS),
        State.PACKED_INSIDE: (Word.BEGIN, Word.TABLE_MAP),
        State.ENDED: (Word.STATEMENT, Word.END, Word.XID, Word.XA_PREPARE),
    },
    State.PACKED_INSIDE: {
        State.PACKED_INSIDE: _INSIDE,
        State.ENDED: (Word.END, Word.XID, Word.XA_PREPARE),
    },
    State.ENDED: {
        State.ENDED: (Word.PASSED,),
        State.BETWEEN | Step.CLOSES: (Word.PAYLOAD_END,),
    },
}
"""The words that are allowed in each state, by their step."""


_REFUSED: Final = {
    Word.UNKNOWN: UNSUPPORTED,
    Word.BROKEN_QUERY: Fault.BAD_QUERY,
    Word.GTID: Fault.NESTED,
    Word.GROUP: Fault.NESTED,
    Word.BEGIN: Fault.NESTED,
    Word.PAYLOAD: Fault.MISPLACED_PAYLOAD,
    Word.PAYLOAD_END: Fault.UNFINISHED_PAYLOAD,
    Word.FORMAT: Fault.UNFINISHED,
    Word.FILE: Fault.UNFINISHED,
    Word.FILE_END: Fault.UNFINISHED,
}
"""The fault of a word in a state in which it is not allowed; OUTSIDE for other words."""


def _refusal(state: State, word: Word) -> int:
    if state >= State.PACKED and word in (Word.FORMAT, Word.FILE, Word.FILE_END, Word.INCIDENT):
        return Fault.NOT_PACKED
    if state == State.FRAGMENTED and word not in (Word.FORMAT, Word.FILE, Word.FILE_END, Word.UNKNOWN):
        return Fault.CUT_ROWS
    return _REFUSED.get(word, Fault.OUTSIDE)


def _steps() -> Ints:
    steps = np.array([[_refusal(state, word) << FAULT_SHIFT for word in Word] for state in State], np.int64)
    for state, rules in _RULES.items():
        for step, words in rules.items():
            steps[state, list(words)] = step
    return steps


def _requests() -> Bytes:
    requests = np.zeros(len(Word), np.uint8)
    requests[Word.STATEMENT], requests[Word.INCIDENT] = Request.READ_STATEMENT, Request.REPORT_LOSS
    requests[Word.PAYLOAD], requests[Word.FORMAT] = Request.INFLATE, Request.COMPARE_FORMAT
    requests[[Word.COMPRESSED, Word.FRAGMENT, Word.LAST_FRAGMENT]] = Request.INFLATE_EVENT
    return requests


_WORD_OF_TYPE = _words()
STEPS = _steps()
_REQUESTS = _requests()


@part
def step_of(state: Int, word: Int) -> Int:
    """What a word does in a state: bits of `Step`, or a fault from `FAULT_SHIFT` on."""
    return STEPS[state, word]


@part
def request_of(word: Int) -> Int:
    """The request to the caller at a word; 0 (DONE) for none."""
    return np.int64(_REQUESTS[word])


@part
def goes_on(status: Int) -> bool:
    """Whether a walk takes the step of an event with this status, and does not repeat the event."""
    return bool(status == DONE or Request.INFLATE <= status <= Request.INFLATE_EVENT)


@part
def word_of(buf: Bytes, event_type: Int, flags: Int, body: Int, end: Int, post_header: Int) -> Int:
    """The word that an event is.

    Args:
        buf: The event's buffer.
        event_type: Its type code.
        flags: The flags in its header.
        body: Offset after the header.
        end: Offset before the checksum.
        post_header: Bytes of the post-header of its type.
    """
    word = np.int64(_WORD_OF_TYPE[event_type])
    if event_type == EventCode.QUERY:
        word = classify(buf, body, end, post_header)
    elif word >= Word.UNKNOWN:
        if word == Word.UNKNOWN and flags & _IGNORABLE_FLAG:
            word = np.int64(Word.PASSED)
        elif word == Word.GROUP and is_standalone(buf, body, end):
            word = np.int64(Word.GTID)
        elif word == Word.FRAGMENT and end - body >= 8 and read_u32(buf, body) == read_u32(buf, body + 4):
            word = np.int64(Word.LAST_FRAGMENT)
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
    """Whether a row event is the last one of its statement; the next statement has its own TABLE_MAPs again."""
    return bool(read_u16(buf, body + (4 if post_header == 6 else 6)) & _STATEMENT_END)


@part
def is_dummy(table_id: Int, post_header: Int) -> bool:
    """Whether a row event without a TABLE_MAP has no rows, and only ends its statement.

    The server writes ~0UL as its table id (5.1 and 5.5, sql/log_event.cc, Rows_log_event::Rows_log_event): 8 bytes, or
    4 on 32-bit systems, cut to the width of a table id. 0xFFFFFF, the value in the internals manual, is a normal id.
    """
    return bool(table_id == 0xFFFFFFFF or (post_header != 6 and table_id == 0xFFFFFFFFFFFF))


@part
def rows_begin(buf: Bytes, body: Int, end: Int, event_type: Int, post_header: Int) -> Int:
    """Offset of the column count of a row event: after its post-header and extra data; -1 if it runs past `end`."""
    rows = body + post_header
    if event_type >= 30:
        # The post-header ends in the length of the extra data, itself included (5.6, rows_event.h).
        if post_header < 10:
            return np.int64(-1)
        rows += max(read_u16(buf, body + 8), 2) - 2
    return np.int64(rows) if rows <= end else np.int64(-1)
