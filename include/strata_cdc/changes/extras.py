"""The columns `_missing` and `_invalid`: what the images of a batch lack or cannot express.
Not here: detecting it (`binlog/kernels/row_images.py`, `gather.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from strata_cdc.arrow_columns import to_texts
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, Fact, Has, Op
from strata_cdc.changes.arrow import BEFORE, INVALID, MISSING
from strata_cdc.changes.gather_text import Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.binlog.kernels.arrays import Cells
    from strata_cdc.changes.faults import CellFault
    from strata_cdc.changes.row_buffers import BufferedRows


def missing_columns(rows: BufferedRows, names: Sequence[str]) -> pa.Array | None:
    """Per row the names of the columns that its images lack (`_before.NAME` in the before image); None if no image
    lacks a column."""
    if not rows.flags & Has.ABSENT:
        return None
    ops = rows.facts[Fact.OP]
    absent = np.zeros((rows.count, 2 * len(names)), np.bool_)
    if rows.flags & Has.AFTER:
        _mark(absent[:, : len(names)], rows.after)
        absent[ops == Op.DELETE, : len(names)] = False
    if rows.flags & Has.BEFORE:
        _mark(absent[:, len(names) :], rows.before)
        absent[ops == Op.INSERT, len(names) :] = False
    counts = absent.sum(axis=1)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    labels = Labels.from_labels((*names, *(f"{BEFORE}.{name}" for name in names)))
    values = labels.chosen(np.nonzero(absent)[1] + 1)
    buffers = [pa.py_buffer(np.packbits(counts > 0, bitorder="little")), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(MISSING, rows.count, buffers, int((counts == 0).sum()), children=[values])


def _mark(absent: np.ndarray[tuple[int, int], np.dtype[np.bool_]], cells: Sequence[Cells]) -> None:
    for at, column in enumerate(cells):
        absent[:, at] = column == ABSENT_CELL


def invalid_values(faults: Sequence[tuple[str, CellFault]], count: int) -> pa.Array:
    """Per row a map from column to the value that the log has; NULL for rows without a fault."""
    ordered = sorted(faults, key=lambda fault: fault[1].row)
    counts = np.bincount([fault.row for _, fault in ordered], minlength=count)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    keys = to_texts([name for name, _ in ordered])
    items = to_texts([fault.verbatim for _, fault in ordered])
    entries = pa.StructArray.from_arrays([keys, items], fields=[INVALID.key_field, INVALID.item_field])
    bitmap = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(INVALID, count, buffers, int((counts == 0).sum()), children=[entries])
