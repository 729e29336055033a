"""NumPy columns as Arrow arrays and back, over the same memory.
Not here: which columns there are (`binlog/events/index.py`, `changes/`).

Arrow's own conversions (`pa.array`, `to_numpy`, `fill_null`) first check whether their input is from pandas,
and load pandas for that (pyarrow 26, `pandas-shim.pxi`): a third of a second and 30 MB for each landing and each
look-up.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

_TYPES = {np.dtype(np.int64): pa.int64(), np.dtype(np.int32): pa.int32()}


def to_numbers(
    values: npt.NDArray[np.int64] | npt.NDArray[np.int32], nulls: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """A column of numbers; it is null where `nulls` is true."""
    known = None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    content = pa.py_buffer(np.ascontiguousarray(values))
    count = 0 if nulls is None else int(np.count_nonzero(nulls))
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [known, content], count)


def to_texts(texts: Sequence[str | None]) -> pa.Array:
    """A column of texts."""
    encoded = [(text or "").encode() for text in texts]
    ends = np.array([0, *accumulate(map(len, encoded))], np.int32)
    is_known = np.array([text is not None for text in texts], np.bool_)
    buffers = [
        pa.py_buffer(np.packbits(is_known, bitorder="little")),
        pa.py_buffer(ends),
        pa.py_buffer(b"".join(encoded)),
    ]
    # Arrow before 26 takes an unknown number of nulls in the keys of a map for nulls, and ends the process.
    return pa.Array.from_buffers(pa.string(), len(texts), buffers, len(texts) - int(np.count_nonzero(is_known)))


def repeated_text(text: str, count: int) -> pa.Array:
    """A column of `count` times the same text."""
    return pa.repeat(to_texts([text])[0], count)


def repeated_number(number: int | None, count: int, kind: pa.DataType) -> pa.Array:
    """A column of `count` times the same number, which `kind` keeps in 64 bits; None is null."""
    if number is None:
        return pa.nulls(count, kind)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.full(count, number, np.int64))], 0)


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows; Arrow's own `empty_table` makes arrays of empty lists, and loads pandas for that."""
    return pa.Table.from_batches([], schema)


def from_numbers(column: pa.Array, null: int = 0) -> Numbers:
    """The numbers of a column of integers, with `null` instead of nulls."""
    known, content = column.buffers()
    begin, end = column.offset, column.offset + len(column)
    if content is None or not len(column):
        return np.full(len(column), null, np.int64)
    values = np.frombuffer(content, column.type.to_pandas_dtype(), end)[begin:].astype(np.int64, copy=False)
    if known is None or not column.null_count:
        return values
    is_known = np.unpackbits(np.frombuffer(known, np.uint8), count=end, bitorder="little")[begin:]
    return np.where(is_known, values, null)


def from_lists(lists: pa.ListArray) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """Where the values of each list end among those of all, and these values."""
    offsets = from_numbers(lists.offsets)
    return offsets[1:] - offsets[0], lists.flatten()
