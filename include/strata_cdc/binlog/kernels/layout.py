"""What the walks over events share with their callers: groups of arrays, and the records in them.
Not here: the walks (`transactions.py`, `stream.py`, `row_images.py`, `packets.py`), the codes (`words.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from strata_cdc.binlog.kernels.records import Record

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import ByteRows, Bytes, Cells, Flags, Int, IntBlocks, Ints
    from strata_cdc.binlog.kernels.records import Records


class Events(NamedTuple):
    """Headers of consecutive events, as in `wire.frames.EventIndex`."""

    positions: Ints
    lengths: Ints
    types: Bytes
    timestamps: Ints
    log_positions: Ints
    flags: Flags


# The index: a walk that groups events into transactions -------------------------------------------


class IndexState(Record):
    """The state of the index; the counts are of rows in the arrays of `Notes`."""

    place: Int
    """A `State` of the stream."""
    begin: Int
    """Offset of the open transaction; the next six belong to it, too."""
    sid: Int
    """The server that numbered it: its number among the known servers; -1 for an anonymous transaction."""
    gno: Int
    stamp: Int
    log_begin: Int
    incident: Int
    xa: Int
    row: Int
    """Its rows so far."""
    split: Int
    """Offset of its last split point."""
    transactions: Int
    entries: Int
    statements: Int
    splits: Int
    split_maps: Int
    maps: Int
    first_entry: Int
    """Belongs to the open transaction, like the next one."""
    first_statement: Int
    keys: Int
    """How many rows of `IndexMemory.keys` are in use."""


class Transaction(Record):
    """A finished transaction; the last three are where its rows in the other arrays end."""

    begin: Int
    end: Int
    log_begin: Int
    """Where its first event starts in the server's file, modulo 2**32."""
    sid: Int
    gno: Int
    stamp: Int
    incident: Int
    """Offset of an INCIDENT; -1 if there is none."""
    xa: Int
    """Offset of the event that may have its XA step: XA_PREPARE, a QUERY that is the whole transaction, or the payload
    that has XA_PREPARE; -1 if there is none. Not each of them is a step of two phases (`binlog/events/xa.py`)."""
    entries_end: Int
    statements_end: Int
    splits_end: Int


class Entry(Record):
    """What a transaction did to one table."""

    table: Int
    events: Int
    rows: Int


class Split(Record):
    """A point from which a transaction can be decoded."""

    offset: Int
    row: Int
    maps_end: Int


class OpenMap(Record):
    """A TABLE_MAP of the open statement."""

    table_id: Int
    table_map: Int
    entry: Int
    position: Int


class KnownMap(Record):
    """A TABLE_MAP that the index has seen; one more row has the end of the bytes and widths of the last one."""

    body: Int
    """Where its bytes start in `IndexMemory.bodies`, without table id and flags."""
    widths: Int
    """Where its widths start in `IndexMemory.widths`."""
    table: Int
    """Number of its table."""
    json_columns: Int
    """`UNSIZED` if the TABLE_MAP does not say how long cells are."""


class Form(NamedTuple):
    """What all events of a walk of the index have in common."""

    checksum_bytes: Int
    payload: Int
    """Offset of the payload, or of the compressed event, that has the events; -1 outside of them."""
    payload_end: Int
    """Offset after it."""
    split_bytes: Int
    """A larger transaction gets split points, this many bytes from each other."""
    post_headers: Ints
    """Bytes of the post-header by event type; -1 if the file's format lists none."""


class IndexMemory(NamedTuple):
    """What the index has seen so far, kept by `binlog/events/registry.py`."""

    keys: ByteRows
    """UUIDs and tags, one per row, as in `gtid.py`."""
    bodies: Bytes
    """This and the next three: TABLE_MAPs, as in `table_maps.py`."""
    table_maps: Records[KnownMap]
    places: Ints
    widths: Ints


class Notes(NamedTuple):
    """What the index writes to."""

    state: Records[IndexState]
    """One record."""
    key: Bytes
    """Gets the GTID that was read last."""
    maps: Records[OpenMap]
    """TABLE_MAPs in force, with space for one more per event; the same for the next four."""
    transactions: Records[Transaction]
    entries: Records[Entry]
    statements: Ints
    """Offsets of QUERY events, or of the payloads that have them."""
    splits: Records[Split]
    split_maps: Ints
    """Offsets of TABLE_MAPs in force at split points; its space may run out."""
    present: Ints
    """As in `widths.count_image_rows`."""


# The decoder: a walk that notes where each cell lies ----------------------------------------------

HEADER: Final = 19


class WalkState(Record):
    """The state of the decoder's walk."""

    event: Int
    """Index of the event to continue with."""
    at: Int
    """Offset of the row to continue with in that event; 0 for its start."""
    seq: Int
    row: Int
    """Ordinal of the next row in its transaction."""
    clock: Int
    sid: Int
    """Index of the transaction's source identifier (and tag); -1 for an anonymous transaction."""
    gno: Int
    place: Int
    """A `State` of the stream."""
    following: Int
    """The state after the current event, once the caller has done what the walk requests."""
    statement: Int
    """Counts statements; a TABLE_MAP is in force for one statement."""
    position: Int
    """Where the current event starts in the server's file."""
    delta: Int
    """Offset in the server's file minus offset in the buffer, as far as it is known."""
    is_piece: Int
    """1 if events may be missing between those of the buffer, so that only their end positions show where they were."""
    buffer: Int
    """The row buffer that is full when the status is FULL; -1 for all."""
    foreign: Int
    """1 if the row buffers hold cells of another region, and must be emptied before the next row."""
    keys: Int
    """How many rows of `Tables.keys` are known."""


class BufferColumn(Record):
    """A column of a row buffer."""

    width: Int
    """As in `events.cell_widths.CellWidths`."""
    target: Int
    """Number of the wanted column; -1 if it is not wanted."""


class RowBuffer(Record):
    """The rows of one table, of one TABLE_MAP, that wait for their second pass."""

    cells_at: Int
    """Where its part of `cells` begins: targets x stride of the after images, then of the before images."""
    facts_at: Int
    """Where its part of `facts` begins: `FACTS` x stride."""
    stride: Int
    capacity: Int
    count: Int
    columns: Int
    columns_at: Int
    """Where its part of `columns` begins."""
    targets: Int
    """How many columns are wanted."""
    json_columns: Int
    wanted: Int
    """0 if rows are only counted."""
    has: Int
    """The bits of `Has` of all its rows together."""
    waiting_bytes: Int
    """Bytes of its rows."""


class MapInForce(Record):
    """A registered TABLE_MAP, found by hash of its table id."""

    key: Int
    """The table id + 1; 0 for a free slot."""
    buffer: Int
    statement: Int
    body_at: Int
    body_length: Int


class Has(IntEnum):
    """Flags of a row buffer's rows."""

    AFTER = 1
    BEFORE = 2
    ABSENT = 4
    PARTIAL = 8


class Fact(IntEnum):
    """What each row has besides its images."""

    SEQ = 0
    ROW = 1
    CLOCK = 2
    POSITION = 3
    SID = 4
    GNO = 5
    OP = 6
    PARTIAL = 7
    """Offset of the partial bits in the buffer; 0 if all JSON values are whole."""


FACTS: Final = len(Fact)


class Op(IntEnum):
    """What happened to a row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


NULL_CELL: Final = 0
ABSENT_CELL: Final = 1
"""Cells up to this one are not positions: the kernels of all types compare with it."""

MOST_BYTES: Final = 16 << 20
"""Bytes of row images that are enough for a batch, however few rows they are."""

SCRATCH_FIELDS: Final = 3
"""Fields of a column in `Tables.scratch`."""


class Tables(NamedTuple):
    """Everything that the decoder's walk keeps from call to call."""

    state: Records[WalkState]
    """One."""
    keys: ByteRows
    """UUIDs and tags of the transactions so far, one per row, as in `gtid.py`."""
    key: Bytes
    """UUID, tag and number of the GTID that was read last."""
    maps: Records[MapInForce]
    """A hash table."""
    bodies: Bytes
    """The bytes of the TABLE_MAPs after the table id and flags."""
    buffers: Records[RowBuffer]
    columns: Records[BufferColumn]
    """The cells of all row buffers."""
    scratch: IntBlocks
    """For the columns of one event's two images: index, width, position of the first cell."""
    cells: Cells
    facts: Ints
    post_headers: Ints
    """Bytes of the post-header by event type."""


# Packets of the client protocol -------------------------------------------------------------------


class PacketState(Record):
    """The state of `packets.split_packets`."""

    left: Int
    """Bytes of the current packet that are still to come."""
    continues: Int
    """1 if the event continues in the next packet."""
    number: Int
    """The number that the next packet must have, modulo 256; from `UNNUMBERED` on any number is allowed."""
    event_left: Int
    """Bytes of the current event that are still to come."""
    largest: Int
    """The most bytes that an event may have; set by the caller."""
    log_pos: Int
    """Where the next event begins, bytes, if its end position is to be written into its header; 0 if each event keeps
    what the server wrote there."""
