"""Converts cells of text from other charsets to UTF-8.
Not here: which table a charset has (`changes/charset.py`), text that is UTF-8 already (`strings.py`).

A table has a code point for each character, or -1. Positions 0 to 255 are characters of one byte. A byte without such a
character begins a longer one: one of two bytes is at 256 * first + second; one of three at 65536 + 256 * second +
third; one of four in GB18030's linear order. If other bytes are the usual form of a code point, `ALIAS` is added to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.numbers import big_endian, little_endian

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, CodePoints, Int, Offsets

ONE_BYTE: Final = 1
TWO_BYTES: Final = 2
THREE_BYTES: Final = 3
"""As TWO_BYTES; a character that begins with 0x8F has three."""
GB18030: Final = 4
"""As TWO_BYTES; a character whose second byte is a digit has four."""
UCS2: Final = 5
UTF16: Final = 6
UTF16LE: Final = 7
UTF32: Final = 8

ALIAS: Final = 1 << 24
"""In a table: this is not the usual form of the character."""
BAD: Final = 1
"""Mark of a value with a character that the charset does not have."""
ALIASED: Final = 2
"""Mark of a value that is not in its charset's usual form."""

MOST_GROWTH: Final = 3
"""At most this many bytes of UTF-8 for a byte of any charset."""
FOUR_BYTES_AT: Final = 65536
"""Where the table of GB18030 continues with the characters of four bytes in the basic plane."""
BEYOND_BASIC: Final = 189_000
"""Linear number of 0x90308130, the first character beyond the basic plane."""


@kernel
def write_utf8(code: Int, out: Bytes, to: Int) -> Int:
    """Writes a code point; returns the position after it, -1 if it is not a character."""
    if code < 0x80:
        if code < 0:
            return np.int64(-1)
        out[to] = code
        return to + 1
    if code < 0x800:
        out[to] = 0xC0 | (code >> 6)
        out[to + 1] = 0x80 | (code & 0x3F)
        return to + 2
    if code < 0x10000:
        if 0xD800 <= code <= 0xDFFF:
            return np.int64(-1)
        out[to] = 0xE0 | (code >> 12)
        out[to + 1] = 0x80 | ((code >> 6) & 0x3F)
        out[to + 2] = 0x80 | (code & 0x3F)
        return to + 3
    if code > 0x10FFFF:
        return np.int64(-1)
    out[to] = 0xF0 | (code >> 18)
    out[to + 1] = 0x80 | ((code >> 12) & 0x3F)
    out[to + 2] = 0x80 | ((code >> 6) & 0x3F)
    out[to + 3] = 0x80 | (code & 0x3F)
    return to + 4


@kernel
def four_byte_character(buf: Bytes, at: Int, table: CodePoints) -> Int:
    """The code point of a GB18030 character of four bytes, or -1."""
    a, b = np.int64(buf[at]) - 0x81, np.int64(buf[at + 1]) - 0x30
    c, d = np.int64(buf[at + 2]) - 0x81, np.int64(buf[at + 3]) - 0x30
    if a < 0 or a > 125 or b < 0 or b > 9 or c < 0 or c > 125 or d < 0 or d > 9:
        return np.int64(-1)
    linear = ((a * 10 + b) * 126 + c) * 10 + d
    if linear >= BEYOND_BASIC:
        return linear - BEYOND_BASIC + 0x10000
    if FOUR_BYTES_AT + linear >= table.shape[0]:
        return np.int64(-1)
    return np.int64(table[FOUR_BYTES_AT + linear])


@kernel
def table_character(buf: Bytes, at: Int, end: Int, family: Int, table: CodePoints) -> tuple[Int, Int]:
    """Code point (-1 if there is none) and number of bytes of the character at `at`, for a charset with a table."""
    first = np.int64(buf[at])
    code, size = np.int64(table[first]), np.int64(1)
    if code >= 0 or family == ONE_BYTE:
        return code, size
    if at + 2 > end:
        return np.int64(-1), size
    second = np.int64(buf[at + 1])
    if family == THREE_BYTES and first == 0x8F:
        if at + 3 > end:
            return np.int64(-1), size
        return np.int64(table[65536 + (second << 8) + np.int64(buf[at + 2])]), np.int64(3)
    if family == GB18030 and 0x30 <= second <= 0x39:
        if at + 4 > end:
            return np.int64(-1), size
        return four_byte_character(buf, at, table), np.int64(4)
    return np.int64(table[(first << 8) + second]), np.int64(2)


@kernel
def wide_character(buf: Bytes, at: Int, end: Int, family: Int) -> tuple[Int, Int]:
    """Code point (-1 if there is none) and number of bytes of the character at `at`, for UCS-2, UTF-16 or UTF-32."""
    if family == UTF32:
        if at + 4 > end:
            return np.int64(-1), np.int64(1)
        return big_endian(buf, at, 4), np.int64(4)
    if at + 2 > end:
        return np.int64(-1), np.int64(1)
    code = little_endian(buf, at, 2) if family == UTF16LE else big_endian(buf, at, 2)
    if family == UCS2 or code < 0xD800 or code > 0xDBFF:
        return code, np.int64(2)
    if at + 4 > end:
        return np.int64(-1), np.int64(2)
    low = little_endian(buf, at + 2, 2) if family == UTF16LE else big_endian(buf, at + 2, 2)
    if low < 0xDC00 or low > 0xDFFF:
        return np.int64(-1), np.int64(2)
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), np.int64(4)


@kernel
def transcode(
    buf: Bytes,
    base: Int,
    cells: Cells,
    prefix: Int,
    charset: tuple[Int, CodePoints],
    offsets: Offsets,
    out: Bytes,
    marks: Bytes,
) -> Int:
    """Text in UTF-8 and its offsets.

    `charset` is its family and its table; `out` has space for MOST_GROWTH times the bytes of the cells. Values with a
    character that the charset does not have are marked BAD in `marks` and take no bytes; those with an `ALIAS` are
    marked ALIASED. Returns the length of the data.
    """
    family, table = charset
    to = np.int64(0)
    offsets[0] = 0
    for i in range(cells.shape[0]):
        begin = to
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            end = at + prefix + little_endian(buf, at, prefix)
            at += prefix
            while at < end:
                if family < UCS2:
                    code, size = table_character(buf, at, end, family, table)
                    if code >= ALIAS:
                        code -= ALIAS
                        marks[i] = ALIASED
                else:
                    code, size = wide_character(buf, at, end, family)
                to = write_utf8(code, out, to)
                at += size
                if to < 0:
                    marks[i] = BAD
                    to = begin
                    break
        offsets[i + 1] = to
    return to
