"""JSON lines of many rows at once: what is alike in a table or a transaction is written once, values a column at a
time, and each goes to its place in the stream's order.
Not here: which lines there are (`rendering.py`), texts of values (`rows/json_columns.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata.kernels.json_lines import IS_NULL, IS_VALUE, NOT_THERE, count_values, put_shared, put_values
from strata.rows.arrow import ROW_FIELDS
from strata.rows.json_columns import TextColumn, text_column, texts_of
from strata.schema.model.types import parse_column_type
from strata.streams.token_texts import Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata.kernels.arrays import Bytes, Ints
    from strata.rows.json_columns import Texts as Writer
    from strata.schema.model.definition import TableDefinition, TableName

    Columns = Callable[[], Sequence[pa.Array]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_OPS: Final = pa.array(["insert", "update", "delete"])
_INSERT, _UPDATE, _DELETE = range(3)
_CHUNK_BYTES: Final = 1 << 20
"""Of lines that are written at once, if one is not longer: however many groups they are of, so that they fit into the
processor's cache, and the memory that they were in serves the next ones."""
_encode: Final = msgspec.json.encode


class Piece(Protocol):
    """A part of each line."""

    def count(self, counts: Ints) -> None:
        """Adds its bytes to those of each line."""

    def put(self, some: slice, places: Ints, out: Bytes) -> None:
        """Puts it at the places of some of the lines, which move on behind it."""


class Shared:
    """One of some texts in each line."""

    def __init__(self, texts: Texts, chosen: Ints) -> None:
        """Takes the texts, and which of them each line has."""
        self._texts, self._chosen = texts, chosen
        self._sizes = np.diff(texts.starts)

    @classmethod
    def of(cls, texts: Sequence[bytes], chosen: Ints) -> Shared:
        """The same with texts that are few."""
        return cls(Texts.of(texts), chosen)

    def count(self, counts: Ints) -> None:
        """As `Piece.count`."""
        counts += self._sizes[self._chosen]

    def put(self, some: slice, places: Ints, out: Bytes) -> None:
        """As `Piece.put`."""
        texts = self._texts
        _expect_all(put_shared(texts.data, texts.starts, self._chosen[some], places, out))


class Same:
    """The same text in each line."""

    def __init__(self, text: bytes) -> None:
        """Takes it."""
        self._text = Texts.of([text])

    def count(self, counts: Ints) -> None:
        """As `Piece.count`."""
        counts += len(self._text.data)

    def put(self, some: slice, places: Ints, out: Bytes) -> None:
        """As `Piece.put`."""
        del some
        _expect_all(put_shared(self._text.data, self._text.starts, np.zeros(len(places), np.int64), places, out))


class Values:
    """A value in each line, behind its key."""

    def __init__(self, texts: TextColumn, there: Bytes, key: bytes = b"") -> None:
        """Takes the texts, which of them are there, and what stands in front of them."""
        self._texts, self._there = texts, there
        self._key = np.frombuffer(key, np.uint8)

    def count(self, counts: Ints) -> None:
        """As `Piece.count`."""
        count_values(len(self._key), self._texts.quotes, self._texts.sizes, self._there, counts)

    def put(self, some: slice, places: Ints, out: Bytes) -> None:
        """As `Piece.put`."""
        texts, offsets = self._texts, self._texts.offsets[some.start : some.stop + 1]
        there = self._there[some]
        _expect_all(put_values(self._key, texts.quotes, texts.data, offsets, texts.sizes[some], there, places, out))


class Lines(Struct):
    """Some lines, and where they are in the stream."""

    seqs: Ints
    """Ordinals of their transactions."""
    steps: Ints
    """In their transaction."""
    pieces: list[Piece]

    def sizes(self) -> Ints:
        """Bytes of each."""
        counts = np.zeros(len(self.seqs), np.int64)
        for piece in self.pieces:
            piece.count(counts)
        return counts

    def put(self, some: slice, places: Ints, out: Bytes) -> None:
        """Puts some of them at their places."""
        for piece in self.pieces if len(places) else ():
            piece.put(some, places, out)


def joined(groups: Sequence[Lines]) -> Iterator[bytes]:
    """All lines in the order of the stream, some at a time: what is written is then still in the processor's cache.

    The lines of each group are in order.
    """
    if not groups:
        return
    sizes = [group.sizes() for group in groups]
    order = np.lexsort((np.concatenate([one.steps for one in groups]), np.concatenate([one.seqs for one in groups])))
    counts = np.concatenate(sizes)
    ends = np.cumsum(counts[order])
    rank = np.empty(len(counts), np.int64)
    rank[order] = np.arange(len(counts))
    ranks = np.split(rank, np.cumsum([len(group.seqs) for group in groups])[:-1])
    begin = 0
    while begin < len(ends):
        at = int(ends[begin - 1]) if begin else 0
        end = max(int(np.searchsorted(ends, at + _CHUNK_BYTES, "right")), begin + 1)
        out = np.empty(int(ends[end - 1]) - at, np.uint8)
        for group, mine, size in zip(groups, ranks, sizes, strict=True):
            some = slice(*np.searchsorted(mine, (begin, end)).tolist())
            group.put(some, ends[mine[some]] - size[some] - at, out)
        yield out.tobytes()
        begin = end


def composed(pieces: Sequence[Piece], count: int) -> Texts:
    """Texts that are put together as lines are."""
    starts = np.zeros(count + 1, np.int64)
    for piece in pieces:
        piece.count(starts[1:])
    np.cumsum(starts, out=starts)
    out, places = np.empty(int(starts[-1]), np.uint8), starts[:-1].copy()
    for piece in pieces:
        piece.put(slice(0, count), places, out)
    return Texts(out, starts)


def in_digits(numbers: Ints, key: bytes = b"") -> Values:
    """A number of each line, behind its key."""
    texts = text_column(pa.array(numbers).cast(pa.string()))
    return Values(texts, np.full(len(numbers), IS_VALUE, np.uint8), key)


def in_few_digits(numbers: Ints, key: bytes = b"") -> Piece:
    """The same of numbers that mostly are small: of those each is made once.

    Args:
        numbers: 0 or more.
        key: What stands in front of each.
    """
    most = int(numbers.max(initial=0))
    if most >= len(numbers):
        return in_digits(numbers, key)
    return Shared.of([b"%b%d" % (key, number) for number in range(most + 1)], numbers)


def _expect_all(failed: int) -> None:
    if failed >= 0:
        raise RuntimeError(f"line {failed} is longer than was counted")


class ImageTexts:
    """The images of one version of a table: `"op":...,"before":...,"after":...` of each row."""

    def __init__(self, table: TableName, definition: TableDefinition) -> None:
        """Takes the definition that its batches are of."""
        self._table = b'"database":%b,"table":%b' % (_encode(table.database), _encode(table.table))
        self._texts: dict[str, Writer] = {
            column.name: texts_of(parse_column_type(column.column_type)) for column in definition.columns
        }

    def pieces(self, batch: pa.RecordBatch) -> list[Piece] | None:
        """The pieces of the rows of a batch; None if an image lacks columns, or has what its types cannot express."""
        own = batch.num_columns - len(ROW_FIELDS) - 1
        facts = dict(zip((field.name for field in ROW_FIELDS), batch.columns[own + 1 :], strict=True))
        if any(facts[name].null_count < batch.num_rows for name in ("_missing", "_invalid")):
            return None
        ops = pc.index_in(facts["_op"], _OPS).to_numpy().astype(np.int64)
        names = batch.schema.names[:own]
        opened = [
            b',%b,"op":"insert","before":null,"after":{' % self._table,
            b',%b,"op":"update","before":{' % self._table,
            b',%b,"op":"delete","before":{' % self._table,
        ]
        return [
            Shared.of(opened, ops),
            *self._image(names, batch.column(own).flatten, ops != _INSERT),
            Shared.of([b"", b'},"after":{', b'},"after":null'], ops),
            *self._image(names, lambda: batch.columns[:own], ops != _DELETE),
            Shared.of([b"}", b"}", b""], ops),
        ]

    def _image(self, names: Sequence[str], columns: Columns, there: Mask) -> list[Piece]:
        if not there.any():
            return []
        found: list[Piece] = []
        for at, (name, column) in enumerate(zip(names, columns(), strict=True)):
            key = b"%b%b:" % (b"," if at else b"", _encode(name))
            states = np.where(there, IS_VALUE, NOT_THERE).astype(np.uint8)
            if column.null_count:
                states[there & column.is_null().to_numpy(zero_copy_only=False)] = IS_NULL
            found.append(Values(self._texts[name](column), states, key))
        return found
