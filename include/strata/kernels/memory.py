"""Reads numbers and copies bytes at any offset in one machine instruction or call.
Not here: bounds. Callers check them first, as for an index; `NUMBA_BOUNDSCHECK=1` checks the last byte here too.

A compiled index of a signed type costs a test for negative values at each access, and the bytes of a number cost one
access each; that keeps loops over bytes from being vectorised. These functions are plain Python without the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata.kernels.arrays import Bytes, Int

_SOURCES = frozenset({__file__})
_OPTIONS = {"nogil": True, "error_model": "numpy"}
"""As `jit.kernel` has them."""


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


def _slice(buf: Bytes, at: Int, size: int) -> bytes:
    if at < 0 or at + size > len(buf):
        raise IndexError(f"bytes {at} to {at + size} of {len(buf)}")
    return buf[at : at + size].tobytes()


def _pointer(context: Any, builder: Any, kind: Any, value: Any, offset: Any) -> Any:
    array = context.make_array(kind)(context, builder, value=value)
    return builder.gep(array.data, [offset])


def _load_intrinsic(bits: int, *, swap: bool) -> Any:
    def load(_context: Any, buf: Any, _at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = _pointer(context, builder, signature.args[0], *arguments)
            word = ir.IntType(bits)
            value = builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)
            if swap:
                value = builder.bswap(value)
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(buf, types.int64), generate

    return intrinsic(load)


def _copy(_context: Any, source: Any, _at: Any, target: Any, _to: Any, _size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        second = _pointer(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, second, first, arguments[4], 1)
        return context.get_dummy_value()

    long = types.int64
    return types.void(source, long, target, long, long), generate


_COPY: Any = intrinsic(_copy)
_LOAD_8 = _load_intrinsic(8, swap=False)
_LOAD_16 = _load_intrinsic(16, swap=False)
_LOAD_32 = _load_intrinsic(32, swap=False)
_LOAD_64 = _load_intrinsic(64, swap=False)
_LOAD_BIG_32 = _load_intrinsic(32, swap=True)


def _register(function: Callable[..., Any], load: Any, size: int) -> None:
    last = size - 1

    def compiled(buf: Any, at: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
        def read(buf: Any, at: Any) -> Any:
            buf[at + last]
            return load(buf, at)

        return read

    overload(function, jit_options=_OPTIONS)(compiled)
    function.kernel_sources = _SOURCES


_register(load_u8, _LOAD_8, 1)
_register(load_u16, _LOAD_16, 2)
_register(load_u32, _LOAD_32, 4)
_register(load_i64, _LOAD_64, 8)
_register(load_big_u32, _LOAD_BIG_32, 4)


def _compiled_copy(source: Any, at: Any, target: Any, to: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def copy(source: Any, at: Any, target: Any, to: Any, size: Any) -> None:
        if size > 0:
            source[at + size - 1]
            target[to + size - 1]
            _COPY(source, at, target, to, size)

    return copy


overload(copy_bytes, jit_options=_OPTIONS)(_compiled_copy)
copy_bytes.kernel_sources = _SOURCES
