"""One hash per row of the values of some Arrow columns, and the memory of these columns as NumPy arrays.
Not here: what the hashes are compared for (`quality/checks/before_after.py`, `mirrors/key_index.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.binlog.kernels.hashes import hash_fixed, hash_texts

if TYPE_CHECKING:
    from collections.abc import Iterable

Ints = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray

_NONE = np.zeros(0, np.uint8)


def offsets_of(column: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value of a column of texts, lists or maps begins, and where the last value ends."""
    content = column.buffers()[1]
    if not len(column) or content is None:
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(content, np.int32, column.offset + len(column) + 1)[column.offset :]


def bytes_of(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of all values of a column of texts."""
    content = column.buffers()[2]
    return _NONE if content is None else np.frombuffer(content, np.uint8)


def hash_rows(columns: Iterable[Column], count: int) -> Ints:
    """One hash per row of the values of some columns; NULL is distinguished from every value."""
    hashes = np.full(count, 0x5BD1E995, np.int64)
    for column in columns:
        begin = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            _add(chunk, hashes[begin : begin + len(chunk)])
            begin += len(chunk)
    return hashes


def _add(column: pa.Array, hashes: Ints) -> None:
    kind = column.type
    if pa.types.is_struct(kind):
        _add(pc.is_null(column), hashes)
        for part in column.flatten():
            _add(part, hashes)
    elif pa.types.is_boolean(kind):
        known, content = column.buffers()
        nulls = _nulls(column, known)
        _check(hash_fixed(np.ascontiguousarray(bits_of(content, column)), 1, nulls, hashes))
    elif pa.types.is_list(kind):
        width = kind.value_type.bit_width // 8
        values = column.values
        data = _bytes(values.buffers()[1])[values.offset * width :]
        offsets = offsets_of(column) * np.int32(width)
        _check(hash_texts(data, offsets, _nulls(column, column.buffers()[0]), hashes))
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        _check(hash_texts(bytes_of(column), offsets_of(column), _nulls(column, column.buffers()[0]), hashes))
    else:
        width = kind.bit_width // 8
        known, content = column.buffers()
        begin = column.offset * width
        data = _bytes(content)[begin : begin + len(column) * width]
        _check(hash_fixed(data, width, _nulls(column, known), hashes))


def _check(row: int) -> None:
    # Else the rows from there on would have equal hashes whatever their values are.
    if row >= 0:
        raise ValueError(f"value {row:,} of a column is not in its memory")


def _bytes(content: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    return _NONE if content is None else np.frombuffer(content, np.uint8)


def _nulls(column: pa.Array, known: pa.Buffer | None) -> npt.NDArray[np.uint8]:
    if known is None or column.null_count == 0:
        return _NONE
    return np.ascontiguousarray(1 - bits_of(known, column))


def bits_of(content: pa.Buffer | None, column: pa.Array) -> npt.NDArray[np.uint8]:
    """A bitmap as one byte per row."""
    begin, end = column.offset, column.offset + len(column)
    if content is None:
        return np.zeros(len(column), np.uint8)
    first = begin // 8
    packed = np.frombuffer(content, np.uint8)[first : (end + 7) // 8]
    return np.unpackbits(packed, count=end - first * 8, bitorder="little")[begin - first * 8 :]
