"""Reads the headers of consecutive events.
Not here: what is in the events (`binlog/events/`), packets of the replication protocol (`packets.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.memory import load_i64, load_u16, load_u32
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL, TRUNCATED

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Flags, Int, Ints

HEADER_BYTES = 19
"""Binlog v4: timestamp 4, type 1, server id 4, length 4, end position 4, flags 2 (libs/mysql/binlog/event)."""


@kernel
def read_u16(buffer: Bytes, at: Int) -> Int:
    """Little-endian; the caller has checked that 2 bytes are there."""
    return load_u16(buffer, at)


@kernel
def read_u32(buffer: Bytes, at: Int) -> Int:
    """Little-endian; the caller has checked that 4 bytes are there."""
    return load_u32(buffer, at)


@kernel
def read_u48(buffer: Bytes, at: Int) -> Int:
    """Little-endian; the caller has checked that 6 bytes are there."""
    return load_u32(buffer, at) | (load_u16(buffer, at + 4) << 32)


@kernel
def read_i64(buffer: Bytes, at: Int) -> Int:
    """Little-endian, the top bit as a sign; the caller has checked that 8 bytes are there."""
    return load_i64(buffer, at)


@kernel
def scan_events(  # noqa: PLR0913, PLR0917 - a struct of arrays has no other form in a kernel
    buffer: Bytes,
    begin: Int,
    end: Int,
    least: Int,
    positions: Ints,
    lengths: Ints,
    types: Bytes,
    timestamps: Ints,
    log_positions: Ints,
    flags: Flags,
) -> tuple[Int, Int, Int]:
    """Fills the arrays, one entry per event, from byte `begin` to `end` of `buffer`.

    Args:
        buffer: The bytes of a file, or of an inflated payload.
        begin: Where a header starts.
        end: Nothing is read from here on.
        least: The size of the shortest possible event: a header, and a checksum if the file has them.
        positions: Where each event starts in `buffer`.
        lengths: Bytes of each event, header and checksum included.
        types: Type code of each.
        timestamps: Seconds since 1970 UTC of each.
        log_positions: Where the server's file continues after each, modulo 2**32.
        flags: Flags of each.

    Returns:
        Status (DONE, FULL, TRUNCATED or CORRUPT), the number of events, and where the next event starts.
    """
    at = np.int64(begin)
    count = np.int64(0)
    while at < end:
        if count == len(positions):
            return FULL, count, at
        if end - at < HEADER_BYTES:
            return TRUNCATED, count, at
        length = read_u32(buffer, at + 9)
        if length < least:
            return CORRUPT, count, at
        if length > end - at:
            return TRUNCATED, count, at
        positions[count] = at
        lengths[count] = length
        types[count] = buffer[at + 4]
        timestamps[count] = read_u32(buffer, at)
        log_positions[count] = read_u32(buffer, at + 13)
        flags[count] = read_u16(buffer, at + 17)
        count += 1
        at += length
    return DONE, count, at


@kernel
def find_event(buffer: Bytes, begin: Int, end: Int, least: Int, wanted: Bytes) -> Int:
    """Where the first event of some types starts, from byte `begin` on.

    Args:
        buffer: The bytes of a file.
        begin: Where a header starts.
        end: Nothing is read from here on.
        least: As for `scan_events`.
        wanted: For each type code, whether it is one of them; 256 bytes.

    Returns:
        Its offset; if there is none, where the last whole event before `end` ends.
    """
    at = np.int64(begin)
    if wanted.shape[0] != 256:
        return at
    while end - at >= HEADER_BYTES and wanted[buffer[at + 4]] == 0:
        length = read_u32(buffer, at + 9)
        if length < least or length > end - at:
            return at
        at += length
    return at
