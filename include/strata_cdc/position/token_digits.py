"""Numbers as digits of 64: base64url, with the lowest digit first.
Not here: many numbers at once (`binlog/kernels/token_texts.py`)."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase
from string import digits as decimal_digits
from typing import Final

import msgspec

LETTERS: Final = f"{ascii_uppercase}{ascii_lowercase}{decimal_digits}-_"
"""RFC 4648, 5."""
DIGIT_BITS: Final = 5
MORE: Final = 1 << DIGIT_BITS
"""Added to each digit of a number except the last."""
_VALUES: Final = {letter: value for value, letter in enumerate(LETTERS)}
_MOST_BITS: Final = 64


@lru_cache(1 << 14)
def digits(number: int) -> str:
    """Returns a number >= 0 as digits of five bits, so that its end is visible: numbers follow each other without a
    separator. Cached, because most spans of a position stay as they are."""
    letters = ""
    while number >= MORE:
        letters += LETTERS[number % MORE + MORE]
        number >>= DIGIT_BITS
    return letters + LETTERS[number]


def numbers_of(text: str) -> list[int]:
    """Returns the numbers that were written as digits.

    Raises:
        msgspec.DecodeError: The last number has no end, or a number is longer than 64 bits.
    """
    numbers: list[int] = []
    number = bits = 0
    for letter in text:
        value = _VALUES[letter]
        number |= value % MORE << bits
        if value < MORE:
            numbers.append(number)
            number, bits = 0, 0
        elif (bits := bits + DIGIT_BITS) > _MOST_BITS:
            raise msgspec.DecodeError("a number is too long")
    if bits:
        raise msgspec.DecodeError("a number has no end")
    return numbers
