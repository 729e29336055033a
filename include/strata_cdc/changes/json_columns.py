"""The texts of a column's values in JSON lines: a column at a time, by Arrow and kernels. They are equal to those of
`jsonl.py`.
Not here: lines (`lines.py`), single values (`jsonl.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.binlog.kernels.json_lines import base64_texts, escaped_sizes, escaped_texts
from strata_cdc.binlog.kernels.number_texts import time_texts
from strata_cdc.changes.jsonl import JSON_VALUES
from strata_cdc.changes.texts import Digits, Moments, Texts
from strata_cdc.schema.model.types import INTEGERS, ColumnType, Family, TypeKind, kinds_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.texts import TextSource

    TextsOf = Callable[[pa.Array], "TextColumn"]

_LONGEST_TIME: Final = 17
_MOST_PLAIN_SCALE: Final = 6
"""Arrow writes a decimal with an exponent if its first digit is further to the right of the point."""
_COMMA: Final = ord(",")


class TextColumn(Struct, frozen=True, eq=False):
    """The text of each value; NULL may have any text."""

    texts: TextSource
    is_quoted: bool = False
    """Whether they must be put between quotes."""


def _texts(column: pa.Array, *, quoted: bool = False) -> TextColumn:
    """Texts that need no escapes, unchanged."""
    return TextColumn(Texts.of_column(column), quoted)


def _escaped(column: pa.Array) -> TextColumn:
    texts = Texts.of_column(column)
    starts, sizes = np.zeros(len(texts) + 1, np.int64), np.empty(len(texts), np.int64)
    escaped_sizes(texts.data, texts.starts, sizes)
    np.cumsum(sizes, out=starts[1:])
    if starts[-1] == len(texts.data):
        return TextColumn(texts, is_quoted=True)
    out = np.empty(int(starts[-1]), np.uint8)
    failed = escaped_texts(texts.data, texts.starts, starts, out)
    if failed >= 0:
        raise RuntimeError(f"text {failed} is longer than was counted")
    return TextColumn(Texts(out, starts), is_quoted=True)


def _plain(column: pa.Array) -> TextColumn:
    return _texts(column.cast(pa.string()))


def _quoted(column: pa.Array) -> TextColumn:
    return _texts(column.cast(pa.string()), quoted=True)


def _integers(column: pa.Array) -> TextColumn:
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        return _plain(column)
    return TextColumn(Digits(_numbers(column)))


def _numbers(column: pa.Array) -> Ints:
    """Values of up to eight bytes; 0 for NULL."""
    return np.asarray((column.fill_null(0) if column.null_count else column).to_numpy(), np.int64)


def _bits(column: pa.Array) -> TextColumn:
    return _plain(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column)


def _doubles(column: pa.Array) -> TextColumn:
    """As msgspec writes them: all are written at once, and split at the commas."""
    count = len(column)
    if not count:
        return TextColumn(Texts.from_texts([]))
    values = column.fill_null(0).to_numpy().tolist()
    written = np.frombuffer(msgspec.json.encode(values), np.uint8)[1:-1]
    is_comma = written == _COMMA
    starts = np.zeros(count + 1, np.int64)
    starts[1:-1] = np.flatnonzero(is_comma) - np.arange(count - 1)
    starts[-1] = len(written) - (count - 1)
    return TextColumn(Texts(written[~is_comma], starts))


def _singles(column: pa.Array) -> TextColumn:
    """Each 32-bit float as its shortest decimal, written as the nearest 64-bit float."""
    return _doubles(column.cast(pa.string()).cast(pa.float64()))


def _base64(column: pa.Array) -> TextColumn:
    texts = Texts.of_column(column)
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum((np.diff(texts.starts) + 2) // 3 * 4, out=starts[1:])
    out = np.empty(int(starts[-1]), np.uint8)
    base64_texts(texts.data, texts.starts, starts, out)
    return TextColumn(Texts(out, starts), is_quoted=True)


def _decimals(kind: ColumnType) -> TextsOf:
    each = _each(kind)

    def texts(column: pa.Array) -> TextColumn:
        if not pa.types.is_decimal(column.type):
            return _escaped(column)
        as_strings = column.cast(pa.string())
        if (kind.decimals or 0) > _MOST_PLAIN_SCALE and pc.any(pc.match_substring(as_strings, "E")).as_py():
            return each(column)
        return _texts(as_strings, quoted=True)

    return texts


def _moments(kind: ColumnType) -> TextsOf:
    """`2024-02-29 12:34:56.789`."""
    return lambda column: TextColumn(Moments(_numbers(column.cast(pa.int64())), " ", kind.length or 0), is_quoted=True)


def _times(kind: ColumnType) -> TextsOf:
    def texts(column: pa.Array) -> TextColumn:
        values = _numbers(column)
        starts = np.zeros(len(values) + 1, np.int64)
        out = np.empty(len(values) * _LONGEST_TIME, np.uint8)
        size = time_texts(values, kind.length or 0, starts, out)
        return TextColumn(Texts(out[:size], starts), is_quoted=True)

    return texts


def _each(kind: ColumnType) -> TextsOf:
    """Values of rare types, one by one."""
    values = JSON_VALUES[kind.kind](kind)

    def texts(column: pa.Array) -> TextColumn:
        return _texts(pa.array([msgspec.json.encode(value) for value in values(column)], pa.binary()))

    return texts


def _always(texts: TextsOf) -> Callable[[ColumnType], TextsOf]:
    return lambda _: texts


_BY_KIND: Final[dict[TypeKind, Callable[[ColumnType], TextsOf]]] = {
    **dict.fromkeys(INTEGERS, _always(_integers)),
    TypeKind.BIGINT: _always(_integers),
    TypeKind.DECIMAL: _decimals,
    TypeKind.FLOAT: _always(_singles),
    TypeKind.DOUBLE: _always(_doubles),
    TypeKind.BIT: _always(_bits),
    **dict.fromkeys(kinds_of(Family.CHARACTERS, Family.TEXT, Family.LABELS, Family.FIXED_BYTES), _always(_escaped)),
    **dict.fromkeys(kinds_of(Family.BYTES, Family.BLOB), _always(_base64)),
    TypeKind.DATE: _always(_quoted),
    TypeKind.DATETIME: _moments,
    TypeKind.TIMESTAMP: _moments,
    TypeKind.TIME: _times,
    TypeKind.YEAR: _always(_integers),
    TypeKind.JSON: _always(_escaped),
}


def texts_of(kind: ColumnType) -> TextsOf:
    """The function that returns the texts of a column of a type."""
    return _BY_KIND.get(kind.kind, _each)(kind)
