"""Where the texts of a Parquet page begin: levels of definition and lengths, unpacked (Encodings.md of parquet-format).
Not here: finding pages and decompressing them (`quality/checks/text_pages.py`).

The result is -1 if something is not well formed; nothing is read beyond the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import load_i64, load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints, Offsets

_MOST_BITS = 32
"""Bits of a delta between lengths; lengths are signed numbers of 32 bits."""
_MOST_BLOCK = 1 << 20


@part
def varint_end(page: Bytes, at: Int, end: Int) -> Int:
    """Position after the number (ULEB128) at `at`, of at most nine bytes; -1 if there is none."""
    for k in range(9):
        if at < 0 or at + k >= end:
            return np.int64(-1)
        if load_u8(page, at + k) < 128:
            return at + np.int64(k + 1)
    return np.int64(-1)


@part
def varint_value(page: Bytes, at: Int, end: Int) -> Int:
    """The number from `at` to `end`; 0 if there are no bytes."""
    value = np.int64(0)
    for k in range(end - at):
        value |= (load_u8(page, at + k) & np.int64(127)) << np.int64(7 * k)
    return value


@part
def unzigzag(value: Int) -> Int:
    """The signed number that an unsigned number represents (zigzag)."""
    return (value >> np.int64(1)) ^ -(value & np.int64(1))


@part
def word_before(page: Bytes, at: Int) -> Int:
    """Eight bytes from `at` on; bytes after the page are zero."""
    size = np.int64(page.shape[0])
    if at + 8 <= size:
        return load_i64(page, at)
    word = np.int64(0)
    for k in range(size - at):
        word |= load_u8(page, at + k) << np.int64(8 * k)
    return word


@kernel
def known_rows(page: Bytes, begin: Int, end: Int, known: Bytes) -> Int:
    """Unpacks levels of definition, 0 or 1, from runs and groups of eight.

    Args:
        page: The page.
        begin: Where the levels begin in it.
        end: Where they end.
        known: One per row; changed: 1 if the row has a value.

    Returns:
        The number of rows with a value; -1 if these are not such levels.
    """
    at, row, rows, values = begin, np.int64(0), np.int64(known.shape[0]), np.int64(0)
    if begin < 0 or end > page.shape[0]:
        return np.int64(-1)
    while row < rows:
        behind = varint_end(page, at, end)
        header = varint_value(page, at, behind)
        count = header >> np.int64(1)
        is_packed = (header & np.int64(1)) == 1
        size = count if is_packed else np.int64(1)
        if behind < 0 or count < 1 or count > rows or size > end - behind:
            return np.int64(-1)
        for k in range(min(rows - row, count * np.int64(8) if is_packed else count)):
            level = load_u8(page, behind + (k >> 3)) >> np.int64(k & 7) & 1 if is_packed else load_u8(page, behind)
            if level > 1:
                return np.int64(-1)
            known[row] = np.uint8(level)
            values += np.int64(level)
            row += np.int64(1)
        at = behind + size
    return values


@part
def unpack_some(page: Bytes, at: Int, width: Int, least: Int, lengths: Ints, done: Int, most: Int) -> Int:
    """Unpacks a miniblock after `done` lengths (at least one); returns the new number of lengths."""
    value, mask = lengths[done - 1], (np.int64(1) << width) - np.int64(1)
    count = min(most, np.int64(lengths.shape[0]) - done)
    for k in range(count):
        bit = np.int64(k) * width
        word = (word_before(page, at + (bit >> np.int64(3))) >> (bit & np.int64(7))) & mask if width else np.int64(0)
        value += least + word
        lengths[done + k] = value
    return done + count


@part
def unpack_block(page: Bytes, at: Int, lengths: Ints, done: Int, minis: Int, each: Int) -> tuple[Int, Int]:
    """Unpacks a block; returns where the next block begins, or -1, and the new number of lengths."""
    size = np.int64(page.shape[0])
    widths = varint_end(page, at, size)
    if widths < 0 or widths + minis > size:
        return np.int64(-1), done
    least = unzigzag(varint_value(page, at, widths))
    at = widths + minis
    for mini in range(minis):
        if done == lengths.shape[0]:
            break
        width = load_u8(page, widths + mini)
        if width > _MOST_BITS or at + each * width // 8 > size:
            return np.int64(-1), done
        done = unpack_some(page, at, width, least, lengths, done, each)
        at += each * width // np.int64(8)
    return at, done


@kernel
def unpack_lengths(page: Bytes, begin: Int, lengths: Ints) -> Int:
    """Unpacks lengths (DELTA_BINARY_PACKED) until `lengths` is full.

    Args:
        page: The page.
        begin: Where they begin in it.
        lengths: Changed; the results may be below zero.

    Returns:
        Where they end; -1 if there are fewer, or they are not such numbers.
    """
    size, count = np.int64(page.shape[0]), np.int64(lengths.shape[0])
    block_end = varint_end(page, begin, size)
    minis_end = varint_end(page, block_end, size)
    count_end = varint_end(page, minis_end, size)
    at = varint_end(page, count_end, size)
    if at < 0:
        return np.int64(-1)
    block, minis = varint_value(page, begin, block_end), varint_value(page, block_end, minis_end)
    if (
        not 0 < minis <= block <= _MOST_BLOCK
        or block % (minis * 32)
        or varint_value(page, minis_end, count_end) != count
    ):
        return np.int64(-1)
    done = np.int64(0)
    if count:
        lengths[0] = unzigzag(varint_value(page, count_end, at))
        done = np.int64(1)
    while at >= 0 and done < count:
        at, done = unpack_block(page, at, lengths, done, minis, block // minis)
    return at


@kernel
def place_texts(lengths: Ints, known: Bytes, offsets: Offsets) -> Int:
    """Where each text begins among the bytes of all of them.

    Args:
        lengths: Lengths of the existing texts.
        known: One per row: 1 if the row has a text; empty if all rows have one.
        offsets: One more than rows; changed.

    Returns:
        Where the last text ends; -1 if the number of lengths is not that of the rows with a text, if a length is below
        zero, or if their sum is too large.
    """
    end, met, count = np.int64(0), np.int64(0), np.int64(lengths.shape[0])
    rows = np.int64(offsets.shape[0]) - 1
    if rows < 0 or (known.shape[0] != 0 and known.shape[0] != rows):
        return np.int64(-1)
    offsets[0] = 0
    for i in range(rows):
        if known.shape[0] == 0 or known[i]:
            if met >= count or lengths[met] < 0 or lengths[met] > 0x7FFFFFFF - end:
                return np.int64(-1)
            end += lengths[met]
            met += np.int64(1)
        offsets[i + 1] = end
    return end if met == count else np.int64(-1)
