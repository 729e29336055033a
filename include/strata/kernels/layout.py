"""The arrays that the walks over events share with their callers, and where what lies in them.
Not here: the walks (`transactions.py`, `stream.py`, `row_images.py`), the columns of the index (`transactions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from strata.kernels.arrays import ByteRows, Bytes, Cells, Flags, IntBlocks, IntRows, Ints


class Events(NamedTuple):
    """Headers of consecutive events, as in `wire.frames.EventIndex`."""

    positions: Ints
    lengths: Ints
    types: Bytes
    timestamps: Ints
    log_positions: Ints
    flags: Flags


class Known(NamedTuple):
    """What the index has met so far, by `events/registry.py`."""

    keys: ByteRows
    """UUIDs and tags, one a row, as in `gtid.py`."""
    bodies: Bytes
    """This and the next three: TABLE_MAPs, as in `table_maps.py`."""
    table_maps: IntRows
    places: Ints
    widths: Ints


class Notes(NamedTuple):
    """What the index writes to, with the columns that `transactions.py` names."""

    state: Ints
    key: Bytes
    """Takes the GTID that was read last."""
    maps: IntRows
    """TABLE_MAPs in force, with room for one more a event; so the next four."""
    transactions: IntRows
    entries: IntRows
    statements: Ints
    """Offsets of QUERY events, or of the payloads that they are in."""
    splits: IntRows
    split_maps: Ints
    """Offsets of TABLE_MAPs in force at split points; may run out."""
    present: Ints
    """As `widths.count_image_rows` has it."""


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
    buffers: IntRows
    columns: IntRows
    """Of all row buffers: width as in `events.cell_widths.CellWidths`; which wanted column it is, -1 for none."""
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
"""Where the stream is: a state of `grammar.py`."""
STATEMENT_NUMBER: Final = 8
"""Counts statements; a TABLE_MAP is in force for one."""
POSITION: Final = 9
"""Where the current event starts in the server's file."""
BUFFER: Final = 10
"""The row buffer that is full when the status is FULL; -1 for all."""
DELTA: Final = 11
"""Offset in the server's file minus offset in the buffer, as far as it is known."""
KEYS: Final = 12
"""How many rows of `Tables.keys` are known."""
FOREIGN: Final = 13
"""1 if the row buffers hold cells of another region, and must be emptied before the next row."""
FOLLOWING: Final = 14
"""The state behind the current event, once the caller has done what the walk asks for."""
IS_PIECE: Final = 15
"""1 if events may be missing between those of the buffer, so that only their end positions tell where they were."""
STATE_FIELDS: Final = 16

WIDTH: Final = 0
TARGET: Final = 1
COLUMN_FIELDS: Final = 2

# Fields of a row buffer: the rows of one table behind one TABLE_MAP that wait for their second pass
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
BUFFER_FIELDS: Final = 12

MOST_BYTES: Final = 16 << 20
"""Bytes of row images that make a batch, however few rows they are."""

# Flags of a row buffer's rows --------------------------------------------------------------------
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
MAP_BUFFER: Final = 1
MAP_STATEMENT: Final = 2
MAP_BODY_AT: Final = 3
MAP_BODY_LENGTH: Final = 4
MAP_FIELDS: Final = 5

SCRATCH_FIELDS: Final = 3
"""Of a column in `Tables.scratch`."""
