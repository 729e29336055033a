"""Multiplication without carries, in one instruction where the processor has it (`intrinsics.py`).
Not here: what it is used for (`crc.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.startup.processor import CARRYLESS, is_plain_python, processor_features

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Word

HAS_CARRYLESS: Final[bool] = CARRYLESS in processor_features() and not is_plain_python()
"""Whether `carryless` is one instruction. Machine code is stored per processor, so it may rely on this."""


def carryless(left: Word, right: Word) -> tuple[Word, Word]:
    """The lower and the upper 64 bits of the product of two polynomials over GF(2)."""
    product = 0
    for bit in range(64):
        if int(right) >> bit & 1:
            product ^= int(left) << bit
    return product & (1 << 64) - 1, product >> 64
