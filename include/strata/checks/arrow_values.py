"""Arrow columns as NumPy sees them, and as one hash a row, over the same memory.
Not here: which columns and why (`row_rules.py`, `image_chain.py`).

Arrow's own conversions (`to_numpy`) load pandas first, which takes a third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.events.arrow_columns import from_numbers, to_numbers, to_texts
from strata.kernels.hashes import hash_fixed, hash_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NONE = np.zeros(0, np.uint8)
_NO_NUMBER = -0x7FEDCBA987654321


def flags_of(column: pa.Array) -> Flags:
    """A column of booleans; NULL is false."""
    known, content = column.buffers()
    found = _bits(content, column).astype(np.bool_)
    return found if known is None else found & _bits(known, column).astype(np.bool_)


def equals(column: pa.Array, text: str) -> pa.Array:
    """Whether each value is a text; NULL where it is NULL."""
    return pa.compute.equal(column, to_texts([text])[0])


def column_of(flags: Flags) -> pa.Array:
    """The inverse."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))], 0)


def set_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Some texts, numbers or truths as a column."""
    if pa.types.is_string(kind):
        return to_texts(values)
    found = to_numbers(np.array(values, np.int64))
    return found if pa.types.is_integer(kind) else found.cast(kind)


def numbers_of(column: pa.Array) -> Ints:
    """A column of 64-bit integers; what NULL becomes is not said."""
    content = column.buffers()[1]
    if content is None:
        return np.zeros(len(column), np.int64)
    return np.frombuffer(content, np.int64, column.offset + len(column))[column.offset :]


def whole_numbers(column: pa.Array) -> Ints | None:
    """A column of integers, NULL as a number that hardly any has; None if it has other values."""
    return from_numbers(column, _NO_NUMBER) if pa.types.is_integer(column.type) else None


def offsets_of(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value of a column of texts, lists or maps begins, and where the last one ends."""
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(content, np.int32, column.offset + len(column) + 1)[column.offset :]


def bytes_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of all values of a column of texts."""
    content = column.buffers()[2]
    return _NONE if content is None else np.frombuffer(content, np.uint8)


def rows_with(column: pa.Array, entries: pa.Array, wanted: str) -> Flags:
    """Rows of a column of lists, or of maps, that have an entry.

    Args:
        column: The lists or maps.
        entries: All their entries, or keys, from the first of the underlying array on.
        wanted: The entry.
    """
    offsets = offsets_of(column).astype(np.int64)
    is_it = flags_of(equals(entries, wanted)).astype(np.int64)
    until = np.concatenate(([0], np.cumsum(is_it)))
    return np.asarray(until[offsets[1:]] > until[offsets[:-1]])


def hash_rows(columns: Iterable[pa.Array], count: int) -> Ints:
    """One hash a row of the values of some columns; a NULL is told from every value."""
    hashes = np.full(count, 0x5BD1E995, np.int64)
    for column in columns:
        _add(column, hashes)
    return hashes


def _add(column: pa.Array, hashes: Ints) -> None:
    kind = column.type
    if pa.types.is_struct(kind):
        _add(pa.compute.is_null(column), hashes)
        for part in column.flatten():
            _add(part, hashes)
    elif pa.types.is_boolean(kind):
        known, content = column.buffers()
        nulls = _nulls(column, known)
        hash_fixed(np.ascontiguousarray(_bits(content, column)), 1, nulls, hashes)
    elif pa.types.is_list(kind):
        width = kind.value_type.bit_width // 8
        data = column.values.buffers()[1]
        offsets = offsets_of(column) * np.int32(width)
        hash_texts(_bytes(data), offsets, _nulls(column, column.buffers()[0]), hashes)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hash_texts(bytes_of(column), offsets_of(column), _nulls(column, column.buffers()[0]), hashes)
    else:
        width = kind.bit_width // 8
        known, content = column.buffers()
        begin = column.offset * width
        data = _bytes(content)[begin : begin + len(column) * width]
        hash_fixed(data, width, _nulls(column, known), hashes)


def _bytes(content: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return _NONE if content is None else np.frombuffer(content, np.uint8)


def _nulls(column: pa.Array, known: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    if known is None or column.null_count == 0:
        return _NONE
    return np.ascontiguousarray(1 - _bits(known, column))


def _bits(content: pa.Buffer | None, column: pa.Array) -> npt.NDArray[np.uint8]:
    """One byte a row of a bitmap."""
    begin, end = column.offset, column.offset + len(column)
    if content is None:
        return np.zeros(len(column), np.uint8)
    first = begin // 8
    packed = np.frombuffer(content, np.uint8)[first : (end + 7) // 8]
    return np.unpackbits(packed, count=end - first * 8, bitorder="little")[begin - first * 8 :]
