"""The numbers of the grammar, with a name for each: words, states, steps, requests, faults.
Not here: which word is allowed where (`grammar.py`), what all kernels return (`status.py`).

They are enums of integers: machine code has them as constants, and Python shows their names.
"""

from __future__ import annotations

from enum import IntEnum


class EventCode(IntEnum):
    """Types of events that kernels use by name (libs/mysql/binlog/event/binlog_event.h)."""

    QUERY = 2
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_V1 = 23
    UPDATE_V1 = 24
    WRITE_V2 = 30
    UPDATE_V2 = 31
    ANONYMOUS_GTID = 34
    PARTIAL_UPDATE = 39
    TAGGED_GTID = 42
    DOMAIN_GTID = 162
    PARTIAL_ROW_DATA = 172


class Word(IntEnum):
    """The words of the grammar. A QUERY is one of the first four, depending on its text (`statements.py`)."""

    STATEMENT = 0
    """DDL, or rows changed in statement format; also EXECUTE_LOAD_QUERY."""
    BEGIN = 1
    """BEGIN, XA START."""
    END = 2
    """COMMIT, ROLLBACK, XA PREPARE; XA COMMIT and XA ROLLBACK if they are alone."""
    FRAME = 3
    """SAVEPOINT, ROLLBACK TO, RELEASE SAVEPOINT, XA END: neither begins nor ends anything."""
    PASSED = 4
    """Has no effect on rows or transactions."""
    GTID = 5
    PART = 6
    """Belongs to a statement that follows: INTVAR, RAND, USER_VAR, ROWS_QUERY, the blocks of LOAD DATA."""
    TABLE_MAP = 7
    ROWS = 8
    XID = 9
    XA_PREPARE = 10
    """Ends a transaction whose rows take effect with its XA COMMIT, which may follow later as a transaction."""
    PAYLOAD = 11
    """A compressed transaction; its inner events follow as words of their own, then PAYLOAD_END."""
    PAYLOAD_END = 12
    INCIDENT = 13
    """The server lost events: a transaction by itself, also without a GTID (5.1 to 5.5)."""
    FORMAT = 14
    FILE = 15
    """ROTATE, STOP, PREVIOUS_GTIDS, GTID_LIST: come between transactions."""
    FILE_END = 16
    UNKNOWN = 17
    """A type that is not supported: pre-releases, LOAD DATA before 5.0.3, and everything newer than this program."""
    BROKEN_QUERY = 18
    """A QUERY whose lengths contradict each other."""
    GROUP = 19
    """MariaDB's GTID of more than one statement: it is a GTID and a BEGIN."""
    COMPRESSED = 20
    """MariaDB's compressed QUERY or row event; the plain event follows as a word of its own."""
    FRAGMENT = 21
    """A fragment of a row event, of which others follow directly (MariaDB, from 12.3 on)."""
    LAST_FRAGMENT = 22
    """The last fragment; the row event follows as a word of its own."""


class State(IntEnum):
    """Where a stream is."""

    BETWEEN = 0
    """Between two transactions."""
    HEADED = 1
    """After a GTID event, or after an event that belongs to a statement that follows."""
    INSIDE = 2
    """After BEGIN or a TABLE_MAP."""
    FRAGMENTED = 3
    """After a fragment of a row event, and before its next one."""
    PACKED = 4
    """At the beginning of a payload; this state and all states after it are inside a payload."""
    PACKED_INSIDE = 5
    ENDED = 6
    """After the last inner event of a payload."""


class Step(IntEnum):
    """Bits of what a word does in a state."""

    NEXT = 0xFF
    """These bits are the next state."""
    OPENS = 0x100
    """A transaction begins before the event."""
    CLOSES = 0x200
    """A transaction ends after the event."""


FAULT_SHIFT = 16
"""The bits of a step from this bit on are a fault; 0 if there is none."""


class Request(IntEnum):
    """What a walk requests from its caller."""

    INFLATE = 10
    """Walk over the inner events of a payload, then take PAYLOAD_END. After this request and the next four, the caller
    continues with the step's next state."""
    COMPARE_FORMAT = 11
    """Compare another FORMAT_DESCRIPTION with the one in force."""
    READ_STATEMENT = 12
    REPORT_LOSS = 13
    INFLATE_EVENT = 14
    """Walk over the plain form of a compressed event, or of the fragments that end here."""
    NEW_SERVER = 15
    """Add the UUID and tag, or the domain and server, to the known ones, and repeat the event."""
    NEW_TABLE_MAP = 16
    """Add the TABLE_MAP to the known ones, and repeat the event."""


class Fault(IntEnum):
    """The fault of an event, besides the codes of `status.py`."""

    NESTED = 20
    OUTSIDE = 21
    UNFINISHED = 22
    BAD_GTID = 23
    BAD_QUERY = 24
    BAD_TABLE_MAP = 25
    BAD_ROWS = 26
    NO_TABLE_MAP = 27
    MISPLACED_PAYLOAD = 28
    UNFINISHED_PAYLOAD = 29
    NOT_PACKED = 30
    CUT_ROWS = 31
