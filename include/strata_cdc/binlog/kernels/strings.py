"""Copies cells of text and bytes to Arrow buffers: first the offsets, then the bytes.
Not here: text in another charset than UTF-8 (`charsets.py`), JSON (`jsonb.py`).

A length before a cell has `prefix` bytes. Offsets are 32 bits wide: the caller bounds a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.memory import copy_bytes, load_i64, load_u8
from strata_cdc.binlog.kernels.numbers import little_endian

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, Ints, Offsets


@kernel
def string_offsets(buf: Bytes, base: Int, cells: Cells, prefix: Int, skip: Int, offsets: Offsets) -> Int:
    """Where each value starts in the data, without its first `skip` bytes; each value has at least so many.

    Returns:
        The length of the data.
    """
    total = np.int64(0)
    offsets[0] = 0
    for i in range(cells.shape[0]):
        if cells[i] > ABSENT_CELL:
            total += little_endian(buf, base + np.int64(cells[i]), prefix) - skip
        offsets[i + 1] = total
    return total


@kernel
def copy_strings(buf: Bytes, base: Int, cells: Cells, prefix: Int, skip: Int, offsets: Offsets, out: Bytes) -> None:
    """The bytes between the offsets that `string_offsets` has found."""
    for i in range(cells.shape[0]):
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i]) + prefix + skip
            to = np.int64(offsets[i])
            copy_bytes(buf, at, out, to, np.int64(offsets[i + 1]) - to)


@kernel
def copy_padded(
    buf: Bytes, base: Int, cells: Cells, prefix: Int, width: Int, offsets: Offsets, out: Bytes, bad: Bytes
) -> Int:
    """BINARY(width): the log does not have the trailing zeros that the value has.

    Values that are longer than `width` are marked in `bad`, and are empty.

    Returns:
        The number of marked values.
    """
    to, wrong = np.int64(0), np.int64(0)
    offsets[0] = 0
    for i in range(cells.shape[0]):
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            size = little_endian(buf, at, prefix)
            if size > width:
                bad[i] = 1
                wrong += 1
            else:
                copy_bytes(buf, at + prefix, out, to, size)
                for k in range(size, width):
                    out[to + k] = 0
                to += width
        offsets[i + 1] = to
    return wrong


@kernel
def all_ascii(data: Bytes) -> Int:
    """Whether no byte has its top bit set."""
    seen, size = np.int64(0), data.shape[0]
    for i in range(size >> 3):
        seen |= load_i64(data, i << 3)
    for i in range(size & ~7, size):
        seen |= load_u8(data, i)
    return seen & -0x7F7F7F7F7F7F7F80 == 0


@part
def _second_byte(first: Int) -> tuple[Int, Int]:
    """The lowest and the highest second byte that may follow a first byte."""
    if first == 0xE0:
        return np.int64(0xA0), np.int64(0xBF)
    if first == 0xED:
        return np.int64(0x80), np.int64(0x9F)
    if first == 0xF0:
        return np.int64(0x90), np.int64(0xBF)
    if first == 0xF4:
        return np.int64(0x80), np.int64(0x8F)
    return np.int64(0x80), np.int64(0xBF)


@kernel
def utf8_length(data: Bytes, at: Int, end: Int) -> Int:
    """Bytes of the well-formed character at `at` (Unicode 15, table 3-7); 0 if there is none before `end`."""
    first = np.int64(data[at])
    if first < 0x80:
        return np.int64(1)
    if 0xC2 <= first <= 0xDF:
        size = np.int64(2)
    elif 0xE0 <= first <= 0xEF:
        size = np.int64(3)
    elif 0xF0 <= first <= 0xF4:
        size = np.int64(4)
    else:
        return np.int64(0)
    low, high = _second_byte(first)
    if at + size > end or np.int64(data[at + 1]) < low or np.int64(data[at + 1]) > high:
        return np.int64(0)
    for k in range(2, size):
        if (np.int64(data[at + k]) & 0xC0) != 0x80:
            return np.int64(0)
    return size


@kernel
def find_bad_utf8(data: Bytes, offsets: Offsets, bad: Bytes) -> Int:
    """Marks the values that are not well-formed UTF-8; returns their number."""
    bad_count = np.int64(0)
    for i in range(offsets.shape[0] - 1):
        at, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        while at < end:
            size = utf8_length(data, at, end)
            if size == 0:
                bad[i] = 1
                bad_count += 1
                break
            at += size
    return bad_count


@kernel
def label_offsets(values: Ints, cells: Cells, starts: Ints, offsets: Offsets, bad: Bytes) -> Int:
    """Offsets of labels by number: 0 is '', n is the n-th label, which lies between `starts[n - 1]` and `starts[n]`.

    Numbers without a label are marked in `bad` and take no bytes. Returns the length of the data.
    """
    total = np.int64(0)
    offsets[0] = 0
    labels = starts.shape[0] - 1
    for i in range(values.shape[0]):
        if cells[i] > ABSENT_CELL:
            value = values[i]
            if value < 0 or value > labels:
                bad[i] = 1
            elif value > 0:
                total += starts[value] - starts[value - 1]
        offsets[i + 1] = total
    return total


@kernel
def copy_labels(values: Ints, starts: Ints, text: Bytes, offsets: Offsets, out: Bytes) -> None:
    """The bytes between the offsets that `label_offsets` has found."""
    for i in range(values.shape[0]):
        to = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - to
        if size > 0:
            copy_bytes(text, starts[values[i] - 1], out, to, size)


@kernel
def set_offsets(values: Ints, cells: Cells, starts: Ints, offsets: Offsets, bad: Bytes) -> Int:
    """Offsets of the texts of SET values: the labels of the bits, joined by commas. Otherwise as `label_offsets`.

    An empty label has no comma after it where nothing precedes it (sql/field.cc, `Field_set::val_str`).
    """
    total = np.int64(0)
    offsets[0] = 0
    labels = starts.shape[0] - 1
    for i in range(values.shape[0]):
        if cells[i] > ABSENT_CELL:
            bits, size = values[i], np.int64(0)
            if labels < 64 and bits >> np.int64(labels) != 0:
                bad[i] = 1
                bits = np.int64(0)
            for k in range(labels):
                if (bits >> np.int64(k)) & 1:
                    size += starts[k + 1] - starts[k] + (1 if size > 0 else 0)
            total += size
        offsets[i + 1] = total
    return total


@kernel
def copy_sets(values: Ints, starts: Ints, text: Bytes, offsets: Offsets, out: Bytes) -> None:
    """The bytes between the offsets that `set_offsets` has found."""
    for i in range(values.shape[0]):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if begin == end:
            continue
        to = begin
        for k in range(starts.shape[0] - 1):
            if (values[i] >> np.int64(k)) & 1:
                if to > begin:
                    out[to] = ord(",")
                    to += 1
                size = starts[k + 1] - starts[k]
                copy_bytes(text, starts[k], out, to, size)
                to += size


@part
def write_number(value: Int, out: Bytes, to: Int) -> Int:
    """Writes a number >= 0 in decimal digits; returns the position after it."""
    digits, rest = np.int64(1), value // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for k in range(digits):
        out[to + digits - 1 - k] = ord("0") + value % 10
        value //= 10
    return to + digits


@kernel
def gtid_texts(sids: Ints, gnos: Ints, starts: Ints, text: Bytes, offsets: Offsets, out: Bytes) -> Int:
    """`UUID:NUMBER` or `UUID:TAG:NUMBER` for each row; an empty text if the source identifier is -1.

    `text` has the identifiers with their last colon. Returns the length of the data.
    """
    to = np.int64(0)
    offsets[0] = 0
    for i in range(sids.shape[0]):
        begin = to
        if i > 0 and sids[i] == sids[i - 1] and gnos[i] == gnos[i - 1]:
            before = np.int64(offsets[i - 1])
            copy_bytes(out, before, out, to, begin - before)
            to += begin - before
        elif sids[i] >= 0:
            at = starts[sids[i]]
            size = starts[sids[i] + 1] - at
            copy_bytes(text, at, out, to, size)
            to = write_number(gnos[i], out, to + size)
        offsets[i + 1] = to
    return to
