"""The texts of tokens that differ only in some numbers: packed bytes and their CRC32, in base64.
Not here: which values are packed (`streams/token_texts.py`), the form of a text (`position/token_text.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.crc import crc32
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import copy_bytes, load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, CrcRows, Int, IntRows, Ints

_CRC_BYTES = 4


@part
def width_of(number: Int) -> Int:
    """Bytes in which MessagePack writes a number >= 0, without its head; a number below 128 has no head."""
    if number < 1 << 8:
        return np.int64(1)
    if number < 1 << 16:
        return np.int64(2)
    return np.int64(4) if number < 1 << 32 else np.int64(8)


@part
def head_of(number: Int) -> Int:
    """The head: the byte before a number; 0 if there is none."""
    if number < 1 << 7:
        return np.int64(0)
    if number < 1 << 8:
        return np.int64(0xCC)
    if number < 1 << 16:
        return np.int64(0xCD)
    return np.int64(0xCE) if number < 1 << 32 else np.int64(0xCF)


@part
def put_letters(row: Bytes, begin: Int, end: Int, letters: Bytes, text: Bytes, front: Int) -> None:
    """Writes the groups of three bytes that have the bytes `begin` to `end`, as four letters per group."""
    for group in range(begin // 3, (end + 2) // 3):
        at, to = 3 * group, front + 4 * group
        bits = load_u8(row, at) << 16 | load_u8(row, at + 1) << 8 | load_u8(row, at + 2)
        text[to] = load_u8(letters, bits >> 18)
        text[to + 1] = load_u8(letters, bits >> 12 & 63)
        text[to + 2] = load_u8(letters, bits >> 6 & 63)
        text[to + 3] = load_u8(letters, bits & 63)


@kernel
def lay_out(alike: Bytes, borders: Ints, numbers: IntRows, i: Int, row: Bytes, spots: Ints) -> Int:
    """Writes the common bytes and the heads of the numbers of one text to its row; returns the row's size.

    Args:
        alike: The bytes that are the same in all texts, one after the other.
        borders: Where in `alike` the bytes before each number begin, where those after the last number begin, and where
            they end.
        numbers: A row for each number, with an entry for each text.
        i: Number of the text.
        row: Written from the position after the CRC on, with zeros up to a whole group of three bytes.
        spots: Where the bytes of each number end.
    """
    to = np.int64(_CRC_BYTES)
    for j in range(numbers.shape[0] + 1):
        copy_bytes(alike, borders[j], row, to, borders[j + 1] - borders[j])
        to += borders[j + 1] - borders[j]
        if j < numbers.shape[0]:
            head = head_of(numbers[j, i])
            if head:
                row[to] = head
                to += np.int64(1)
            to += width_of(numbers[j, i])
            spots[j] = to
    row[to] = 0
    row[to + 1] = 0
    return to


@kernel
def seal_texts(
    tables: CrcRows,
    letters: Bytes,
    pattern: tuple[Int, Bytes, Ints, Bytes],
    numbers: IntRows,
    scratch: tuple[Bytes, Bytes, Ints],
    out: Bytes,
    starts: Ints,
    crcs: Ints,
) -> Int:
    """Writes some texts; each is made from the text before, of which only the differences are written again.

    Args:
        tables: `CRC_TABLES`.
        letters: The letters of base64.
        pattern: The number of bytes before the base64 in each text; `alike` and `borders` of `lay_out`; the bytes after
            the base64.
        numbers: As for `lay_out`.
        scratch: Space for the packed bytes, with their CRC and two more bytes; space for a text, which already has the
            bytes before the base64; space for a position for each number.
        out: Gets the texts.
        starts: Gets the positions where each text begins, and where the last one ends.
        crcs: Gets the CRC32 of the packed bytes of each text.

    Returns:
        -1, or the number of the text that does not fit.
    """
    front, alike, borders, end = pattern
    row, text, spots = scratch
    size = used = np.int64(0)
    to = np.int64(0)
    for i in range(numbers.shape[1]):
        is_new = i == 0
        for j in range(numbers.shape[0]):
            is_new = is_new or head_of(numbers[j, i]) != head_of(numbers[j, i - 1])
        if is_new:
            size = lay_out(alike, borders, numbers, i, row, spots)
            used = front + (4 * size + 2) // 3
        for j in range(numbers.shape[0]):
            at = last = spots[j]
            # From the last byte backwards, up to the first byte that differs from the text before.
            begin = last - width_of(numbers[j, i])
            number, other = numbers[j, i], np.int64(0) if is_new else numbers[j, i - 1]
            while at > begin and (is_new or number != other):
                at -= np.int64(1)
                row[at] = number & 255
                number >>= np.int64(8)
                other >>= np.int64(8)
            if not is_new and at < last:
                put_letters(row, at, last, letters, text, front)
        crc = crc32(tables, row, _CRC_BYTES, size, 0)
        crcs[i] = crc
        for k in range(_CRC_BYTES):
            row[k] = crc >> (24 - 8 * k) & 255
        put_letters(row, np.int64(0), size if is_new else np.int64(_CRC_BYTES), letters, text, front)
        starts[i] = to
        if to + used + end.shape[0] > out.shape[0]:
            return np.int64(i)
        copy_bytes(text, np.int64(0), out, to, used)
        copy_bytes(end, np.int64(0), out, to + used, np.int64(end.shape[0]))
        to += used + end.shape[0]
    starts[numbers.shape[1]] = to
    return np.int64(-1)
