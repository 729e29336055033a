"""Fills in the end positions that MariaDB leaves out of event headers, from 11.4 on.
Not here: reading headers (`scan.py`), whether events are where they belong (`bytes/chain.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints


@kernel
def fill_end_positions(positions: Ints, lengths: Ints, made: Bytes, end: Int, log_positions: Ints) -> Int:
    """Writes the end of each event in the server's file where its header has 0, as far as others show it; else -1.

    If all events lie in the buffer as in the file, any header that has its end shows all others. If not, the last one
    before an event does.

    Args:
        positions: Where each event starts in the buffer.
        lengths: Bytes of each event.
        made: For each event, whether one with 0 is in no file of the server: it was made for a connection.
        end: Where the event before the first one ends in the server's file; -1 if that is not known.
        log_positions: The ends in the headers, modulo 2**32; changed.

    Returns:
        The number of events whose header has 0.
    """
    mask, count = np.int64(0xFFFFFFFF), min(positions.shape[0], lengths.shape[0], made.shape[0], log_positions.shape[0])
    lacking, shift, lies_alike = np.int64(0), np.int64(-1), True
    for i in range(count):
        if log_positions[i] == 0:
            lacking += 1
            if made[i]:
                lies_alike = False
        else:
            own = (log_positions[i] - positions[i] - lengths[i]) & mask
            if shift >= 0 and own != shift:
                lies_alike = False
            shift = own
    if lacking == 0:
        return lacking
    at = np.int64(end)
    for i in range(count):
        if log_positions[i] != 0:
            at = log_positions[i]
        elif made[i]:
            log_positions[i] = np.int64(-1)
        else:
            if lies_alike and shift >= 0:
                at = (positions[i] + lengths[i] + shift) & mask
            elif at >= 0:
                at = (at + lengths[i]) & mask
            log_positions[i] = at
    return lacking
