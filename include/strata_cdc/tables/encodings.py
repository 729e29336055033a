"""The encodings of a Parquet file's columns, chosen by their types and by the first of its rows.
Not here: row groups and compression (`row_groups.py`). What each encoding costs: `bench/notes/encodings.md`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SAMPLE_ROWS = 512
_LEAST_VALUES = 64
"""With fewer values, nothing is known of a column, and nothing can be saved."""
_SAMPLE_BYTES = 1 << 20
"""Limit of a column's sample; longer texts stay plain: they have few lengths."""
_FEW = 32
"""A dictionary saves space if at most one of this many values is new."""
_USES = 8
"""It also does if each of its values comes so often in a row group; half as often, and it saves nothing."""
_DICTIONARY_BYTES = 1 << 19
"""Half of what a dictionary may have before the writer stops using it, since how many values there are is estimated."""
_DENSE = 0.4
"""Share of its size that zstd leaves of digits, hashes and keys, for whose characters it only finds shorter codes."""
_DENSE_BYTES = 1 << 14

_REPEATED = ("_op", "_source", "_binlog_file")
_INTEGER_DIGITS = 18
"""Digits of a decimal that Parquet keeps in 32 or 64 bits; more are in bytes, which have no better encoding."""
_PACKED: Final[Sequence[Callable[[pa.DataType], bool]]] = (
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_timestamp,
    lambda kind: bool(pa.types.is_decimal(kind) and kind.precision <= _INTEGER_DIGITS),
)


class Encodings(Struct, frozen=True):
    """Settings for a Parquet writer; columns that are not named are plain."""

    dictionary: list[str]
    """Paths of columns that begin with a dictionary; the writer stops using it when it becomes too large."""
    others: dict[str, str]
    """Encodings by the path of a column."""


def choose_encodings(rows: pa.Table) -> Encodings:
    """The encodings for change rows like these: the same rows always get the same encodings.

    Integers, dates, moments and decimals that are integers in Parquet are packed by their differences
    (DELTA_BINARY_PACKED): whatever their values are, this is smaller or takes less time than to let zstd find it.

    Texts with few different values get a dictionary. Dense texts are stored separately from their lengths
    (DELTA_LENGTH_BYTE_ARRAY). With a length before each text, zstd would look for repetitions where there are none:
    this takes a third of the time of encoding a table of such texts, and some that it finds cost more than they save.

    Args:
        rows: The first rows of a file, with the columns of a change table. Images before are encoded as those after.
    """
    names = rows.schema.names
    chosen = Encodings([name for name in _REPEATED if name in names], {})
    before = rows.schema.field("_before").type if "_before" in names else pa.struct([])
    sample = rows.slice(0, _SAMPLE_ROWS)
    for field in rows.schema:
        # In a path, a dot separates a column from the field in it; a column whose name has a dot stays plain.
        if field.name in chosen.dictionary or "." in field.name:
            continue
        encoding = _encoding(field, sample.column(field.name), rows.num_rows)
        if encoding is None:
            continue
        paths = [field.name]
        inside = f"_before.{field.name}"
        if before.get_field_index(field.name) >= 0 and inside not in names:
            paths.append(inside)
        if encoding == _DICTIONARY:
            chosen.dictionary.extend(paths)
        else:
            chosen.others.update(dict.fromkeys(paths, encoding))
    return chosen


_DICTIONARY = "RLE_DICTIONARY"


def _encoding(field: pa.Field, sample: pa.ChunkedArray, rows: int) -> str | None:
    """The encoding of a column; None: plain."""
    if any(test(field.type) for test in _PACKED):
        return "DELTA_BINARY_PACKED"
    if not (pa.types.is_string(field.type) or pa.types.is_binary(field.type)):
        return None
    values = _texts(sample)
    is_known = len(values) >= _LEAST_VALUES
    if is_known and _has_few(values, rows):
        return _DICTIONARY
    if field.name == "_gtid":
        return "DELTA_BYTE_ARRAY"
    return "DELTA_LENGTH_BYTE_ARRAY" if is_known and _is_dense(values) else None


def _texts(column: pa.ChunkedArray) -> list[bytes]:
    """The values that are not NULL; none if they are too long."""
    parts = [_of_chunk(chunk) for chunk in column.chunks if len(chunk) and column.nbytes <= _SAMPLE_BYTES]
    return [text for part in parts for text in part]


def _of_chunk(chunk: pa.Array) -> Iterator[bytes]:
    # By its buffers: `to_pylist` makes two Python objects of each value.
    known, offsets, data = chunk.buffers()
    begin, count = chunk.offset, chunk.offset + len(chunk)
    ends = np.frombuffer(offsets, np.int32, count + 1)[begin:].tolist()
    content = b"" if data is None else data.slice(ends[0], ends[-1] - ends[0]).to_pybytes()
    texts = [content[at - ends[0] : end - ends[0]] for at, end in pairwise(ends)]
    if not chunk.null_count:
        return iter(texts)
    there = np.unpackbits(np.frombuffer(known, np.uint8), count=count, bitorder="little")[begin:].tolist()
    return (text for text, is_there in zip(texts, there, strict=True) if is_there)


def _has_few(values: Sequence[bytes], rows: int) -> bool:
    """Whether there are few different values, in the sample or by it in all rows.

    Of n values drawn from d equally frequent ones, about n * n / 2d were drawn before, and fewer if d is small: then it
    is taken for larger than it is.
    """
    count, different = len(values), len(set(values))
    if different * _FEW < count:
        return True
    repeated = count - different
    # Fewer say too little about how many values there are.
    if repeated < _FEW // 2:
        return False
    in_all = count * count / (2 * repeated)
    length = sum(map(len, values)) / count + 4
    return in_all * _USES <= rows and in_all * length <= _DICTIONARY_BYTES


def _is_dense(values: Sequence[bytes]) -> bool:
    data = b"".join(values)[:_DENSE_BYTES]
    return len(pa.compress(data, codec="zstd", asbytes=True)) > _DENSE * len(data)
