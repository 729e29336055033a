"""Reads numbers and copies bytes at any offset in one machine instruction or call.
Not here: bounds. Callers check them first, as for an index; `NUMBA_BOUNDSCHECK=1` checks the last byte here too.

A compiled index of a signed type costs a test for negative values at each access, and the bytes of a number cost one
access each; that keeps loops over bytes from being vectorised. What is here is plain Python; in its place the compiler
puts what `intrinsics.py` has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

Arrays = TypeVar("Arrays")

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int


def load_u8(buf: Bytes, at: Int) -> Int:
    """The byte at `at`."""
    return np.int64(buf[at])


def load_u16(buf: Bytes, at: Int) -> Int:
    """Two bytes in little-endian order."""
    return np.int64(int.from_bytes(_slice(buf, at, 2), "little"))


def load_u32(buf: Bytes, at: Int) -> Int:
    """Four bytes in little-endian order."""
    return np.int64(int.from_bytes(_slice(buf, at, 4), "little"))


def load_i64(buf: Bytes, at: Int) -> Int:
    """Eight bytes in little-endian order, the top bit as a sign."""
    return np.int64(int.from_bytes(_slice(buf, at, 8), "little", signed=True))


def load_big_u32(buf: Bytes, at: Int) -> Int:
    """Four bytes in big-endian order."""
    return np.int64(int.from_bytes(_slice(buf, at, 4), "big"))


def copy_bytes(source: Bytes, at: Int, target: Bytes, to: Int, size: Int) -> None:
    """Copies `size` bytes between two arrays that do not overlap."""
    if size > 0:
        target[to : to + size] = np.frombuffer(_slice(source, at, size), np.uint8)


def borrowed(arrays: Arrays) -> Arrays:
    """The same array, or arrays of a tuple, for a kernel's own use while its caller holds them: they are not counted.

    Numba counts who holds an array wherever one is handed on, taken out of a tuple or cut, with two locked
    instructions; within loops it cannot be optimised away.
    """
    return arrays


def _slice(buf: Bytes, at: Int, size: int) -> bytes:
    if at < 0 or at + size > len(buf):
        raise IndexError(f"bytes {at} to {at + size} of {len(buf)}")
    return buf[at : at + size].tobytes()
