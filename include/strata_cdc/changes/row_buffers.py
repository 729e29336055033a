"""The arrays that collect rows until they are a block: a row buffer for each TABLE_MAP of each table.
Not here: filling them (`binlog/kernels/stream.py`), which TABLE_MAP is in force (`maps_in_force.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.layout import FACTS, SCRATCH_FIELDS, BufferColumn, Fact, Has, RowBuffer
from strata_cdc.binlog.kernels.records import joined, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.events.cell_widths import CellWidths
    from strata_cdc.binlog.kernels.arrays import Cells, IntBlocks, Ints

Number = TypeVar("Number", bound=np.generic)

BATCH_ROWS = 8192
"""Rows of a batch; more rows would not stay in the cache of a core."""
FIRST_ROWS = 128
"""Rows of a table's first batch: if there are many tables, most have few rows."""
GROWTH = 8
_PADDING = 16
"""Cells between two columns: with a power of two, all columns would be in the same sets of the cache."""
_MOST_CELLS = 32 << 20
"""Cells of all row buffers together (128 MiB)."""


class BufferedRows(Struct, frozen=True, eq=False):
    """The content of a row buffer: where each cell lies, and what each row has besides its images."""

    count: int
    flags: int
    """Bits of `Has`; if no row has an image, its cells do not exist."""
    after: tuple[Cells, ...]
    """Cells of each wanted column."""
    before: tuple[Cells, ...]
    facts: tuple[Ints, ...]
    """Values of each `Fact`."""

    def part_before(self, seq: int, row: int) -> BufferedRows:
        """The rows that are in the stream before row number `row` of transaction `seq`."""
        seqs, numbers = self.facts[Fact.SEQ], self.facts[Fact.ROW]
        return self.part(0, int(np.count_nonzero((seqs < seq) | ((seqs == seq) & (numbers < row)))))

    def part(self, first: int, end: int) -> BufferedRows:
        """The rows from number `first` up to, not including, number `end`."""
        return BufferedRows(
            end - first,
            self.flags,
            tuple(cells[first:end] for cells in self.after),
            tuple(cells[first:end] for cells in self.before),
            tuple(facts[first:end] for facts in self.facts),
        )


class RowBuffers:
    """All row buffers of a walk."""

    def __init__(self) -> None:
        self.entries = records(RowBuffer, 0)
        """One entry per row buffer. This and the next four are arguments of the kernels; they must be read again after
        any call."""
        self.columns = records(BufferColumn, 0)
        self.scratch: IntBlocks = np.zeros((2, 1, SCRATCH_FIELDS), np.int64)
        self.cells: Cells = np.zeros(1, np.uint32)
        self.facts: Ints = np.zeros(1, np.int64)
        self._cells_used = self._facts_used = 0

    def add(self, widths: CellWidths, targets: Ints, *, counted_only: bool) -> int:
        """Adds a row buffer.

        Args:
            widths: Widths of its rows' cells.
            targets: For each column the number of the wanted column, -1 if it is not wanted.
            counted_only: The rows are not wanted: they are counted and skipped.

        Returns:
            Its number.
        """
        added, columns = records(RowBuffer, 1), records(BufferColumn, len(targets))
        buffer = added[0]
        buffer.columns = len(targets)
        buffer.columns_at = len(self.columns)
        buffer.targets = np.count_nonzero(targets >= 0)
        buffer.json_columns = widths.json_columns
        buffer.wanted = not counted_only
        columns["width"], columns["target"] = widths.widths, targets
        self.columns = joined(self.columns, columns)
        if len(widths.widths) > self.scratch.shape[1]:
            self.scratch = np.zeros((2, len(widths.widths), SCRATCH_FIELDS), np.int64)
        self.entries = joined(self.entries, added)
        number = len(self.entries) - 1
        if not counted_only:
            self._grow(number, FIRST_ROWS)
        return number

    def widths(self, number: int) -> NDArray[np.int64]:
        """The widths of the cells of a buffer's rows, which may be set if the rows are only counted."""
        first, columns = int(self.entries[number].columns_at), int(self.entries[number].columns)
        return self.columns["width"][first : first + columns]

    def waiting(self) -> list[int]:
        """The row buffers that have rows."""
        return [int(number) for number in np.flatnonzero(self.entries["count"])]

    def drain(self, number: int) -> BufferedRows:
        """Takes all rows out of a row buffer; a buffer that was full gets more space."""
        buffer = self.entries[number]
        count, stride, targets, has = (
            int(value) for value in (buffer.count, buffer.stride, buffer.targets, buffer.has)
        )
        after_at = int(buffer.cells_at)
        before_at = after_at + targets * stride
        rows = BufferedRows(
            count,
            has,
            _copies(self.cells, after_at, stride, targets if has & Has.AFTER else 0, count),
            _copies(self.cells, before_at, stride, targets if has & Has.BEFORE else 0, count),
            _copies(self.facts, int(buffer.facts_at), stride, FACTS, count),
        )
        buffer.count = buffer.has = buffer.waiting_bytes = 0
        capacity = int(buffer.capacity)
        if count == capacity < BATCH_ROWS and self._cells_used < _MOST_CELLS:
            self._grow(number, min(capacity * GROWTH, BATCH_ROWS))
        return rows

    def _grow(self, number: int, capacity: int) -> None:
        buffer = self.entries[number]
        stride = capacity + _PADDING
        buffer.cells_at, buffer.facts_at = self._cells_used, self._facts_used
        buffer.stride, buffer.capacity = stride, capacity
        self._cells_used += 2 * int(buffer.targets) * stride
        self._facts_used += FACTS * stride
        self.cells = _extended(self.cells, self._cells_used)
        self.facts = _extended(self.facts, self._facts_used)


def _copies(array: NDArray[Number], begin: int, stride: int, columns: int, count: int) -> tuple[NDArray[Number], ...]:
    """Copies of the first `count` entries of some columns: the walk continues in the same arrays."""
    return tuple(array[at : at + count].copy() for at in range(begin, begin + columns * stride, stride))


def _extended(array: NDArray[Number], least: int) -> NDArray[Number]:
    if len(array) >= least:
        return array
    longer = np.empty(max(least, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
