"""Hashes of the values of Arrow columns, one column after the other into one hash a row.
Not here: which columns belong together (`checks/image_chain.py`).

The hashes are compared within a run and never stored. They are good against chance, not against an adversary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.jit import kernel, part
from strata.kernels.memory import load_i64, load_u8

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, Ints, Offsets

_FIRST = np.int64(-7046029254386353131)  # 2**64 divided by the golden ratio, odd
_SECOND = np.int64(-4417276706812531889)  # of MurmurHash3's last step
_NULL = np.int64(0x2545F4914F6CDD1D)


@part
def stir(found: Int, word: Int) -> Int:
    """A hash with 64 more bits in it; numbers wrap around."""
    found = (found ^ word) * _FIRST
    found ^= found >> np.int64(32)
    found *= _SECOND
    return found ^ (found >> np.int64(29))


@part
def bytes_hash(data: Bytes, at: Int, size: Int, found: Int) -> Int:
    """A hash with `size` bytes from `at` in it, and with their number."""
    found = stir(found, size)
    end = at + size
    while at + 8 <= end:
        found = stir(found, load_i64(data, at))
        at += np.int64(8)
    rest = np.int64(0)
    while at < end:
        rest = (rest << np.int64(8)) | load_u8(data, at)
        at += np.int64(1)
    return stir(found, rest)


@kernel
def hash_texts(data: Bytes, offsets: Offsets, nulls: Bytes, hashes: Ints) -> Int:
    """Adds a column of texts or bytes to the hashes.

    Args:
        data: The bytes of all values.
        offsets: One more than rows: where each begins.
        nulls: Per row whether it is NULL, or nothing if none is.
        hashes: One a row; changed.

    Returns:
        -1, or the first row whose bytes are not in `data`.
    """
    has_nulls = nulls.shape[0] > 0
    size = np.int64(data.shape[0])
    for i in range(hashes.shape[0]):
        if has_nulls and nulls[i]:
            hashes[i] = stir(hashes[i], _NULL)
        else:
            begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
            if begin < 0 or end < begin or end > size:
                return np.int64(i)
            hashes[i] = bytes_hash(data, begin, end - begin, hashes[i])
    return np.int64(-1)


@kernel
def hash_fixed(data: Bytes, width: Int, nulls: Bytes, hashes: Ints) -> Int:
    """Adds a column of values of `width` bytes each to the hashes, as `hash_texts` does.

    Returns:
        -1, or the first row whose bytes are not in `data`.
    """
    has_nulls = nulls.shape[0] > 0
    if hashes.shape[0] * width > data.shape[0]:
        return np.int64(data.shape[0]) // width
    for i in range(hashes.shape[0]):
        if has_nulls and nulls[i]:
            hashes[i] = stir(hashes[i], _NULL)
        elif width == 8:
            hashes[i] = stir(hashes[i], load_i64(data, i * np.int64(8)))
        else:
            hashes[i] = bytes_hash(data, i * width, width, hashes[i])
    return np.int64(-1)
