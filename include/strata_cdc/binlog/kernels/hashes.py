"""Hashes of the values of Arrow columns: one column after the other is added to one hash per row.
Not here: which columns belong together (`quality/checks/before_after.py`).

The hashes are compared within a run and never stored. They protect against chance, not against an adversary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.folds import fold_product
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import load_i64, load_u8, load_u32

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints, Offsets

_FIRST = np.int64(-7046029254386353131)  # 2**64 divided by the golden ratio, odd
_SECOND = np.int64(-4417276706812531889)  # of MurmurHash3's last step
_NULL = np.int64(0x2545F4914F6CDD1D)
_LANE = np.int64(0x1B873593CC9E2D51)


@part
def stir(hashed: Int, word: Int) -> Int:
    """A hash with 64 more bits added; numbers wrap around."""
    hashed = (hashed ^ word) * _FIRST
    hashed ^= hashed >> np.int64(32)
    hashed *= _SECOND
    return hashed ^ (hashed >> np.int64(29))


@part
def _folded(data: Bytes, at: Int, other: Int, hashed: Int) -> Int:
    """A hash with the words at `at` and at `other` added."""
    return fold_product(load_i64(data, at) ^ _FIRST, load_i64(data, other) ^ hashed)


@part
def bytes_hash(data: Bytes, at: Int, size: Int, hashed: Int) -> Int:
    """A hash with `size` bytes from `at` on added, and with their number.

    Two words at a time are folded in, for long values in two lanes: a product waits for the previous one of its lane.
    The last two words may share bytes with those before them. A fold loses the hash so far if its first word is
    `_FIRST`.
    """
    hashed, end = stir(hashed, size), at + size
    if size < 8:
        rest = np.int64(0)
        while at < end:
            rest = (rest << np.int64(8)) | load_u8(data, at)
            at += np.int64(1)
        return stir(hashed, rest)
    if size < 16:
        return _folded(data, at, end - np.int64(8), hashed)
    # If the lanes began equal, they would be equal for repeated words, and cancel each other.
    other = hashed ^ _LANE
    while at + 32 <= end:
        hashed = _folded(data, at, at + np.int64(8), hashed)
        other = _folded(data, at + np.int64(16), at + np.int64(24), other)
        at += np.int64(32)
    if size >= 32:
        hashed = stir(hashed, other)
    if at + 16 <= end:
        hashed = _folded(data, at, at + np.int64(8), hashed)
        at += np.int64(16)
    return hashed if at == end else _folded(data, end - np.int64(16), end - np.int64(8), hashed)


@kernel
def hash_texts(data: Bytes, offsets: Offsets, nulls: Bytes, hashes: Ints) -> Int:
    """Adds a column of texts or bytes to the hashes.

    Args:
        data: The bytes of all values.
        offsets: One more than rows: where each value begins.
        nulls: Per row whether it is NULL; empty if no row is.
        hashes: One per row; changed.

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
        elif width == 4:
            hashes[i] = stir(hashes[i], load_u32(data, i * np.int64(4)))
        else:
            hashes[i] = bytes_hash(data, i * width, width, hashes[i])
    return np.int64(-1)
