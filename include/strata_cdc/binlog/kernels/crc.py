"""CRC32 of events: 64 bytes per step if the processor multiplies without carries, else 16.
Not here: which events have a CRC32 (`binlog/bytes/frames.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.carryless import HAS_CARRYLESS, carryless
from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.memory import load_i64
from strata_cdc.binlog.kernels.scan import read_u32
from strata_cdc.binlog.kernels.status import BAD_CHECKSUM, DONE

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, CrcRows, Int, Ints, Word

_POLYNOMIAL = 0xEDB88320
"""IEEE 802.3, reflected: the CRC32 of zlib, which MySQL writes."""

_FORMAT_DESCRIPTION = 15
_IN_USE = 1


def _tables() -> CrcRows:
    """Sixteen tables of 256: entry [k, b] is the CRC of byte b followed by k zero bytes ("slicing by 16")."""
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for k in range(1, 16):
        before = tables[k - 1]
        tables[k] = (before >> np.uint32(8)) ^ tables[0][before & np.uint32(255)]
    return tables


CRC_TABLES = _tables()
"""An argument of the kernels: a global array would be copied into each of them as a constant."""


# x**n mod the polynomial, reflected, for a step of 64 bytes and one of 16 (Gopal et al., "Fast CRC Computation for
# Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009).
_STEP_64 = (0x154442BD4, 0x1C6E41596)
_STEP_16 = (0x1751997D0, 0x0CCAA009E)


@kernel
def _load_word(buffer: Bytes, at: Int) -> Word:
    return np.uint64(load_i64(buffer, at))


@kernel
def _shift(low: Word, high: Word, factors: tuple[int, int], next_low: Word, next_high: Word) -> tuple[Word, Word]:
    """The remainder of 16 bytes, moved over a step and combined with the bytes that are there."""
    a, b = carryless(low, np.uint64(factors[0]))
    c, d = carryless(high, np.uint64(factors[1]))
    return a ^ c ^ next_low, b ^ d ^ next_high


@kernel
def _fold(buffer: Bytes, begin: Int, end: Int, crc: Word) -> tuple[Int, Word, Word]:
    """Where the whole blocks of 16 bytes end, and two words with the same CRC; there must be at least 64 bytes."""
    a, b = _load_word(buffer, begin) ^ np.uint64(crc), _load_word(buffer, begin + 8)
    c, d = _load_word(buffer, begin + 16), _load_word(buffer, begin + 24)
    e, f = _load_word(buffer, begin + 32), _load_word(buffer, begin + 40)
    g, h = _load_word(buffer, begin + 48), _load_word(buffer, begin + 56)
    at = begin + 64
    while end - at >= 64:
        a, b = _shift(a, b, _STEP_64, _load_word(buffer, at), _load_word(buffer, at + 8))
        c, d = _shift(c, d, _STEP_64, _load_word(buffer, at + 16), _load_word(buffer, at + 24))
        e, f = _shift(e, f, _STEP_64, _load_word(buffer, at + 32), _load_word(buffer, at + 40))
        g, h = _shift(g, h, _STEP_64, _load_word(buffer, at + 48), _load_word(buffer, at + 56))
        at += 64
    a, b = _shift(a, b, _STEP_16, c, d)
    a, b = _shift(a, b, _STEP_16, e, f)
    a, b = _shift(a, b, _STEP_16, g, h)
    while end - at >= 16:
        a, b = _shift(a, b, _STEP_16, _load_word(buffer, at), _load_word(buffer, at + 8))
        at += 16
    return at, a, b


@kernel
def _step(tables: CrcRows, low: Word, high: Word) -> Word:
    """The register after 16 bytes, to which the register before them has been added."""
    byte = np.uint64(255)
    crc = np.uint32(0)
    for k in range(8):
        crc ^= tables[15 - k, (low >> np.uint64(8 * k)) & byte] ^ tables[7 - k, (high >> np.uint64(8 * k)) & byte]
    return crc


@kernel
def crc32(tables: CrcRows, buffer: Bytes, begin: Int, end: Int, start: Int) -> Int:
    """The CRC32 of bytes `begin` to `end`, continued from the CRC32 `start` (0 for none)."""
    crc = np.uint32(start) ^ np.uint32(0xFFFFFFFF)
    at = begin
    if HAS_CARRYLESS and end - at >= 64:
        at, low, high = _fold(buffer, at, end, np.uint64(crc))
        crc = _step(tables, low, high)
    while end - at >= 16:
        crc = _step(tables, _load_word(buffer, at) ^ np.uint64(crc), _load_word(buffer, at + 8))
        at += 16
    while end - at >= 4:
        a = np.uint32(read_u32(buffer, at)) ^ crc
        crc = (
            tables[3, a & np.uint32(255)]
            ^ tables[2, (a >> np.uint32(8)) & np.uint32(255)]
            ^ tables[1, (a >> np.uint32(16)) & np.uint32(255)]
            ^ tables[0, a >> np.uint32(24)]
        )
        at += 4
    while at < end:
        crc = (crc >> np.uint32(8)) ^ tables[0, (crc ^ np.uint32(buffer[at])) & np.uint32(255)]
        at += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))


@kernel
def verify_events(
    tables: CrcRows,
    buffer: Bytes,
    positions: Ints,
    lengths: Ints,
) -> tuple[Int, Int]:
    """Compares the last four bytes of each event with the CRC32 of the rest.

    Returns:
        DONE and the number of events, or BAD_CHECKSUM and the number of the event. The caller knows from `scan_events`
        that each event lies within the buffer and is long enough for a checksum.
    """
    for i in range(len(positions)):
        begin = positions[i]
        end = begin + lengths[i] - 4
        if buffer[begin + 4] == _FORMAT_DESCRIPTION and buffer[begin + 17] & _IN_USE:
            # The flag is cleared in place when the file is closed, so the checksum never covers it
            # (Log_event_footer::event_checksum_test).
            crc = crc32(tables, buffer, begin, begin + 17, 0)
            rest = (crc ^ 0xFFFFFFFF) & 0xFFFFFFFF
            flag = (np.int64(buffer[begin + 17]) & ~_IN_USE) ^ (rest & 0xFF)
            rest = (rest >> 8) ^ np.int64(tables[0, flag])
            crc = crc32(tables, buffer, begin + 18, end, rest ^ 0xFFFFFFFF)
        else:
            crc = crc32(tables, buffer, begin, end, 0)
        if crc != read_u32(buffer, end):
            return BAD_CHECKSUM, i
    return DONE, len(positions)
