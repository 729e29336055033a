"""Which cells are NULL, as Arrow's validity bitmaps.
Not here: the values (`numbers.py`, `temporal.py`, `strings.py`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.layout import ABSENT_CELL

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, Ints


@kernel
def count_nulls(cells: Cells) -> Int:
    """The number of cells that are NULL or absent."""
    nulls = np.int64(0)
    for i in range(cells.shape[0]):
        nulls += np.int64(cells[i] <= ABSENT_CELL)
    return nulls


@kernel
def cell_validity(cells: Cells, out: Bytes) -> None:
    """Sets a bit for each cell that is neither NULL nor absent; `out` has one byte for eight cells, all zero."""
    for i in range(cells.shape[0]):
        out[i >> 3] |= np.uint8(np.int64(cells[i] > ABSENT_CELL) << np.int64(i & 7))


@kernel
def op_validity(ops: Ints, absent: Int, out: Bytes) -> Int:
    """Sets a bit for each row whose operation is not `absent`; returns the number of the others."""
    nulls = np.int64(0)
    for i in range(ops.shape[0]):
        there = np.int64(ops[i] != absent)
        out[i >> 3] |= np.uint8(there << np.int64(i & 7))
        nulls += 1 - there
    return nulls
