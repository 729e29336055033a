"""Loads, stores and copies bytes at any offset in one machine instruction or call; reads arrays by their addresses.
Not here: bounds. Callers check them first, as for an index; `NUMBA_BOUNDSCHECK=1` checks the last byte here too.

A compiled index of a signed type costs a test for negative values at each access, and each byte of a number costs one
access; this prevents loops over bytes from being vectorised. The code here is plain Python; the compiler replaces it
with that of `intrinsics.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

Arrays = TypeVar("Arrays")

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints


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


def store_i64(buf: Bytes, at: Int, word: Int) -> None:
    """Writes a number of eight bytes in little-endian order."""
    target = buf[at : at + 8]
    target[:] = np.frombuffer(int(word).to_bytes(8, "little", signed=True), np.uint8)


def copy_bytes(source: Bytes, at: Int, target: Bytes, to: Int, size: Int) -> None:
    """Copies `size` bytes between two arrays that do not overlap."""
    if size > 0:
        target[to : to + size] = np.frombuffer(_slice(source, at, size), np.uint8)


def borrowed(arrays: Arrays) -> Arrays:
    """The same array, or arrays of a tuple, without counted references: for a kernel, while its caller holds them.

    Wherever an array is passed on, taken out of a tuple or cut, Numba counts the reference with two locked
    instructions; within loops this cannot be optimised away.
    """
    return arrays


def address_of(array: NDArray[Any], kind: type[np.generic]) -> int:
    """Where an array begins; a reference to it must be held as long as these bytes are read.

    Raises:
        TypeError: It is not of that type, or has gaps.
    """
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(f"an array of {array.dtype} cannot be read as {kind.__name__} one after the other")
    return array.ctypes.data


def bytes_at(address: Int, size: Int) -> Bytes:
    """`size` bytes at an address that the caller has from `address_of`: for a variable number of arrays."""
    return _at(address, size, np.uint8)


def ints_at(address: Int, count: Int) -> Ints:
    """Numbers of eight bytes, likewise."""
    return _at(address, count, np.int64)


def _at(address: Int, count: Int, kind: type[Any]) -> NDArray[Any]:
    if count == 0:
        return np.zeros(0, kind)
    return np.ctypeslib.as_array((np.ctypeslib.as_ctypes_type(kind) * int(count)).from_address(int(address)))


def _slice(buf: Bytes, at: Int, size: int) -> bytes:
    if at < 0 or at + size > len(buf):
        raise IndexError(f"bytes {at} to {at + size} of {len(buf)}")
    return buf[at : at + size].tobytes()
