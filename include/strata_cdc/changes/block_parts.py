"""Cuts blocks whose compressed values would be too large together once they are inflated.
Not here: inflating them (`gather_compressed.py`), the blocks (`blocks.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from strata_cdc.changes.gather_compressed import GatherCompressed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.blocks import RowBlock

MOST_INFLATED_BYTES: Final = 64 << 20
"""A batch of rows with compressed columns has about as many bytes of inflated values at most, or one row."""


def parts_of(block: RowBlock, most_bytes: int = MOST_INFLATED_BYTES) -> Iterator[RowBlock]:
    """A block in parts, in order; most blocks are one part.

    Args:
        block: The rows.
        most_bytes: Inflated bytes of a part, unless one row has more.
    """
    sizes = _inflated_bytes(block)
    if sizes is None or int(sizes.sum()) <= most_bytes:
        yield block
        return
    starts, total = [0], 0
    for row, size in enumerate(sizes.tolist()):
        if row > starts[-1] and total + size > most_bytes:
            starts.append(row)
            total = 0
        total += size
    for first, end in pairwise([*starts, block.rows.count]):
        yield replace(block, rows=block.rows.part(first, end))


def _inflated_bytes(block: RowBlock) -> Ints | None:
    """Of each row the bytes of its inflated values; None if the table has no compressed columns."""
    compressed = [
        (at, column.gather)
        for at, column in enumerate(block.plan.columns)
        if isinstance(column.gather, GatherCompressed)
    ]
    if not compressed:
        return None
    sizes = np.zeros(block.rows.count, np.int64)
    for at, gather in compressed:
        for image in (block.rows.after, block.rows.before):
            if image:
                sizes += gather.sizes(block.region, image[at])
    return sizes
