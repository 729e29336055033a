"""Converts JSON's scalars and strings to the text that the server prints.
Not here: objects and arrays (`jsonb.py`), partial updates of JSON (`changes/partial_json.py`).

Format: `sql-common/json_binary.h`; text: `sql-common/json_dom.cc`, `Json_wrapper::to_string` (9.7). Every offset is
checked before the read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.decimals import MOST_GROUPS, count_groups, write_decimal
from strata_cdc.binlog.kernels.doubles import write_double
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.memory import load_i64, load_u8, load_u16, store_i64
from strata_cdc.binlog.kernels.numbers import little_endian
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.kernels.strings import write_number

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, WordRows

LITERAL: Final = 4
INT16: Final = 5
UINT16: Final = 6
INT32: Final = 7
UINT32: Final = 8
INT64: Final = 9
UINT64: Final = 10
DOUBLE: Final = 11
STRING: Final = 12
OPAQUE: Final = 15

_DATE, _TIME, _DATETIME, _TIMESTAMP, _NEWDECIMAL, _VAR_STRING = 10, 11, 12, 7, 246, 253
BASE64 = np.frombuffer(bytearray(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"), np.uint8)
"""An argument of the kernels."""
_BASE64_LINE: Final = 57
"""Bytes after which the server begins a new line of base64 (mysys/base64.cc), which JSON escapes."""
LITERAL_ROOM: Final = 40
"""A number, date or literal, with what surrounds it, has at most this many bytes; decimals need more."""


@part
def variable_length(buf: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """A length in seven bits per byte, the lowest first, and the offset after it; -1 if it runs past `end`."""
    size = np.int64(0)
    for k in range(5):
        if at + k >= end:
            return np.int64(0), np.int64(-1)
        byte = np.int64(buf[at + k])
        size |= (byte & 0x7F) << np.int64(7 * k)
        if byte < 0x80:
            return size, np.int64(at + k + 1)
    return np.int64(0), np.int64(-1)


@part
def has_escape(word: Int) -> bool:
    """Whether any of eight bytes is a quote, a backslash or a control character.

    Each test of a byte sets its top bit where the byte is none of these, and no sum carries into the next byte.
    """
    bits = np.int64(word).view(np.uint64)
    low = bits & np.uint64(0x7F7F7F7F7F7F7F7F)
    plain = low + np.uint64(0x6060606060606060)
    plain &= (low ^ np.uint64(0x2222222222222222)) + np.uint64(0x7F7F7F7F7F7F7F7F)
    plain &= (low ^ np.uint64(0x5C5C5C5C5C5C5C5C)) + np.uint64(0x7F7F7F7F7F7F7F7F)
    return bool((plain | bits) & np.uint64(0x8080808080808080) != np.uint64(0x8080808080808080))


@part
def copy_plain(buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> bool:
    """Copies text, eight bytes at a time; False if it needs escapes. `out` has space for seven bytes more."""
    if buf.shape[0] - at < size + 7:
        return False
    for k in range(0, size, 8):
        word = load_i64(buf, at + k)
        store_i64(out, to + k, word)
        if size - k < 8:
            # Blanks instead of what follows the text.
            kept = (np.int64(1) << np.int64(8 * (size - k))) - 1
            word = (word & kept) | (np.int64(0x2020202020202020) & ~kept)
        if has_escape(word):
            return False
    return True


@part
def put_quoted(buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes text in quotes, with JSON's escapes; `out` has space for 6 * size + 9 bytes."""
    out[to] = ord('"')
    to += 1
    if copy_plain(buf, at, size, out, to):
        to += size
    else:
        to = put_escaped(buf, at, size, out, to)
    out[to] = ord('"')
    return to + 1


@kernel
def put_escaped(buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes text with JSON's escapes."""
    for k in range(size):
        byte = np.int64(buf[at + k])
        if byte >= 0x20 and byte not in (0x22, 0x5C):
            out[to] = byte
            to += 1
            continue
        out[to] = ord("\\")
        if byte in (0x22, 0x5C):
            out[to + 1] = byte
        elif byte == 8:
            out[to + 1] = ord("b")
        elif byte == 9:
            out[to + 1] = ord("t")
        elif byte == 10:
            out[to + 1] = ord("n")
        elif byte == 12:
            out[to + 1] = ord("f")
        elif byte == 13:
            out[to + 1] = ord("r")
        else:
            out[to + 1] = ord("u")
            out[to + 2] = ord("0")
            out[to + 3] = ord("0")
            out[to + 4] = ord("0") + (byte >> 4)
            low = byte & 15
            out[to + 5] = low + (ord("0") if low < 10 else ord("a") - 10)
            to += 4
        to += 2
    return to


@part
def put_word(word: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes the `size` low bytes of a number as characters, the lowest first."""
    for k in range(size):
        out[to + k] = (word >> np.int64(8 * k)) & 0xFF
    return to + size


@part
def put_integer(value: Int, out: Bytes, to: Int) -> Int:
    """Writes a signed number."""
    if value >= 0:
        return write_number(value, out, to)
    out[to] = ord("-")
    last = -(value % -10)
    rest = -((value + last) // 10)
    to += 1
    if rest > 0:
        to = write_number(rest, out, to)
    out[to] = ord("0") + last
    return to + 1


@kernel
def put_unsigned(value: Int, out: Bytes, to: Int) -> Int:
    """Writes an unsigned number, passed as its bits."""
    high, low = (value >> 32) & 0xFFFFFFFF, value & 0xFFFFFFFF
    rest = ((high % 10) << 32) | low
    quotient = ((high // 10) << 32) + rest // 10
    if quotient > 0:
        to = write_number(quotient, out, to)
    out[to] = ord("0") + rest % 10
    return to + 1


@part
def put_two(value: Int, out: Bytes, to: Int) -> Int:
    """Writes two digits."""
    out[to] = ord("0") + value // 10 % 10
    out[to + 1] = ord("0") + value % 10
    return to + 2


@kernel
def put_clock(packed: Int, hour: Int, micros: Int, out: Bytes, to: Int) -> Int:
    """Writes hh:mm:ss.ffffff; minute and second are the low 12 bits of `packed`."""
    if hour >= 100:
        out[to] = ord("0") + hour // 100
        to += 1
    to = put_two(hour % 100, out, to)
    out[to] = ord(":")
    to = put_two((packed >> 6) & 63, out, to + 1)
    out[to] = ord(":")
    to = put_two(packed & 63, out, to + 1)
    out[to] = ord(".")
    to = put_two(micros // 10_000, out, to + 1)
    to = put_two(micros // 100, out, to)
    return put_two(micros, out, to)


@kernel
def put_temporal(kind: Int, packed: Int, out: Bytes, to: Int) -> Int:
    """Writes an opaque date or time in quotes: the packed form of `my_time.cc`, microseconds in the low 24 bits."""
    out[to] = ord('"')
    to += 1
    if packed < 0:
        packed = -packed
        if kind == _TIME:
            out[to] = ord("-")
            to += 1
    micros, packed = packed & 0xFFFFFF, packed >> 24
    if kind == _TIME:
        to = put_clock(packed, (packed >> 12) & 0x3FF, micros, out, to)
    else:
        day = packed >> 17
        year, month = (day >> 5) // 13, (day >> 5) % 13
        to = put_two(year // 100, out, to)
        to = put_two(year, out, to)
        out[to] = ord("-")
        to = put_two(month, out, to + 1)
        out[to] = ord("-")
        to = put_two(day & 31, out, to + 1)
        if kind != _DATE:
            out[to] = ord(" ")
            to = put_clock(packed, (packed >> 12) & 31, micros, out, to + 1)
    out[to] = ord('"')
    return to + 1


@kernel
def put_base64(alphabet: Bytes, kind: Int, buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes `"base64:typeN:..."`, which is how the server prints opaque values that have no text."""
    to = put_word(np.int64(0x34366573616222), 7, out, to)
    to = put_word(np.int64(0x657079743A), 5, out, to)
    to = write_number(kind, out, to)
    out[to] = ord(":")
    to += 1
    for k in range(0, size, 3):
        if k > 0 and k % _BASE64_LINE == 0:
            out[to] = ord("\\")
            out[to + 1] = ord("n")
            to += 2
        left = min(size - k, 3)
        word = np.int64(0)
        for j in range(3):
            word = (word << 8) | (np.int64(buf[at + k + j]) if j < left else np.int64(0))
        for j in range(4):
            out[to + j] = alphabet[(word >> np.int64(18 - 6 * j)) & 63] if j <= left else ord("=")
        to += 4
    out[to] = ord('"')
    return to + 1


@kernel
def put_decimal(buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes an opaque DECIMAL of `size` bytes: its precision, its scale, its digits; -1 if it is not a DECIMAL."""
    if size < 2:
        return np.int64(-1)
    precision, scale = np.int64(buf[at]), np.int64(buf[at + 1])
    if precision == 0 or scale > precision or count_groups(precision, scale) > MOST_GROUPS:
        return np.int64(-1)
    if size != 2 + decimal_size(precision, scale):
        return np.int64(-1)
    return write_decimal(buf, at + 2, precision, scale, out, to)


@kernel
def put_opaque(alphabet: Bytes, buf: Bytes, at: Int, limit: Int, out: Bytes, to: Int) -> tuple[Int, Int, Int]:
    """Writes an opaque value; as `put_scalar`."""
    if at >= limit:
        return CORRUPT, to, at
    kind = np.int64(buf[at])
    size, at = variable_length(buf, at + 1, limit)
    if at < 0 or size > limit - at:
        return CORRUPT, to, at
    behind = at + size
    if out.shape[0] - to < 6 * size + 4 * LITERAL_ROOM:
        return FULL, to, behind
    if kind == _VAR_STRING:
        # Text of UCS-2, UTF-16 or UTF-32, which is stored and printed as its bytes (json_dom.cc, wrapper_to_string).
        return DONE, put_quoted(buf, at, size, out, to), behind
    if kind == _NEWDECIMAL:
        to = put_decimal(buf, at, size, out, to)
        return (DONE if to >= 0 else CORRUPT), to, behind
    if kind in (_DATE, _TIME, _DATETIME, _TIMESTAMP):
        if size != 8:
            return CORRUPT, to, behind
        return DONE, put_temporal(kind, little_endian(buf, at, 8), out, to), behind
    return DONE, put_base64(alphabet, kind, buf, at, size, out, to), behind


@kernel
def decimal_size(precision: Int, scale: Int) -> Int:
    """Bytes of a packed decimal."""
    whole = precision - scale
    return whole // 9 * 4 + ((whole % 9 + 1) >> 1) + scale // 9 * 4 + ((scale % 9 + 1) >> 1)


@kernel
def put_long_number(powers: WordRows, kind: Int, buf: Bytes, at: Int, out: Bytes, to: Int) -> Int:
    """Writes a number of four or eight bytes, which must exist; -1 for a double that is infinite or NaN."""
    if kind == INT32:
        return put_integer((little_endian(buf, at, 4) ^ 0x80000000) - 0x80000000, out, to)
    if kind == UINT32:
        return put_integer(little_endian(buf, at, 4), out, to)
    if kind == INT64:
        return put_integer(little_endian(buf, at, 8), out, to)
    if kind == UINT64:
        return put_unsigned(little_endian(buf, at, 8), out, to)
    return write_double(powers, little_endian(buf, at, 8), out, to)


@part
def put_literal(literal: Int, out: Bytes, to: Int) -> Int:
    """Writes null, true or false; -1 for any other literal."""
    if literal == 0:
        return put_word(np.int64(0x6C6C756E), 4, out, to)
    if literal == 1:
        return put_word(np.int64(0x65757274), 4, out, to)
    if literal == 2:
        return put_word(np.int64(0x65736C6166), 5, out, to)
    return np.int64(-1)


@part
def number_size(kind: Int) -> Int:
    """Bytes of a number or literal."""
    if kind == LITERAL:
        return np.int64(1)
    if kind in (INT16, UINT16):
        return np.int64(2)
    return np.int64(4 if kind in (INT32, UINT32) else 8)


@part
def put_scalar(
    powers: WordRows, alphabet: Bytes, kind: Int, buf: Bytes, at: Int, limit: Int, out: Bytes, to: Int
) -> tuple[Int, Int, Int]:
    """Writes a value that is not a container.

    Returns:
        DONE, FULL (`out` has no space) or CORRUPT; the position after the text; the offset after the value.
    """
    if kind == STRING:
        size, at = variable_length(buf, at, limit)
        if at < 0 or size > limit - at:
            return CORRUPT, to, at
        if out.shape[0] - to < 6 * size + LITERAL_ROOM:
            return FULL, to, at
        return DONE, put_quoted(buf, at, size, out, to), at + size
    if kind == OPAQUE:
        return put_opaque(alphabet, buf, at, limit, out, to)
    if kind < LITERAL or kind > DOUBLE:
        return CORRUPT, to, at
    size = number_size(kind)
    if size > limit - at:
        return CORRUPT, to, at
    if out.shape[0] - to < LITERAL_ROOM:
        return FULL, to, at
    if kind == LITERAL:
        to = put_literal(load_u8(buf, at), out, to)
    elif kind == INT16:
        to = put_integer((load_u16(buf, at) ^ 0x8000) - 0x8000, out, to)
    elif kind == UINT16:
        to = put_integer(load_u16(buf, at), out, to)
    else:
        to = put_long_number(powers, kind, buf, at, out, to)
    return (DONE if to >= 0 else CORRUPT), to, at + size
