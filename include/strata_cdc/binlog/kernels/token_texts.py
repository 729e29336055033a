"""The texts of tokens that differ only in some numbers, with their seals.
Not here: which numbers (`changes/token_texts.py`), the form of a text (`position/token_text.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.crc import crc32
from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.memory import copy_bytes, load_u8

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, CrcRows, Int, IntRows, Ints

LONGEST_NUMBER: Final = 13
"""Letters of a number of 63 bits."""
_SEAL_LETTERS: Final = 6


@kernel
def number_letters(number: Int, letters: Bytes, out: Bytes, to: Int) -> Int:
    """Writes a number >= 0 as `position/token_digits.py` does; returns where it ends."""
    while number > 31:
        out[to] = load_u8(letters, number & 31 | 32)
        to += np.int64(1)
        number >>= np.int64(5)
    out[to] = load_u8(letters, number)
    return to + np.int64(1)


@kernel
def token_letters(
    tables: CrcRows,
    letters: Bytes,
    alike: tuple[Bytes, Ints],
    numbers: IntRows,
    seal: Int,
    crcs: Ints,
    starts: Ints,
    out: Bytes,
) -> None:
    """Writes some texts.

    Args:
        tables: `CRC_TABLES`.
        letters: The letters of base64url.
        alike: The bytes that are the same in all texts, one after the other; and where in them the bytes before each
            number begin, where those after the last number begin, and where they end.
        numbers: A row for each number, with an entry for each text.
        seal: Whether each text gets its seal, 1 or 0.
        crcs: The CRC32 of all that is before the first number of each text; gets that of the text without its seal.
        starts: Gets the positions where each text begins, and where the last one ends.
        out: Gets the texts; it has LONGEST_NUMBER bytes for each number, and space for all else.
    """
    same, borders = alike
    to = np.int64(0)
    for i in range(numbers.shape[1]):
        starts[i] = to
        copy_bytes(same, np.int64(0), out, to, borders[1])
        to += borders[1]
        begin = to
        for j in range(numbers.shape[0]):
            to = number_letters(numbers[j, i], letters, out, to)
            size = borders[j + 2] - borders[j + 1]
            copy_bytes(same, borders[j + 1], out, to, size)
            to += size
        crcs[i] = crc32(tables, out, begin, to, crcs[i])
        if seal:
            # Four bytes are five letters and two bits.
            bits = crcs[i] << 4
            for k in range(_SEAL_LETTERS):
                out[to + k] = load_u8(letters, bits >> (30 - 6 * k) & 63)
            to += np.int64(_SEAL_LETTERS)
    starts[numbers.shape[1]] = to
