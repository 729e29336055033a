"""Converts JSON cells to the text that the server prints.
Not here: the scalars in objects and arrays (`json_values.py`), partial updates (`changes/partial_json.py`).

Format: `sql-common/json_binary.h`; text: `sql-common/json_dom.cc`, `Json_wrapper::to_string` (9.7). Every offset is
checked before the read. The sizes of a document's values are added and compared with its length: a document whose
offsets point to the same value again and again ends in CORRUPT instead of growing without limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.json_values import (
    INT16,
    INT32,
    LITERAL,
    LITERAL_ROOM,
    UINT16,
    UINT32,
    put_literal,
    put_quoted,
    put_scalar,
    put_word,
)
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.memory import borrowed, load_u8, load_u16
from strata_cdc.binlog.kernels.numbers import little_endian
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, IntRows, Offsets, WordRows

MOST_DEPTH: Final = 100
"""JSON_DOCUMENT_MAX_DEPTH (sql-common/json_syntax_check.h)."""

LARGE_OBJECT: Final = 1
LARGE_ARRAY: Final = 3

# A container that is being written.
START: Final = 0
LIMIT: Final = 1
KIND: Final = 2
LENGTH: Final = 3
NEXT: Final = 4
FRAME_FIELDS: Final = 5


@part
def container_width(kind: Int) -> Int:
    """Bytes of the counts and offsets of an object or array."""
    return np.int64(4 if kind in (LARGE_OBJECT, LARGE_ARRAY) else 2)


@part
def container_limit(buf: Bytes, kind: Int, at: Int, limit: Int) -> Int:
    """Offset after an object or array; -1 if its head and entries do not fit into it, or it into `limit`."""
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
    if out.shape[0] - to < 6 * size + LITERAL_ROOM:
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
    """Offset of a value; it may be outside of its container."""
    child = load_u8(buf, entry)
    large = kind in (LARGE_OBJECT, LARGE_ARRAY)
    # Literals and short numbers are in the entry itself.
    if child in (LITERAL, INT16, UINT16) or (large and child in (INT32, UINT32)):
        return entry + 1
    return start + little_endian(buf, entry + 1, container_width(kind))


@part
def open_member(
    buf: Bytes, start: Int, limit: Int, parent: Int, number: Int, out: Bytes, to: Int
) -> tuple[Int, Int, Int]:
    """Writes what comes before a value in its container: a comma, and its key; arguments as `put_key` has them.

    Returns:
        DONE, FULL or CORRUPT, the position after the text, and the bytes of the key.
    """
    if number > 0:
        to = put_word(np.int64(0x202C), 2, out, to)
    if parent > LARGE_OBJECT:
        return np.int64(DONE), to, np.int64(0)
    return put_key(buf, start, limit, parent, number, out, to)


@part
def empty_text(out: Bytes, to: Int) -> tuple[Int, Int]:
    """As `json_text`, for no bytes: a NOT NULL column that never got a value (sql/field.cc, Field_json::val_json)."""
    if out.shape[0] - to < LITERAL_ROOM:
        return FULL, to
    return DONE, put_literal(np.int64(0), out, to)


@part
def json_text(
    powers: WordRows, alphabet: Bytes, buf: Bytes, at: Int, end: Int, out: Bytes, to: Int, frames: IntRows
) -> tuple[Int, Int]:
    """Writes the document between `at` and `end`, at least one byte; DONE, FULL or CORRUPT, and the position after it.

    Args:
        powers: Powers of ten, for doubles.
        alphabet: Of base64.
        buf: The buffer of the cell.
        at: Offset of the document's type byte.
        end: Offset after the document.
        out: Gets the text.
        to: Where in `out` it begins.
        frames: Space for MOST_DEPTH containers.
    """
    if out.shape[0] - to < LITERAL_ROOM:
        return FULL, to
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
        if out.shape[0] - to < LITERAL_ROOM + MOST_DEPTH:
            return FULL, to
        status, to, key_bytes = open_member(buf, start, limit, parent, number, out, to)
        if status != DONE:
            return status, to
        budget -= key_bytes
        entry = value_entry(start, parent, length, number)
        kind, at = load_u8(buf, entry), value_at(buf, start, parent, entry)
        number += 1
        if at >= limit or budget < 0:
            return CORRUPT, to


@kernel
def gather_json(  # noqa: PLR0913, PLR0917 - arrays have no other way in
    powers: WordRows,
    alphabet: Bytes,
    buf: Bytes,
    base: Int,
    cells: Cells,
    prefix: Int,
    first: Int,
    frames: IntRows,
    offsets: Offsets,
    out: Bytes,
) -> tuple[Int, Int]:
    """Writes the texts of JSON cells from row `first` on; the offset of that row is already set.

    Args:
        powers: `doubles.POWERS`.
        alphabet: `BASE64`.
        buf: The buffer of the cells.
        base: The position that cells are relative to.
        cells: Where the documents lie.
        prefix: Bytes of the length before each.
        first: The row to continue with.
        frames: Space for MOST_DEPTH containers.
        offsets: Offsets of the texts.
        out: The texts.

    Returns:
        Status and row: DONE; FULL, to continue with that row and a longer `out`; CORRUPT for that row.
    """
    powers, alphabet, buf, frames, out = borrowed((powers, alphabet, buf, frames, out))
    for i in range(first, cells.shape[0]):
        to = np.int64(offsets[i])
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            size = little_endian(buf, at, prefix)
            if size == 0:
                status, to = empty_text(out, to)
            else:
                status, to = json_text(powers, alphabet, buf, at + prefix, at + prefix + size, out, to, frames)
            if status != DONE:
                return status, i
        offsets[i + 1] = to
    return DONE, np.int64(cells.shape[0])
