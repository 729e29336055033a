"""Columns as the texts that JSON lines have for their values: a column at a time, in Arrow and kernels.
Not here: lines (`streams/lines.py`), single values (`jsonl.py`), whose texts these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata.kernels.json_lines import base64_texts, escaped_sizes, time_texts
from strata.rows.jsonl import JSON_VALUES
from strata.schema.model.types import INTEGERS, ColumnType, Family, TypeKind, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata.kernels.arrays import Bytes, Ints, Offsets

    Texts = Callable[[pa.Array], "TextColumn"]

_LONGEST_TIME: Final = 17
_MOST_PLAIN_SCALE: Final = 6
"""Arrow writes a decimal with an exponent if its first digit is further behind the point."""
_COMMA: Final = ord(",")
_EMPTY: Final = np.zeros(0, np.uint8)


class TextColumn(Struct, frozen=True, eq=False):
    """The text of each value."""

    data: Bytes
    offsets: Offsets
    sizes: Ints
    """Bytes of each with its escapes."""
    quotes: int
    """1 for texts that stand between quotes."""


def text_column(texts: pa.Array, *, quoted: bool = False) -> TextColumn:
    """Texts that need no escapes, as they are."""
    data, offsets = _buffers(texts)
    return TextColumn(data, offsets, np.diff(offsets).astype(np.int64), int(quoted))


def _escaped(column: pa.Array) -> TextColumn:
    data, offsets = _buffers(column)
    sizes = np.empty(len(column), np.int64)
    escaped_sizes(data, offsets, sizes)
    return TextColumn(data, offsets, sizes, 1)


def _buffers(texts: pa.Array) -> tuple[Bytes, Offsets]:
    _, offsets, data = texts.buffers()
    count = len(texts)
    if offsets is None or not count:
        return _EMPTY, np.zeros(count + 1, np.int32)
    found = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + count + 1]
    return _EMPTY if data is None else np.frombuffer(data, np.uint8), found


def _plain(column: pa.Array) -> TextColumn:
    return text_column(column.cast(pa.string()))


def _quoted(column: pa.Array) -> TextColumn:
    return text_column(column.cast(pa.string()), quoted=True)


def _bits(column: pa.Array) -> TextColumn:
    return _plain(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)


def _doubles(column: pa.Array) -> TextColumn:
    """As msgspec writes them: all of them at once, and cut at the commas."""
    count = len(column)
    if not count:
        return TextColumn(_EMPTY, np.zeros(1, np.int32), np.zeros(0, np.int64), 0)
    values = column.fill_null(0).to_numpy().tolist()
    written = np.frombuffer(msgspec.json.encode(values), np.uint8)[1:-1]
    is_comma = written == _COMMA
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:-1] = np.flatnonzero(is_comma) - np.arange(count - 1)
    offsets[-1] = len(written) - (count - 1)
    return TextColumn(written[~is_comma], offsets, np.diff(offsets).astype(np.int64), 0)


def _singles(column: pa.Array) -> TextColumn:
    """The shortest decimal that is each 32-bit float, as the 64-bit float that is nearest to it."""
    return _doubles(column.cast(pa.string()).cast(pa.float64()))


def _base64(column: pa.Array) -> TextColumn:
    data, offsets = _buffers(column)
    sizes = (np.diff(offsets).astype(np.int64) + 2) // 3 * 4
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError("a batch with more than 2 GB of base64")
    out = np.empty(int(ends[-1]), np.uint8)
    written = ends.astype(np.int32)
    base64_texts(data, offsets, written, out)
    return TextColumn(out, written, sizes, 1)


def _decimals(kind: ColumnType) -> Texts:
    each = _each(kind)

    def texts(column: pa.Array) -> TextColumn:
        if not pa.types.is_decimal(column.type):
            return _escaped(column)
        found = column.cast(pa.string())
        if (kind.decimals or 0) > _MOST_PLAIN_SCALE and pc.any(pc.match_substring(found, "E")).as_py():
            return each(column)
        return text_column(found, quoted=True)

    return texts


def _moments(kind: ColumnType) -> Texts:
    """`2024-02-29 12:34:56.789`: Arrow writes six digits behind the second, in a text of fixed length."""
    length = 19 + (1 + kind.length if kind.length else 0)

    def texts(column: pa.Array) -> TextColumn:
        plain = column if column.type.tz is None else column.cast(pa.int64()).cast(pa.timestamp("us"))
        return text_column(pc.binary_slice(plain.cast(pa.string()).cast(pa.binary()), 0, length), quoted=True)

    return texts


def _times(kind: ColumnType) -> Texts:
    def texts(column: pa.Array) -> TextColumn:
        values = np.asarray(column.fill_null(0).to_numpy(), np.int64)
        offsets = np.zeros(len(values) + 1, np.int32)
        out = np.empty(len(values) * _LONGEST_TIME, np.uint8)
        time_texts(values, kind.length or 0, offsets, out)
        return TextColumn(out, offsets, np.diff(offsets).astype(np.int64), 1)

    return texts


def _each(kind: ColumnType) -> Texts:
    """Values that are few, one by one."""
    values = JSON_VALUES[kind.kind](kind)

    def texts(column: pa.Array) -> TextColumn:
        return text_column(pa.array([msgspec.json.encode(value) for value in values(column)], pa.binary()))

    return texts


def _always(texts: Texts) -> Callable[[ColumnType], Texts]:
    return lambda _: texts


_BY_KIND: Final[dict[TypeKind, Callable[[ColumnType], Texts]]] = {
    **dict.fromkeys(INTEGERS, _always(_plain)),
    TypeKind.BIGINT: _always(_plain),
    TypeKind.DECIMAL: _decimals,
    TypeKind.FLOAT: _always(_singles),
    TypeKind.DOUBLE: _always(_doubles),
    TypeKind.BIT: _always(_bits),
    **dict.fromkeys(kinds_of(Family.CHARACTERS, Family.TEXT, Family.LABELS), _always(_escaped)),
    **dict.fromkeys(kinds_of(Family.BYTES, Family.BLOB), _always(_base64)),
    TypeKind.DATE: _always(_quoted),
    TypeKind.DATETIME: _moments,
    TypeKind.TIMESTAMP: _moments,
    TypeKind.TIME: _times,
    TypeKind.YEAR: _always(_plain),
    TypeKind.JSON: _always(_escaped),
}


def texts_of(kind: ColumnType) -> Texts:
    """What gives the texts of a column of a type."""
    return _BY_KIND.get(kind.kind, _each)(kind)
