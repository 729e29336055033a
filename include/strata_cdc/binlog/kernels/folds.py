"""Folds a product of 128 bits to 64 bits, in two instructions if the code is compiled (`intrinsics.py`).
Not here: what it is used for (`hashes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Int

_WORD = (1 << 64) - 1


def fold_product(left: Int, right: Int) -> Int:
    """The lower half of the product of two unsigned words, XOR its upper half."""
    product = (int(left) & _WORD) * (int(right) & _WORD)
    return np.uint64((product & _WORD) ^ (product >> 64)).view(np.int64)
