"""JSON cells into the text that the server prints.
Not here: partial updates of JSON (`rows/partial_json.py`).

Format: `sql-common/json_binary.h`; text: `sql-common/json_dom.cc`, `Json_wrapper::to_string` (9.7). Every offset is
checked before the read. What a document's values take together is counted against its length, so that a document whose
offsets point to the same value again and again ends in CORRUPT instead of growing without bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata.kernels.decimals import write_decimal
from strata.kernels.doubles import write_double
from strata.kernels.jit import kernel, part
from strata.kernels.layout import ABSENT_CELL
from strata.kernels.memory import copy_bytes, load_u8, load_u16
from strata.kernels.numbers import little_endian
from strata.kernels.status import CORRUPT, DONE, FULL
from strata.kernels.strings import write_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata.kernels.arrays import Bytes, Cells, Int, Offsets, Words

MOST_DEPTH: Final = 100
"""JSON_DOCUMENT_MAX_DEPTH (sql-common/json_syntax_check.h)."""

SMALL_OBJECT: Final = 0
LARGE_OBJECT: Final = 1
LARGE_ARRAY: Final = 3
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

# A container that is being written.
START: Final = 0
LIMIT: Final = 1
KIND: Final = 2
LENGTH: Final = 3
NEXT: Final = 4
FRAME_FIELDS: Final = 5

_DATE, _TIME, _DATETIME, _TIMESTAMP, _NEWDECIMAL = 10, 11, 12, 7, 246
BASE64 = np.frombuffer(bytearray(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"), np.uint8)
"""To be handed to the kernels."""
_BASE64_LINE: Final = 57
"""Bytes behind which the server begins a new line of base64 (mysys/base64.cc), which JSON escapes."""
_LITERAL_ROOM: Final = 40
"""Bytes that any number, date or literal with what surrounds it takes at most; decimals need more."""


@part
def variable_length(buf: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """A length of seven bits a byte, the lowest first, and the offset behind it; -1 if there is none before `end`."""
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
def needs_no_escape(buf: Bytes, at: Int, size: Int) -> Int:
    """1 if no byte of a text is a quote, a backslash or a control character; else 0."""
    found = np.int64(0)
    for k in range(size):
        byte = load_u8(buf, at + k)
        found |= np.int64(byte < 0x20) | np.int64(byte == 0x22) | np.int64(byte == 0x5C)
    return 1 - found


@part
def put_quoted(buf: Bytes, at: Int, size: Int, out: Bytes, to: Int) -> Int:
    """Writes text in quotes, with JSON's escapes; `out` has room for 6 * size + 2 bytes."""
    out[to] = ord('"')
    to += 1
    if needs_no_escape(buf, at, size):
        copy_bytes(buf, at, out, to, size)
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
    """Writes an unsigned number, given by its bits."""
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
    """Writes an opaque date or time in quotes: the packed form of `my_time.cc`, 24 bits of microseconds below."""
    out[to] = ord('"')
    to += 1
    if kind == _TIME and packed < 0:
        out[to] = ord("-")
        to += 1
        packed = -packed
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
def put_opaque(alphabet: Bytes, buf: Bytes, at: Int, limit: Int, out: Bytes, to: Int) -> tuple[Int, Int, Int]:
    """Writes an opaque value; as `put_scalar`."""
    if at >= limit:
        return CORRUPT, to, at
    kind = np.int64(buf[at])
    size, at = variable_length(buf, at + 1, limit)
    if at < 0 or size > limit - at:
        return CORRUPT, to, at
    behind = at + size
    if out.shape[0] - to < 2 * size + 4 * _LITERAL_ROOM:
        return FULL, to, behind
    if kind == _NEWDECIMAL:
        precision, scale = np.int64(0), np.int64(0)
        if size >= 2:
            precision, scale = np.int64(buf[at]), np.int64(buf[at + 1])
        if precision == 0 or precision > 65 or scale > precision or size != 2 + decimal_size(precision, scale):
            return CORRUPT, to, behind
        to = write_decimal(buf, at + 2, precision, scale, out, to)
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
def put_long_number(powers: Words, kind: Int, buf: Bytes, at: Int, out: Bytes, to: Int) -> Int:
    """Writes a number of four or eight bytes, which are there; -1 for a double that is no number."""
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
def put_scalar(  # noqa: C901 - a case a kind
    powers: Words, alphabet: Bytes, kind: Int, buf: Bytes, at: Int, limit: Int, out: Bytes, to: Int
) -> tuple[Int, Int, Int]:
    """Writes a value that is no container.

    Returns:
        DONE, FULL (`out` has no room) or CORRUPT; the place behind the text; the offset behind the value.
    """
    if kind == STRING:
        size, at = variable_length(buf, at, limit)
        if at < 0 or size > limit - at:
            return CORRUPT, to, at
        if out.shape[0] - to < 6 * size + _LITERAL_ROOM:
            return FULL, to, at
        return DONE, put_quoted(buf, at, size, out, to), at + size
    if kind == OPAQUE:
        return put_opaque(alphabet, buf, at, limit, out, to)
    if kind < LITERAL or kind > DOUBLE:
        return CORRUPT, to, at
    size = number_size(kind)
    if size > limit - at:
        return CORRUPT, to, at
    if out.shape[0] - to < _LITERAL_ROOM:
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


@part
def container_width(kind: Int) -> Int:
    """Bytes of the counts and offsets of an object or array."""
    return np.int64(4 if kind in (LARGE_OBJECT, LARGE_ARRAY) else 2)


@part
def container_limit(buf: Bytes, kind: Int, at: Int, limit: Int) -> Int:
    """Offset behind an object or array; -1 if its head and entries do not fit into it, or it into `limit`."""
    width = container_width(kind)
    if limit - at < 2 * width:
        return np.int64(-1)
    count = little_endian(buf, at, width)
    size = little_endian(buf, at + width, width)
    keys = count * (width + 2) if kind <= LARGE_OBJECT else np.int64(0)
    if size > limit - at or 2 * width + keys + count * (width + 1) > size:
        return np.int64(-1)
    return at + size


@part
def put_key(buf: Bytes, start: Int, limit: Int, kind: Int, number: Int, out: Bytes, to: Int) -> tuple[Int, Int, Int]:
    """Writes key `number` of an object with its colon; as `put_scalar`, but the last is the length of the key."""
    width = container_width(kind)
    entry = start + 2 * width + number * (width + 2)
    at = start + little_endian(buf, entry, width)
    size = load_u16(buf, entry + width)
    if at + size > limit:
        return CORRUPT, to, size
    if out.shape[0] - to < 6 * size + _LITERAL_ROOM:
        return FULL, to, size
    to = put_quoted(buf, at, size, out, to)
    return DONE, put_word(np.int64(0x203A), 2, out, to), size


@part
def value_entry(start: Int, kind: Int, length: Int, number: Int) -> Int:
    """Offset of the entry of value `number` of a container."""
    width = container_width(kind)
    keys = length * (width + 2) if kind <= LARGE_OBJECT else np.int64(0)
    return start + 2 * width + keys + number * (width + 1)


@part
def value_at(buf: Bytes, start: Int, kind: Int, entry: Int) -> Int:
    """Offset of a value; it may be out of its container."""
    child = load_u8(buf, entry)
    large = kind in (LARGE_OBJECT, LARGE_ARRAY)
    # Literals and short numbers lie in the entry itself.
    if child in (LITERAL, INT16, UINT16) or (large and child in (INT32, UINT32)):
        return entry + 1
    return start + little_endian(buf, entry + 1, container_width(kind))


@part
def json_text(  # noqa: C901, PLR0912, PLR0915 - one walk over values of all kinds; its parts are functions
    powers: Words, alphabet: Bytes, buf: Bytes, at: Int, end: Int, out: Bytes, to: Int, frames: NDArray[np.int64]
) -> tuple[Int, Int]:
    """Writes the document between `at` and `end`; DONE, FULL or CORRUPT, and the place behind the text.

    Args:
        powers: Powers of ten, for doubles.
        alphabet: Of base64.
        buf: The buffer of the cell.
        at: Offset of the document's type byte.
        end: Offset behind the document.
        out: For the text.
        to: Where in `out` it begins.
        frames: Room for MOST_DEPTH containers.
    """
    if out.shape[0] - to < _LITERAL_ROOM:
        return FULL, to
    if at == end:
        # What a NOT NULL column holds that never got a value (sql/field.cc, Field_json::val_json).
        return DONE, put_literal(np.int64(0), out, to)
    budget = end - at
    kind, limit = load_u8(buf, at), end
    at += 1
    # The container that is being written; those around it are in `frames`.
    depth, parent, start, length, number = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while True:
        if kind <= LARGE_ARRAY:
            behind = container_limit(buf, kind, at, limit)
            if depth == MOST_DEPTH or behind < 0:
                return CORRUPT, to
            frames[depth, START] = start
            frames[depth, LIMIT] = limit
            frames[depth, KIND] = parent
            frames[depth, LENGTH] = length
            frames[depth, NEXT] = number
            depth += 1
            parent, start, limit, number = kind, at, behind, np.int64(0)
            length = little_endian(buf, at, container_width(kind))
            out[to] = ord("{") if kind <= LARGE_OBJECT else ord("[")
            to += 1
            budget -= 1
        else:
            status, to, behind = put_scalar(powers, alphabet, kind, buf, at, limit, out, to)
            if status != DONE:
                return status, to
            budget -= behind - at
        while depth > 0 and number == length:
            out[to] = ord("}") if parent <= LARGE_OBJECT else ord("]")
            to += 1
            depth -= 1
            start, limit, parent = frames[depth, START], frames[depth, LIMIT], frames[depth, KIND]
            length, number = frames[depth, LENGTH], frames[depth, NEXT]
        if depth == 0:
            return DONE, to
        if out.shape[0] - to < _LITERAL_ROOM + MOST_DEPTH:
            return FULL, to
        if number > 0:
            to = put_word(np.int64(0x202C), 2, out, to)
        if parent <= LARGE_OBJECT:
            status, to, behind = put_key(buf, start, limit, parent, number, out, to)
            if status != DONE:
                return status, to
            budget -= behind
        entry = value_entry(start, parent, length, number)
        kind, at = load_u8(buf, entry), value_at(buf, start, parent, entry)
        number += 1
        if at >= limit or budget < 0:
            return CORRUPT, to


@kernel
def gather_json(  # noqa: PLR0913, PLR0917 - arrays have no other way in
    powers: Words,
    alphabet: Bytes,
    buf: Bytes,
    base: Int,
    cells: Cells,
    prefix: Int,
    first: Int,
    offsets: Offsets,
    out: Bytes,
) -> tuple[Int, Int]:
    """Texts of JSON cells from row `first` on, whose offset is set.

    Args:
        powers: `doubles.POWERS`.
        alphabet: `BASE64`.
        buf: The buffer of the cells.
        base: What cells are relative to.
        cells: Where the documents lie.
        prefix: Bytes of the length in front of each.
        first: The row to go on with.
        offsets: Of the texts.
        out: The texts.

    Returns:
        Status and row: DONE; FULL, to go on with that row and a longer `out`; CORRUPT for that row.
    """
    frames = np.empty((MOST_DEPTH, FRAME_FIELDS), np.int64)
    for i in range(first, cells.shape[0]):
        to = np.int64(offsets[i])
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            size = little_endian(buf, at, prefix)
            status, to = json_text(powers, alphabet, buf, at + prefix, at + prefix + size, out, to, frames)
            if status != DONE:
                return status, i
        offsets[i + 1] = to
    return DONE, np.int64(cells.shape[0])
