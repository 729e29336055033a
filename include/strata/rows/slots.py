"""The arrays in which rows wait for their second pass, a slot for each shape of each table.
Not here: filling them (`kernels/stream.py`), what the slots mean (`book.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import numpy as np
from msgspec import Struct

from strata.events.known import KnownServers
from strata.kernels import layout
from strata.kernels.gtid import GTID_BYTES, KEY_BYTES
from strata.kernels.layout import Tables
from strata.kernels.stream import find_map

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata.events.shape import RowShape
    from strata.gtid.sets import Sid
    from strata.kernels.arrays import Cells, Ints
    from strata.wire.format import FormatDescription

Number = TypeVar("Number", bound=np.generic)

BATCH_ROWS = 8192
"""Rows of a batch; more do not stay in the cache of a core."""
FIRST_ROWS = 128
"""Rows of a table's first batch: of many tables most have few rows."""
GROWTH = 8
_PADDING = 16
"""Places between two columns: with a power of two all columns would fall into the same sets of the cache."""
_MOST_CELLS = 32 << 20
"""Cells of all slots together (128 MiB)."""


class SlotRows(Struct, frozen=True, eq=False):
    """The rows of a slot, as views that hold until it is emptied."""

    count: int
    flags: int
    after: tuple[Cells, ...]
    before: tuple[Cells, ...]
    facts: tuple[Ints, ...]

    def in_front_of(self, seq: int, row: int) -> SlotRows:
        """Those that stand in the stream before row number `row` of transaction `seq`."""
        seqs, numbers = self.facts[layout.FACT_SEQ], self.facts[layout.FACT_ROW]
        return self.first(int(np.count_nonzero((seqs < seq) | ((seqs == seq) & (numbers < row)))))

    def first(self, count: int) -> SlotRows:
        """The first of them."""
        return SlotRows(
            count,
            self.flags,
            tuple(cells[:count] for cells in self.after),
            tuple(cells[:count] for cells in self.before),
            tuple(facts[:count] for facts in self.facts),
        )


class Slots:
    """All slots of a walk, and what else it keeps."""

    def __init__(self, form: FormatDescription) -> None:
        self.servers = KnownServers()
        post_headers = np.full(256, -1, np.int64)
        post_headers[1 : len(form.header_lengths) + 1] = form.header_lengths
        self.state = np.zeros(layout.STATE_FIELDS, np.int64)
        self._key = np.zeros(GTID_BYTES, np.uint8)
        self._maps = np.zeros((64, layout.MAP_FIELDS), np.int64)
        self._map_count = 0
        self._bodies = np.zeros(0, np.uint8)
        self._slots = np.zeros((0, layout.SLOT_FIELDS), np.int64)
        self._columns = np.zeros((0, layout.COLUMN_FIELDS), np.int64)
        self._scratch = np.zeros((2, 1, layout.SCRATCH_FIELDS), np.int64)
        self._cells = np.zeros(1, np.uint32)
        self._facts = np.zeros(1, np.int64)
        self._cells_used = self._facts_used = 0
        self._post_headers = post_headers

    def __len__(self) -> int:
        return len(self._slots)

    def tables(self) -> Tables:
        """What the kernels take; to be asked for again after any other call."""
        return Tables(
            self.state,
            self.servers.keys,
            self._key,
            self._maps,
            self._bodies,
            self._slots,
            self._columns,
            self._scratch,
            self._cells,
            self._facts,
            self._post_headers,
        )

    # Servers and maps -----------------------------------------------------------------------------

    def add_server(self) -> None:
        """Makes the UUID and tag that the walk stopped at known."""
        self.servers.add(self._key)
        self.state[layout.KEYS] = self.servers.count

    def know_server(self, sid: Sid) -> int:
        """Makes a server known by its name; returns its number."""
        if sid in self.servers.sids:
            return self.servers.sids.index(sid)
        tag = sid.tag.encode()
        key = UUID(sid.uuid).bytes + bytes([len(tag)]) + tag
        self._key[:KEY_BYTES] = np.frombuffer(key.ljust(KEY_BYTES, b"\0"), np.uint8)
        self.add_server()
        return self.servers.count - 1

    def register(self, table_id: int, body: bytes, slot: int) -> None:
        """Puts a TABLE_MAP in force for the current statement, and lets the walk know it by its bytes from now on."""
        place = self._place(table_id)
        if self._maps[place, layout.MAP_ID] == 0:
            if 2 * (self._map_count + 1) > len(self._maps):
                self._grow_maps()
                place = self._place(table_id)
            self._map_count += 1
        self._maps[place] = (table_id + 1, slot, self.state[layout.STATEMENT_NUMBER], len(self._bodies), len(body))
        self._bodies = np.concatenate((self._bodies, np.frombuffer(body, np.uint8)))

    def forget_maps(self) -> None:
        """Lets the walk stop at each TABLE_MAP again."""
        self._maps[:] = 0
        self._map_count = 0
        self._bodies = self._bodies[:0]

    def _place(self, table_id: int) -> int:
        return int(find_map(self._maps, table_id))

    def _grow_maps(self) -> None:
        known = self._maps[self._maps[:, layout.MAP_ID] != 0]
        self._maps = np.zeros((2 * len(self._maps), layout.MAP_FIELDS), np.int64)
        for entry in known:
            self._maps[self._place(int(entry[layout.MAP_ID]) - 1)] = entry

    # Slots ------------------------------------------------------------------------------------------

    def add(self, shape: RowShape, targets: Ints) -> int:
        """A slot for a shape; `targets` says which wanted column each column is, -1 for none. Returns its number."""
        slot = np.zeros((1, layout.SLOT_FIELDS), np.int64)
        count = int(np.count_nonzero(targets >= 0))
        slot[0, layout.COLUMNS] = len(shape.widths)
        slot[0, layout.COLUMNS_AT] = len(self._columns)
        slot[0, layout.TARGETS] = count
        slot[0, layout.JSON_COLUMNS] = shape.json_columns
        self._columns = np.concatenate((self._columns, np.column_stack((shape.widths, targets))))
        if len(shape.widths) > self._scratch.shape[1]:
            self._scratch = np.zeros((2, len(shape.widths), layout.SCRATCH_FIELDS), np.int64)
        self._slots = np.concatenate((self._slots, slot))
        return len(self._slots) - 1

    def want(self, slot: int) -> None:
        """Gives a slot room; without this its rows are only counted."""
        self._slots[slot, layout.WANTED] = 1
        self._make_room(slot, FIRST_ROWS)

    def waiting(self) -> list[int]:
        """The slots that hold rows."""
        return [int(slot) for slot in np.flatnonzero(self._slots[:, layout.COUNT])]

    def rows(self, slot: int) -> SlotRows:
        """What a slot holds."""
        entry = self._slots[slot]
        count, stride, targets = (int(entry[field]) for field in (layout.COUNT, layout.STRIDE, layout.TARGETS))
        after_at, facts_at = int(entry[layout.CELLS_AT]), int(entry[layout.FACTS_AT])
        before_at = after_at + targets * stride
        return SlotRows(
            count,
            int(entry[layout.FLAGS]),
            _columns(self._cells, after_at, stride, targets, count),
            _columns(self._cells, before_at, stride, targets, count),
            tuple(self._facts[at : at + count] for at in range(facts_at, facts_at + layout.FACTS * stride, stride)),
        )

    def empty(self, slot: int) -> None:
        """Forgets the rows of a slot; one that was full gets more room."""
        entry = self._slots[slot]
        was_full = entry[layout.COUNT] == entry[layout.CAPACITY]
        entry[[layout.COUNT, layout.FLAGS, layout.BYTES]] = 0
        capacity = int(entry[layout.CAPACITY])
        if was_full and capacity < BATCH_ROWS and self._cells_used < _MOST_CELLS:
            self._make_room(slot, min(capacity * GROWTH, BATCH_ROWS))

    def _make_room(self, slot: int, capacity: int) -> None:
        entry = self._slots[slot]
        stride = capacity + _PADDING
        cells, facts = 2 * int(entry[layout.TARGETS]) * stride, layout.FACTS * stride
        entry[layout.CELLS_AT], entry[layout.FACTS_AT] = self._cells_used, self._facts_used
        entry[layout.STRIDE], entry[layout.CAPACITY] = stride, capacity
        self._cells_used += cells
        self._facts_used += facts
        self._cells = _extended(self._cells, self._cells_used)
        self._facts = _extended(self._facts, self._facts_used)


def _columns(cells: Cells, begin: int, stride: int, targets: int, count: int) -> tuple[Cells, ...]:
    return tuple(cells[at : at + count] for at in range(begin, begin + targets * stride, stride))


def _extended(array: NDArray[Number], least: int) -> NDArray[Number]:
    if len(array) >= least:
        return array
    longer = np.empty(max(least, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
