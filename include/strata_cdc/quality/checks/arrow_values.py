"""Arrow columns as NumPy sees them, over the same memory.
Not here: which columns and why (`row_rules.py`, `before_after.py`), hashes (`changes/row_hashes.py`).

Arrow's own conversions (`to_numpy`) load pandas first, which takes a third of a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.arrow_columns import from_numbers, to_numbers, to_texts
from strata_cdc.changes.row_hashes import Ints, bits_of, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Flags = npt.NDArray[np.bool_]

_NO_NUMBER = -0x7FEDCBA987654321


def flags_of(column: pa.Array) -> Flags:
    """A column of booleans; NULL is false."""
    known, content = column.buffers()
    flags = bits_of(content, column).astype(np.bool_)
    return flags if known is None else flags & bits_of(known, column).astype(np.bool_)


def equals(column: pa.Array, text: str) -> pa.Array:
    """Whether each value is a text; NULL where it is NULL."""
    return by_value(column, lambda values: pc.equal(values, to_texts([text])[0]))


def by_value(column: pa.Array, judge: Callable[[pa.Array], pa.Array | None]) -> pa.Array | None:
    """The judge's answer for each value, NULL for NULL; for a column with a dictionary, only its dictionary is
    judged."""
    if not pa.types.is_dictionary(column.type):
        return judge(column)
    flags = judge(column.dictionary)
    return None if flags is None else flags.take(column.indices)


def column_of(flags: Flags) -> pa.Array:
    """The inverse."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))], 0)


def set_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Some texts, numbers or truths as a column."""
    if pa.types.is_string(kind):
        return to_texts(values)
    numbers = to_numbers(np.array(values, np.int64))
    return numbers if pa.types.is_integer(kind) else numbers.cast(kind)


def numbers_of(column: pa.Array) -> Ints:
    """A column of 64-bit integers; the number for NULL is undefined."""
    content = column.buffers()[1]
    if content is None:
        return np.zeros(len(column), np.int64)
    return np.frombuffer(content, np.int64, column.offset + len(column))[column.offset :]


def whole_numbers(column: pa.Array) -> Ints | None:
    """A column of integers, NULL as a number that hardly any has; None if it has other values."""
    return from_numbers(column, _NO_NUMBER) if pa.types.is_integer(column.type) else None


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
