"""Multiplication without carries, in one instruction where the processor has it.
Not here: what it is good for (`crc.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import binding, ir
from numba import config
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

if TYPE_CHECKING:
    from strata.kernels.arrays import Word

HAS_CARRYLESS: Final[bool] = bool(binding.get_host_cpu_features().get("pclmul")) and not config.DISABLE_JIT
"""Whether `carryless` is one instruction. Numba's cache is kept by processor, so compiled code may rely on it."""


def carryless(left: Word, right: Word) -> tuple[Word, Word]:
    """The lower and the upper 64 bits of the product of two polynomials over GF(2)."""
    product = 0
    for bit in range(64):
        if int(right) >> bit & 1:
            product ^= int(left) << bit
    return product & (1 << 64) - 1, product >> 64


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


def _compiled(left: Any, right: Any) -> Any:  # noqa: ARG001 - Numba asks by the types of the arguments
    def multiply(left: Any, right: Any) -> Any:
        return _MULTIPLY(left, right)

    return multiply


overload(carryless, jit_options={"nogil": True, "error_model": "numpy"})(_compiled)
carryless.kernel_sources = frozenset({__file__})
