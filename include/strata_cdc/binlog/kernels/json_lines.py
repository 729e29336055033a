"""Joins texts to lines of JSON: a line is a row of texts, each identified by its number among the texts of its part.
Not here: which texts (`changes/json_columns.py`, `changes/lines.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import bytes_at, copy_bytes, ints_at, load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, IntRows, Ints

SAME, OWN, CHOSEN = 0, 1, 2
"""Which text of a part a line has: the first, the text with the line's number, or the text that is chosen for it."""
DATA, DATA_BYTES, STARTS, TEXTS, WAY, CHOSEN_TEXTS, LINES, ABSENT, ABSENT_TEXTS = range(9)
"""The fields of a part of lines: the address and the size of its bytes; the address of the positions where each text
begins and the last text ends, and the number of texts; one of the ways above; the address of the numbers of the chosen
texts, and the number of lines; the address of a mask of the texts that are not written, and its size."""
FIRST_PART, END_PART, FIRST_LINE, END_LINE = range(4)
"""The fields of a group of lines."""
_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32
_SHORT = 16
"""For a text of at most this many bytes, this many bytes are copied if the line has space for them."""


@part
def escape_of(byte: Int) -> Int:
    """The character after the backslash, for a byte that has a short escape; 0 if it has none."""
    if byte in (_QUOTE, _BACKSLASH):
        return np.int64(byte)
    if byte == 8:
        return np.int64(98)
    if byte == 9:
        return np.int64(116)
    if byte == 10:
        return np.int64(110)
    if byte == 12:
        return np.int64(102)
    return np.int64(114) if byte == 13 else np.int64(0)


@kernel
def escaped_sizes(data: Bytes, offsets: Ints, sizes: Ints) -> None:
    """The number of bytes of each text in JSON, without its quotes (RFC 8259, 7)."""
    for i in range(sizes.shape[0]):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        special = np.int64(0)
        # Mostly there is no escape: this loop has no branch, and becomes vector instructions.
        for k in range(begin, end):
            byte = load_u8(data, k)
            special += np.int64((byte < _SPACE) | (byte == _QUOTE) | (byte == _BACKSLASH))
        size = end - begin
        if special > 0:
            for k in range(begin, end):
                byte = load_u8(data, k)
                if byte < _SPACE or byte in (_QUOTE, _BACKSLASH):
                    size += 1 if escape_of(byte) else 5
        sizes[i] = size


@part
def put_escaped(data: Bytes, begin: Int, end: Int, out: Bytes, to: Int) -> Int:
    """Writes a text with its escapes; returns the position after it."""
    for k in range(begin, end):
        byte = load_u8(data, k)
        if byte >= _SPACE and byte not in (_QUOTE, _BACKSLASH):
            out[to] = byte
            to += np.int64(1)
            continue
        out[to] = _BACKSLASH
        short = escape_of(byte)
        if short:
            out[to + 1] = short
            to += np.int64(2)
            continue
        out[to + 1] = 117  # u
        out[to + 2] = 48
        out[to + 3] = 48
        out[to + 4] = 48 + (byte >> 4)
        low = byte & 15
        out[to + 5] = 48 + low if low < 10 else 87 + low
        to += np.int64(6)
    return to


@kernel
def escaped_texts(data: Bytes, offsets: Ints, starts: Ints, out: Bytes) -> Int:
    """Each text with its escapes; `starts` has the positions of the texts and their end, as the caller has counted.

    Returns -1, or the number of the text that does not fit.
    """
    for i in range(offsets.shape[0] - 1):
        begin, end, size = offsets[i], offsets[i + 1], starts[i + 1] - starts[i]
        if starts[i] < 0 or starts[i + 1] > out.shape[0] or size < end - begin:
            return np.int64(i)
        if size == end - begin:
            copy_bytes(data, begin, out, starts[i], size)
        else:
            put_escaped(data, begin, end, out, starts[i])
    return np.int64(-1)


@part
def text_of(way: Int, texts: Int, chosen: Ints, i: Int) -> Int:
    """The number of the text of a part that line `i` has; -1 if there is none."""
    text: Int = np.int64(0)
    if way == OWN:
        text = np.int64(i)
    elif way == CHOSEN:
        text = chosen[i] if i < chosen.shape[0] else np.int64(-1)
    return text if 0 <= text < texts else np.int64(-1)


@kernel
def count_lines(parts: IntRows, groups: IntRows, counts: Ints) -> Int:
    """Adds the sizes of the parts of lines to the size of each line.

    Args:
        parts: The parts of all lines, group by group.
        groups: A group has lines with the same parts. For each group: its first part and the part after its last one,
            its first line and the line after its last one.
        counts: Bytes of each line.

    Returns:
        -1, or the number of the part that has no text for a line.
    """
    for g in range(groups.shape[0]):
        first, end = groups[g, FIRST_LINE], groups[g, END_LINE]
        for p in range(groups[g, FIRST_PART], groups[g, END_PART]):
            way, texts = parts[p, WAY], parts[p, TEXTS]
            starts, chosen = ints_at(parts[p, STARTS], texts + 1), ints_at(parts[p, CHOSEN_TEXTS], parts[p, LINES])
            absent = bytes_at(parts[p, ABSENT], parts[p, ABSENT_TEXTS])
            for i in range(end - first):
                text = text_of(way, texts, chosen, np.int64(i))
                if text < 0:
                    return np.int64(p)
                if text >= absent.shape[0] or not absent[text]:
                    counts[first + i] += starts[text + 1] - starts[text]
    return np.int64(-1)


@kernel
def put_lines(
    parts: IntRows, groups: IntRows, borders: IntRows, front: Int, places: Ints, ends: Ints, out: Bytes
) -> Int:
    """Writes some lines, part by part for the lines of a group: a part mostly has the same size in all lines.

    Args:
        parts: As `count_lines` takes them.
        groups: As `count_lines` takes them.
        borders: The lines that are written, in chunks of the output that stay in the processor's cache: one row per
            border of two chunks, with the first line after the border in each group.
        front: How many bytes are before the output.
        places: Where each line begins; changed to its end.
        ends: Where each line ends.
        out: Where the lines go.

    Returns:
        -1, or the number of the line whose parts do not have its size.
    """
    for piece in range(borders.shape[0] - 1):
        for g in range(groups.shape[0]):
            failed = put_some(parts, groups[g], borders[piece, g], borders[piece + 1, g], front, places, ends, out)
            if failed >= 0:
                return failed
    return np.int64(-1)


@part
def put_some(
    parts: IntRows, group: Ints, begin: Int, end: Int, front: Int, places: Ints, ends: Ints, out: Bytes
) -> Int:
    """Writes the lines `begin` to before `end` of one group."""
    room, lines = np.int64(out.shape[0]), np.int64(min(places.shape[0], ends.shape[0]))
    if begin < group[FIRST_LINE] or end > group[END_LINE] or begin < 0 or end > lines:
        return np.int64(max(begin, 0))
    for p in range(group[FIRST_PART], group[END_PART]):
        # In local names: else the compiler must assume that each write may change the table.
        way, texts, known = parts[p, WAY], parts[p, TEXTS], parts[p, DATA_BYTES]
        data, starts = bytes_at(parts[p, DATA], known), ints_at(parts[p, STARTS], texts + 1)
        chosen = ints_at(parts[p, CHOSEN_TEXTS], parts[p, LINES])
        absent = bytes_at(parts[p, ABSENT], parts[p, ABSENT_TEXTS])
        first = group[FIRST_LINE]
        for i in range(begin, end):
            text = text_of(way, texts, chosen, np.int64(i) - first)
            if text < 0:
                return np.int64(i)
            if text < absent.shape[0] and absent[text]:
                continue
            at, to, behind = starts[text], places[i] - front, ends[i] - front
            size = starts[text + 1] - at
            if at < 0 or size < 0 or at + size > known or to < 0 or to + size > behind or behind > room:
                return np.int64(i)
            if size <= _SHORT and at + _SHORT <= known and to + _SHORT <= behind:
                # Two moves and no call: the next part of the line overwrites the surplus bytes.
                copy_bytes(data, at, out, to, np.int64(_SHORT))
            else:
                copy_bytes(data, at, out, to, size)
            places[i] += size
    for i in range(begin, end):
        if places[i] != ends[i]:
            return np.int64(i)
    return np.int64(-1)


@part
def letter(value: Int) -> Int:
    """The character of six bits (RFC 4648, 4)."""
    if value < 26:
        return np.int64(65 + value)
    if value < 52:
        return np.int64(71 + value)
    if value < 62:
        return np.int64(value - 4)
    return np.int64(43) if value == 62 else np.int64(47)


@kernel
def base64_texts(data: Bytes, offsets: Ints, ends: Ints, out: Bytes) -> Int:
    """Bytes in base64 with padding; `ends` has the texts' offsets, as the caller has counted."""
    for i in range(offsets.shape[0] - 1):
        at, end, to = np.int64(offsets[i]), np.int64(offsets[i + 1]), np.int64(ends[i])
        if to + (end - at + 2) // 3 * 4 > out.shape[0]:
            return np.int64(i)
        while at < end:
            left = end - at
            group = load_u8(data, at) << np.int64(16)
            if left > 1:
                group |= load_u8(data, at + 1) << np.int64(8)
            if left > 2:
                group |= load_u8(data, at + 2)
            out[to] = letter(group >> 18)
            out[to + 1] = letter(group >> 12 & 63)
            out[to + 2] = letter(group >> 6 & 63) if left > 1 else np.int64(61)
            out[to + 3] = letter(group & 63) if left > 2 else np.int64(61)
            at += np.int64(3)
            to += np.int64(4)
    return np.int64(-1)
