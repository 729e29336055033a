"""Tables of code points, as the server has them: the kernels need them to turn a charset's bytes into UTF-8.
Not here: which charset a column has (`schema/`), the loop (`binlog/kernels/charsets.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.charsets import (
    ALIAS,
    FOUR_BYTES_AT,
    GB18030,
    ONE_BYTE,
    THREE_BYTES,
    TWO_BYTES,
    UCS2,
    UTF16,
    UTF16LE,
    UTF32,
)
from strata_cdc.errors import UnsupportedEventError
from strata_cdc.schema.model.charsets import CHARSETS, CODECS, MANY_TO_ONE
from strata_cdc.schema.model.charsets.characters import EXCEPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import CodePoints, Ints

UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
"""Charsets whose bytes are UTF-8 as they are."""

_WIDE = {"ucs2": UCS2, "utf16": UTF16, "utf16le": UTF16LE, "utf32": UTF32}
_THREE = frozenset({"ujis", "eucjpms"})
_BASIC_PLANE_OF_FOUR_BYTES = 39_420
"""Characters of GB18030 in four bytes up to U+FFFF."""
_COPIES_IN_CP932 = range(0xED40, 0xEEFD)
"""NEC's copies of IBM's characters: the server and Windows write IBM's own codes (FA40 to FC4B)."""


@lru_cache(maxsize=64)
def charset_table(name: str) -> tuple[int, CodePoints]:
    """The family of a charset and its table of code points, as `binlog/kernels/charsets.py` reads them.

    Raises:
        UnsupportedEventError: MySQL has no such charset.
    """
    if name in _WIDE:
        return _WIDE[name], np.full(1, -1, np.int32)
    if name not in CHARSETS:
        raise UnsupportedEventError(f"text in charset {name!r} cannot be read")
    table = plain_table(name)
    if name in MANY_TO_ONE:
        table[_aliases(name, table)] |= ALIAS
    return _family(name), table


@lru_cache(maxsize=len(MANY_TO_ONE))
def characters_of_many_forms(name: str) -> str:
    """The characters that a charset has more than once; most charsets have none."""
    if name not in MANY_TO_ONE:
        return ""
    table = plain_table(name)
    return "".join(map(chr, np.unique(table[_aliases(name, table)])))


def _aliases(name: str, table: CodePoints) -> Ints:
    """Positions of characters that have another, more usual form. The first form is the usual one (ASCII before all
    others); in cp932, `_COPIES_IN_CP932` come after all others."""
    places = np.flatnonzero(table >= 0)
    if name == "cp932":
        is_copy = np.isin(places, _COPIES_IN_CP932)
        places = np.concatenate((places[~is_copy], places[is_copy]))
    return np.setdiff1d(places, places[np.unique(table[places], return_index=True)[1]])


def plain_table(name: str) -> CodePoints:
    """The code points of a charset's characters, by their positions."""
    table = codec_table(name)
    for run in EXCEPTIONS.get(name, "").split():
        place, _, rest = run.partition("-")
        code, _, count = rest.partition("*")
        begin, size = int(place, 16), int(count)
        table[begin : begin + size] = -1 if code == "x" else np.arange(int(code, 16), int(code, 16) + size)
    return table


def _family(name: str) -> int:
    if CHARSETS[name].max_bytes == 1:
        return ONE_BYTE
    if name == "gb18030":
        return GB18030
    return THREE_BYTES if name in _THREE else TWO_BYTES


def codec_table(name: str) -> CodePoints:
    """The table of a charset by Python's own codec; all -1 if Python has no codec."""
    sizes = {ONE_BYTE: 256, TWO_BYTES: 65536, THREE_BYTES: 2 * 65536}
    table = np.full(sizes.get(_family(name), FOUR_BYTES_AT + _BASIC_PLANE_OF_FOUR_BYTES), -1, np.int32)
    codec = CODECS.get(name)
    for place, data in characters_of(name) if codec else ():
        try:
            text = data.decode(codec or "")
        except UnicodeDecodeError:
            continue
        if len(text) == 1:
            table[place] = ord(text)
    return table


def characters_of(name: str) -> Iterator[tuple[int, bytes]]:
    """Everything that may be a character of a charset: its position in the table, and its bytes."""
    family = _family(name)
    yield from ((byte, bytes([byte])) for byte in range(256))
    if family == ONE_BYTE:
        return
    yield from (
        (first << 8 | second, bytes([first, second])) for first in range(0x80, 0x100) for second in range(0x40, 0x100)
    )
    if family == THREE_BYTES:
        yield from (
            (65536 + (second << 8 | third), bytes([0x8F, second, third]))
            for second in range(0xA1, 0xFF)
            for third in range(0xA1, 0xFF)
        )
    if family == GB18030:
        yield from _four_bytes()


def _four_bytes() -> Iterator[tuple[int, bytes]]:
    for linear in range(_BASIC_PLANE_OF_FOUR_BYTES):
        rest, fourth = divmod(linear, 10)
        rest, third = divmod(rest, 126)
        first, second = divmod(rest, 10)
        yield FOUR_BYTES_AT + linear, bytes([first + 0x81, second + 0x30, third + 0x81, fourth + 0x30])
