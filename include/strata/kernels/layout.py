"""The arrays that the walk over events shares with its caller, and where what lies in them.
Not here: the walk (`stream.py`, `walk.py`); event codes that have names for readers (`wire/codes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from strata.kernels.arrays import ByteRows, Bytes, Cells, IntBlocks, IntRows, Ints


class Events(NamedTuple):
    """Headers of consecutive events, as in `wire.frames.EventIndex`."""

    positions: Ints
    lengths: Ints
    types: Bytes
    timestamps: Ints
    log_positions: Ints


class Tables(NamedTuple):
    """All that the walk keeps from call to call."""

    state: Ints
    keys: ByteRows
    """UUIDs and tags of the transactions so far, one a row, as in `gtid.py`."""
    key: Bytes
    """UUID, tag and number of the GTID that was read last."""
    maps: IntRows
    """Hash table of the registered TABLE_MAPs."""
    bodies: Bytes
    """Their bytes behind table id and flags."""
    slots: IntRows
    columns: IntRows
    """Of all slots: width as in `events.shape.RowShape`, and which wanted column it is, -1 if nobody wants it."""
    scratch: IntBlocks
    """For the columns of one event's two images: index, width, place of the first cell."""
    cells: Cells
    facts: Ints
    post_headers: Ints
    """Bytes of the post-header by event type."""


HEADER: Final = 19

# Fields of the walk's state ---------------------------------------------------------------------
EVENT: Final = 0
"""Index of the event to go on with."""
AT: Final = 1
"""Offset of the row to go on with in that event; 0 for its start."""
SEQ: Final = 2
ROW: Final = 3
"""Ordinal of the next row in its transaction."""
CLOCK: Final = 4
SID: Final = 5
"""Index of the transaction's source identifier (and tag); -1 for an anonymous transaction."""
GNO: Final = 6
OPEN: Final = 7
"""Where the stream is: BETWEEN, HEADED or INSIDE."""
STATEMENT: Final = 8
"""Counts statements; a TABLE_MAP is in force for one."""
POSITION: Final = 9
"""Where the current event starts in the server's file."""
SLOT: Final = 10
"""The slot that is full when the status is FULL; -1 for all."""
DELTA: Final = 11
"""Offset in the server's file minus offset in the buffer, as far as it is known."""
KEYS: Final = 12
"""How many rows of `Tables.keys` are known."""
FOREIGN: Final = 13
"""1 if the slots hold cells of another buffer, and must be emptied before the next row."""
STATE_FIELDS: Final = 14

BETWEEN: Final = 0
"""Between two transactions."""
HEADED: Final = 1
"""Behind a GTID event, or behind what belongs to a statement that is still to come."""
INSIDE: Final = 2
"""Behind BEGIN or a TABLE_MAP."""

WIDTH: Final = 0
TARGET: Final = 1
COLUMN_FIELDS: Final = 2

# Fields of a slot: the rows of one shape of one table that wait for their second pass ------------
CELLS_AT: Final = 0
"""Where its part of `cells` begins: targets x stride of the after images, then of the before images."""
FACTS_AT: Final = 1
"""Where its part of `facts` begins: FACTS x stride."""
STRIDE: Final = 2
CAPACITY: Final = 3
COUNT: Final = 4
COLUMNS: Final = 5
COLUMNS_AT: Final = 6
"""Where its part of `columns` begins."""
TARGETS: Final = 7
"""How many columns are wanted."""
JSON_COLUMNS: Final = 8
WANTED: Final = 9
"""0 if rows are only counted."""
FLAGS: Final = 10
BYTES: Final = 11
"""Of the rows that wait."""
SLOT_FIELDS: Final = 12

MOST_BYTES: Final = 16 << 20
"""Bytes of row images that make a batch, however few rows they are."""

# Flags of a slot's rows --------------------------------------------------------------------------
HAS_AFTER: Final = 1
HAS_BEFORE: Final = 2
HAS_ABSENT: Final = 4
HAS_PARTIAL: Final = 8

# Facts of a row -----------------------------------------------------------------------------------
FACT_SEQ: Final = 0
FACT_ROW: Final = 1
FACT_CLOCK: Final = 2
FACT_POSITION: Final = 3
FACT_SID: Final = 4
FACT_GNO: Final = 5
FACT_OP: Final = 6
FACT_PARTIAL: Final = 7
"""Offset of the partial bits in the buffer; 0 if all JSON values are whole."""
FACTS: Final = 8

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2

NULL_CELL: Final = 0
ABSENT_CELL: Final = 1

# Fields of a registered TABLE_MAP, found by hash of its table id ---------------------------------
MAP_ID: Final = 0
"""The table id + 1; 0 for a free place."""
MAP_SLOT: Final = 1
MAP_STATEMENT: Final = 2
MAP_BODY_AT: Final = 3
MAP_BODY_LENGTH: Final = 4
MAP_FIELDS: Final = 5

END_OF_STATEMENT: Final = 1
NO_TABLE: Final = 0xFFFFFFFFFFFF
"""Table id of a row event that only ends its statement (sql/log_event.cc, Rows_log_event::do_apply_event)."""

QUERY: Final = 2
STOP: Final = 3
ROTATE: Final = 4
FORMAT_DESCRIPTION: Final = 15
XID: Final = 16
TABLE_MAP: Final = 19
HEARTBEAT: Final = 27
IGNORABLE: Final = 28
ROWS_QUERY: Final = 29
WRITE_V1: Final = 23
WRITE_V2: Final = 30
GTID: Final = 33
ANONYMOUS_GTID: Final = 34
TAGGED_GTID: Final = 42
PREVIOUS_GTIDS: Final = 35
TRANSACTION_CONTEXT: Final = 36
VIEW_CHANGE: Final = 37
XA_PREPARE: Final = 38
HEARTBEAT_V2: Final = 41

SCRATCH_FIELDS: Final = 3
"""Of a column in `Tables.scratch`."""
