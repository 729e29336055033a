"""Copies cells of numbers to Arrow buffers.
Not here: decimals (`decimals.py`), dates and times (`temporal.py`).

`row_images.py` has found every cell, and checked that it lies in its event. NULL cells become 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.memory import load_big_u32, load_i64, load_u8, load_u16, load_u32

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, Integers, Ints, Shorts


@part
def little_endian(buf: Bytes, at: Int, size: Int) -> Int:
    """An unsigned number of `size` bytes; of eight bytes the upper half is negative."""
    if size == 1:
        return load_u8(buf, at)
    if size == 2:
        return load_u16(buf, at)
    if size == 4:
        return load_u32(buf, at)
    if size == 8:
        return load_i64(buf, at)
    value = np.int64(0)
    for k in range(size):
        value |= load_u8(buf, at + k) << np.int64(8 * k)
    return value


@part
def big_endian(buf: Bytes, at: Int, size: Int) -> Int:
    """An unsigned number of `size` bytes; of eight bytes the upper half is negative."""
    if size == 4:
        return load_big_u32(buf, at)
    if size == 5:
        return load_u8(buf, at) << 32 | load_big_u32(buf, at + 1)
    if size == 8:
        return load_big_u32(buf, at) << 32 | load_big_u32(buf, at + 4)
    value = np.int64(0)
    for k in range(size):
        value = (value << np.int64(8)) | load_u8(buf, at + k)
    return value


@kernel
def gather_1(buf: Bytes, base: Int, cells: Cells, sign: Int, out: Integers) -> None:
    """One byte; `sign` is the top bit (0x80) for signed numbers, 0 for unsigned ones; likewise for wider numbers."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = (load_u8(buf, base + np.int64(cells[i])) ^ sign) - sign
        out[i] = value


@kernel
def gather_2(buf: Bytes, base: Int, cells: Cells, sign: Int, out: Integers) -> None:
    """Two bytes."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            value = (load_u16(buf, at) ^ sign) - sign
        out[i] = value


@kernel
def gather_3(buf: Bytes, base: Int, cells: Cells, sign: Int, out: Integers) -> None:
    """Three bytes."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            value = load_u16(buf, at) | load_u8(buf, at + 2) << 16
            value = (value ^ sign) - sign
        out[i] = value


@kernel
def gather_4(buf: Bytes, base: Int, cells: Cells, sign: Int, out: Integers) -> None:
    """Four bytes; also FLOAT, as its bits."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = (load_u32(buf, base + np.int64(cells[i])) ^ sign) - sign
        out[i] = value


@kernel
def gather_8(buf: Bytes, base: Int, cells: Cells, out: Ints) -> None:
    """Eight bytes, signed or as their bits; also DOUBLE."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = load_i64(buf, base + np.int64(cells[i]))
        out[i] = value


@kernel
def gather_little_endian(buf: Bytes, base: Int, cells: Cells, size: Int, out: Ints) -> None:
    """Unsigned numbers of 1 to 8 bytes (SET as its bits)."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = little_endian(buf, base + np.int64(cells[i]), size)
        out[i] = value


@kernel
def gather_big_endian(buf: Bytes, base: Int, cells: Cells, size: Int, out: Ints) -> None:
    """Unsigned numbers of 1 to 8 bytes, the highest first (BIT)."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = big_endian(buf, base + np.int64(cells[i]), size)
        out[i] = value


@kernel
def gather_years(buf: Bytes, base: Int, cells: Cells, out: Shorts) -> None:
    """YEAR: a byte that counts from 1900; 0 is the year 0000."""
    for i in range(cells.shape[0]):
        value = np.int64(0)
        if cells[i] > ABSENT_CELL:
            value = load_u8(buf, base + np.int64(cells[i]))
            if value > 0:
                value += 1900
        out[i] = value


@kernel
def widen_unsigned(values: Ints, out: Ints) -> None:
    """Unsigned 64-bit numbers, as their bits, to 128-bit numbers: two entries of `out` each."""
    for i in range(values.shape[0]):
        out[2 * i] = values[i]
        out[2 * i + 1] = 0
