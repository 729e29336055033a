"""The machine instructions that Numba uses instead of the functions of `memory.py`, `carryless.py` and `folds.py`.
Not here: when Numba compiles (`compiler.py`, the only module that imports this)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from strata_cdc.binlog.kernels import carryless, folds, memory

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCES = frozenset({__file__, memory.__file__, carryless.__file__, folds.__file__})
_OPTIONS = {"nogil": True, "error_model": "numpy"}
"""The same as in `compiler.py`."""


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


def _store(_context: Any, buf: Any, _at: Any, _word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(arguments[2], builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(buf, types.int64, types.int64), generate


_STORE: Any = intrinsic(_store)


def _compiled_store(buf: Any, at: Any, word: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
    def store(buf: Any, at: Any, word: Any) -> None:
        buf[at + 7]
        _STORE(buf, at, word)

    return store


def _copy(_context: Any, source: Any, _at: Any, target: Any, _to: Any, _size: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _pointer(context, builder, signature.args[0], arguments[0], arguments[1])
        second = _pointer(context, builder, signature.args[2], arguments[2], arguments[3])
        # Not memcpy: a library that is linked without libc gets the oldest version of it, which knows no AVX.
        cgutils.raw_memmove(builder, second, first, arguments[4], 1)
        return context.get_dummy_value()

    long = types.int64
    return types.void(source, long, target, long, long), generate


_COPY: Any = intrinsic(_copy)


def _replace_load(function: Callable[..., Any], load: Any, size: int) -> None:
    last = size - 1

    def compiled(buf: Any, at: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
        def read(buf: Any, at: Any) -> Any:
            buf[at + last]
            return load(buf, at)

        return read

    _replace(function, compiled)


def _compiled_copy(source: Any, at: Any, target: Any, to: Any, size: Any) -> Any:  # noqa: ARG001 - as above
    def copy(source: Any, at: Any, target: Any, to: Any, size: Any) -> None:
        if size > 0:
            source[at + size - 1]
            target[to + size - 1]
            _COPY(source, at, target, to, size)

    return copy


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value without the words that Numba uses to count references to its arrays."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value=value)
        array.meminfo, array.parent = (cgutils.get_null_value(word.type) for word in (array.meminfo, array.parent))
        return array._getvalue()  # noqa: SLF001 - Numba has no other name for it
    if isinstance(kind, types.BaseTuple):
        for at, part in enumerate(kind.types):
            inner = _uncounted(context, builder, part, builder.extract_value(value, at))
            value = builder.insert_value(value, inner, at)
    return value


def _borrow(_context: Any, arrays: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _uncounted(context, builder, signature.args[0], arguments[0])

    return arrays(arrays), generate


_BORROW: Any = intrinsic(_borrow)


def _compiled_borrowed(arrays: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
    def borrow(arrays: Any) -> Any:
        return _BORROW(arrays)

    return borrow


def _view_intrinsic(kind: Any) -> Any:
    array = types.Array(kind, 1, "C")

    def view(_context: Any, _address: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, count = arguments
            made = context.make_array(array)(context, builder)
            item = context.get_constant(types.intp, kind.bitwidth // 8)
            pointer = builder.inttoptr(address, made.data.type)
            populate_array(made, data=pointer, shape=[count], strides=[item], itemsize=item, meminfo=None)
            return made._getvalue()  # noqa: SLF001 - Numba has no other name for it

        return array(types.int64, types.int64), generate

    return intrinsic(view)


def _replace_view(function: Callable[..., Any], view: Any) -> None:
    def compiled(address: Any, count: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
        def at(address: Any, count: Any) -> Any:
            return view(address, count)

        return at

    _replace(function, compiled)


def _multiply(_context: Any, _left: Any, _right: Any) -> Any:
    word: Any = types.uint64
    pair = types.containers.UniTuple(word, 2)

    def generate(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(64), 2)
        first, byte = ir.IntType(32)(0), ir.IntType(8)
        multiply = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, (vector, vector, byte)), "llvm.x86.pclmulqdq"
        )
        operands = [builder.insert_element(ir.Constant(vector, [0, 0]), each, first) for each in arguments]
        product = builder.call(multiply, (*operands, byte(0)))
        halves = [builder.extract_element(product, ir.IntType(32)(at)) for at in (0, 1)]
        return cgutils.pack_array(builder, halves)

    return pair(word, word), generate


_MULTIPLY: Any = intrinsic(_multiply)


def _compiled_carryless(left: Any, right: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
    def multiply(left: Any, right: Any) -> Any:
        return _MULTIPLY(left, right)

    return multiply


def _fold(_context: Any, _left: Any, _right: Any) -> Any:
    def generate(_: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        upper = builder.trunc(builder.lshr(product, wide(64)), word)
        return builder.xor(builder.trunc(product, word), upper)

    return types.int64(types.int64, types.int64), generate


_FOLD: Any = intrinsic(_fold)


def _compiled_fold(left: Any, right: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
    def fold(left: Any, right: Any) -> Any:
        return _FOLD(left, right)

    return fold


def _replace(function: Callable[..., Any], compiled: Callable[..., Any]) -> None:
    overload(function, jit_options=_OPTIONS)(compiled)
    function.kernel_sources = _SOURCES  # for `compiler.py`


_replace_load(memory.load_u8, _load_intrinsic(8, swap=False), 1)
_replace_load(memory.load_u16, _load_intrinsic(16, swap=False), 2)
_replace_load(memory.load_u32, _load_intrinsic(32, swap=False), 4)
_replace_load(memory.load_i64, _load_intrinsic(64, swap=False), 8)
_replace_load(memory.load_big_u32, _load_intrinsic(32, swap=True), 4)
_replace_view(memory.bytes_at, _view_intrinsic(types.uint8))
_replace_view(memory.ints_at, _view_intrinsic(types.int64))
_replace(memory.store_i64, _compiled_store)
_replace(memory.copy_bytes, _compiled_copy)
_replace(memory.borrowed, _compiled_borrowed)
_replace(carryless.carryless, _compiled_carryless)
_replace(folds.fold_product, _compiled_fold)
