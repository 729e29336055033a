"""Texts of UUID, INET4 and INET6 of MariaDB, as it prints them.
Not here: their bytes in row images, which are those of a BINARY (`strings.py`).

The values lie one after the other; `sizes` has the offset of each row's value, and NULL has no bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Offsets

UUID_BYTES: Final = 36
"""Bytes of a UUID's text."""
INET4_BYTES: Final = 15
INET6_BYTES: Final = 39
"""Bytes of the longest texts of addresses."""
_COLON: Final = 58
_WORDS: Final = 8
"""Numbers of 16 bits in an INET6."""


@part
def _write_digit(value: Int, out: Bytes, to: Int) -> None:
    """Writes a hexadecimal digit in lower case."""
    out[to] = value + np.int64(48 if value < 10 else 87)


@kernel
def uuid_texts(data: Bytes, sizes: Offsets, offsets: Offsets, out: Bytes) -> Int:
    """UUIDs of 16 bytes; returns the bytes of all texts."""
    to = np.int64(0)
    offsets[0] = 0
    for i in range(sizes.shape[0] - 1):
        if sizes[i + 1] > sizes[i]:
            for k in range(16):
                if k in (4, 6, 8, 10):
                    out[to] = ord("-")
                    to += 1
                byte = load_u8(data, sizes[i] + k)
                _write_digit(byte >> 4, out, to)
                _write_digit(byte & 15, out, to + 1)
                to += 2
        offsets[i + 1] = to
    return to


@part
def _write_inet4(data: Bytes, at: Int, out: Bytes, to: Int) -> Int:
    """Writes the four bytes at `at` as numbers with dots; returns the position after them."""
    for k in range(4):
        byte = load_u8(data, at + k)
        if k > 0:
            out[to] = ord(".")
            to += 1
        if byte >= 100:
            out[to] = 48 + byte // 100
            to += 1
        if byte >= 10:
            out[to] = 48 + byte // 10 % 10
            to += 1
        out[to] = 48 + byte % 10
        to += 1
    return to


@kernel
def inet4_texts(data: Bytes, sizes: Offsets, offsets: Offsets, out: Bytes) -> Int:
    """Addresses of 4 bytes; returns the bytes of all texts."""
    to = np.int64(0)
    offsets[0] = 0
    for i in range(sizes.shape[0] - 1):
        if sizes[i + 1] > sizes[i]:
            to = _write_inet4(data, np.int64(sizes[i]), out, to)
        offsets[i + 1] = to
    return to


@part
def _word(data: Bytes, at: Int, number: Int) -> Int:
    """The number of 16 bits with this ordinal."""
    return load_u8(data, at + 2 * number) << 8 | load_u8(data, at + 2 * number + 1)


@part
def _longest_gap(data: Bytes, at: Int) -> tuple[Int, Int]:
    """Ordinal and length of the first of the longest runs of zeros, however short; -1 and 0 if no number is zero."""
    first, length, run = np.int64(-1), np.int64(0), np.int64(0)
    for number in range(_WORDS):
        run = run + 1 if _word(data, at, number) == 0 else np.int64(0)
        if run > length:
            first, length = number - run + 1, run
    return first, length


@part
def _write_word(word: Int, out: Bytes, to: Int) -> Int:
    """Writes a number in hexadecimal digits without leading zeros; returns the position after it."""
    for shift in (12, 8, 4, 0):
        if shift == 0 or word >> shift != 0:
            _write_digit(word >> shift & 15, out, to)
            to += 1
    return to


@part
def _write_inet6(data: Bytes, at: Int, out: Bytes, to: Int) -> Int:
    """Writes the address at `at` (plugin/type_inet/sql_type_inet.cc, `Inet6::to_string`); returns the position after
    it."""
    gap, length = _longest_gap(data, at)
    number = np.int64(0)
    while number < _WORDS:
        if number == gap:
            if number == 0:
                out[to] = _COLON
                to += 1
            out[to] = _COLON
            to += 1
            number += length
        elif number == 6 and gap == 0 and (length == 6 or (length == 5 and _word(data, at, 5) == 0xFFFF)):
            return _write_inet4(data, at + 12, out, to)
        else:
            to = _write_word(_word(data, at, number), out, to)
            number += 1
            if number < _WORDS:
                out[to] = _COLON
                to += 1
    return to


@kernel
def inet6_texts(data: Bytes, sizes: Offsets, offsets: Offsets, out: Bytes) -> Int:
    """Addresses of 16 bytes; returns the bytes of all texts."""
    to = np.int64(0)
    offsets[0] = 0
    for i in range(sizes.shape[0] - 1):
        if sizes[i + 1] > sizes[i]:
            to = _write_inet6(data, np.int64(sizes[i]), out, to)
        offsets[i + 1] = to
    return to
