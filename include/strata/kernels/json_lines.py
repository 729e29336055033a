"""Texts put together to lines of JSON, a column at a time: each row has a place in the output, which moves on behind
what is put there.
Not here: which texts (`rows/json_columns.py`, `streams/lines.py`).

The caller has counted the bytes of each row before; each kernel returns -1, or the row whose bytes would not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.jit import kernel, part
from strata.kernels.memory import copy_bytes, load_u8

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, Ints, Offsets

NOT_THERE, IS_NULL, IS_VALUE = 0, 1, 2
"""Whether a row has a value: nothing is put where the image is not there."""
_QUOTE, _BACKSLASH, _SPACE = 34, 92, 32
_NULL_BYTES = 4


@part
def escape_of(byte: Int) -> Int:
    """What stands behind the backslash for a byte that has a short escape; 0 if it has none."""
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
def escaped_sizes(data: Bytes, offsets: Offsets, sizes: Ints) -> None:
    """The bytes of each text as JSON has it, without its quotes (RFC 8259, 7)."""
    for i in range(sizes.shape[0]):
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        special = np.int64(0)
        # Mostly there is none: this loop has no branch, and becomes vector instructions.
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
    """Writes a text with its escapes; returns the place behind it."""
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
def count_values(key_bytes: Int, quotes: Int, sizes: Ints, there: Bytes, counts: Ints) -> None:
    """Adds to the bytes of each row those of a key and its value."""
    for i in range(counts.shape[0]):
        if there[i] == IS_VALUE:
            counts[i] += key_bytes + 2 * quotes + sizes[i]
        elif there[i] == IS_NULL:
            counts[i] += key_bytes + _NULL_BYTES


@kernel
def put_values(
    key: Bytes,
    quotes: Int,
    data: Bytes,
    offsets: Offsets,
    sizes: Ints,
    there: Bytes,
    places: Ints,
    out: Bytes,
) -> Int:
    """Puts a key and its value into each row; a text whose size is not that of its bytes has escapes."""
    width, room = np.int64(key.shape[0]), np.int64(out.shape[0])
    for i in range(places.shape[0]):
        if there[i] == NOT_THERE:
            continue
        to = places[i]
        size = sizes[i] + 2 * quotes if there[i] == IS_VALUE else np.int64(_NULL_BYTES)
        if to < 0 or to + width + size > room:
            return np.int64(i)
        copy_bytes(key, np.int64(0), out, to, width)
        to += width
        if there[i] == IS_NULL:
            out[to] = 110
            out[to + 1] = 117
            out[to + 2] = 108
            out[to + 3] = 108
            places[i] = to + _NULL_BYTES
            continue
        if quotes:
            out[to] = _QUOTE
            to += np.int64(1)
        begin, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        if sizes[i] == end - begin:
            copy_bytes(data, begin, out, to, end - begin)
            to += end - begin
        else:
            to = put_escaped(data, begin, end, out, to)
        if quotes:
            out[to] = _QUOTE
            to += np.int64(1)
        places[i] = to
    return np.int64(-1)


@kernel
def put_shared(texts: Bytes, starts: Ints, chosen: Ints, places: Ints, out: Bytes) -> Int:
    """Puts into each row one of some texts that many rows have; text k begins at `starts[k]` and ends at the next."""
    room, known = np.int64(out.shape[0]), np.int64(starts.shape[0] - 1)
    for i in range(places.shape[0]):
        at, to = chosen[i], places[i]
        if at < 0 or at >= known or to < 0 or to + starts[at + 1] - starts[at] > room:
            return np.int64(i)
        copy_bytes(texts, starts[at], out, to, starts[at + 1] - starts[at])
        places[i] = to + starts[at + 1] - starts[at]
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
def base64_texts(data: Bytes, offsets: Offsets, ends: Offsets, out: Bytes) -> Int:
    """Bytes in base64 with padding; `ends` are the texts' offsets, which the caller has counted."""
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


@part
def put_two(value: Int, out: Bytes, to: Int) -> None:
    """Two digits."""
    out[to] = 48 + value // 10
    out[to + 1] = 48 + value % 10


@kernel
def time_texts(values: Ints, digits: Int, offsets: Offsets, out: Bytes) -> Int:
    """TIMEs in microseconds as MySQL prints them, `[-]HH:MM:SS[.ffffff]`, hours up to 838.

    `out` has 17 bytes for each. Returns the length of the data.
    """
    to = np.int64(0)
    offsets[0] = 0
    for i in range(values.shape[0]):
        value = values[i]
        if value < 0:
            out[to] = 45
            to += np.int64(1)
            value = -value
        seconds, fraction = value // 1_000_000, value % 1_000_000
        hours = seconds // 3600 % 1000
        if hours >= 100:
            out[to] = 48 + hours // 100
            to += np.int64(1)
        put_two(hours % 100, out, to)
        out[to + 2] = 58
        put_two(seconds // 60 % 60, out, to + 3)
        out[to + 5] = 58
        put_two(seconds % 60, out, to + 6)
        to += np.int64(8)
        if digits > 0:
            out[to] = 46
            unit = np.int64(100_000)
            for k in range(digits):
                out[to + 1 + k] = 48 + fraction // unit % 10
                unit //= np.int64(10)
            to += np.int64(1) + digits
        offsets[i + 1] = to
    return to
