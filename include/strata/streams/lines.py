"""JSON lines of many rows at once: texts of what is alike in a table or a transaction are made once, those of values a
column at a time, and each line is put together of them at its place in the stream's order.
Not here: which lines there are (`rendering.py`), texts of values (`rows/json_columns.py`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata.kernels.json_lines import CHOSEN, OWN, SAME, count_lines, put_lines
from strata.kernels.memory import address_of
from strata.rows.arrow import ROW_FIELDS
from strata.rows.json_columns import texts_of
from strata.rows.texts import Texts, constant_texts
from strata.schema.model.types import parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata.kernels.arrays import Bytes, Ints
    from strata.rows.json_columns import TextsOf
    from strata.schema.model.definition import TableDefinition, TableName

    Columns = Callable[[], Sequence[pa.Array]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_OPS: Final = pa.array(["insert", "update", "delete"])
_INSERT, _UPDATE, _DELETE = range(3)
_VALUE, _NULL = 1, 2
"""Of a value in an image that is there; else 0."""
_CHUNK_BYTES: Final = 1 << 20
"""Of lines that are written at once, if one is not longer: however many groups they are of, so that they fit into the
processor's cache, and the memory that they were in serves the next ones."""
_encode: Final = msgspec.json.encode


class Piece(Struct, frozen=True, eq=False, dict=True):
    """A part of each line: one of some texts."""

    texts: Texts
    chosen: Ints | None = None
    """Which of the texts each line has; None: the text of its own number, or the only one."""
    is_absent: Mask | None = None
    """Of each text, whether nothing is put in its place."""

    @cached_property
    def part(self) -> list[int]:
        """As the kernels take it (`kernels/json_lines.py`)."""
        chosen, absent = self.chosen, self.is_absent
        found = [*self.texts.addresses, CHOSEN if chosen is not None else SAME if len(self.texts) == 1 else OWN]
        found += [0, 0] if chosen is None else [address_of(chosen, np.int64), len(chosen)]
        return [*found, *([0, 0] if absent is None else [address_of(absent, np.bool_), len(absent)])]

    @classmethod
    def same(cls, text: bytes) -> Piece:
        """The same text in each line."""
        return cls(constant_texts(text))

    @classmethod
    def of(cls, texts: Sequence[bytes], chosen: Ints) -> Piece:
        """One of a few that are wanted again."""
        return cls(constant_texts(*texts), chosen)


class Composition:
    """Lines that are put together of pieces."""

    def __init__(self, pieces: Sequence[Piece], count: int) -> None:
        """Takes the pieces in their order, and how many lines there are.

        One call of a kernel writes any number of lines. It takes the addresses of what the pieces have, which are held
        here.
        """
        self._pieces = pieces
        self._parts = np.array([piece.part for piece in pieces], np.int64)
        self.sizes = np.zeros(count, np.int64)
        """Bytes of each line."""
        failed = count_lines(self._parts, self.sizes)
        if failed >= 0:
            raise RuntimeError(f"piece {failed} has no text for a line")

    def put(self, first: int, places: Ints, ends: Ints, out: Bytes) -> None:
        """Puts lines from one on at their places, which move to their ends."""
        failed = put_lines(self._parts, first, places, ends, out)
        if failed >= 0:
            raise RuntimeError(f"line {first + failed} is not as long as was counted")


class Lines(Struct):
    """Some lines, and where they are in the stream."""

    seqs: Ints
    """Ordinals of their transactions."""
    steps: Ints
    """In their transaction."""
    pieces: list[Piece]


def joined(groups: Sequence[Lines]) -> Iterator[bytes]:
    """All lines in the order of the stream, some at a time: what is written is then still in the processor's cache.

    The lines of each group are in order.
    """
    if not groups:
        return
    composed = [Composition(group.pieces, len(group.seqs)) for group in groups]
    order = np.lexsort((np.concatenate([one.steps for one in groups]), np.concatenate([one.seqs for one in groups])))
    ends = np.cumsum(np.concatenate([one.sizes for one in composed])[order])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ranks = np.split(rank, np.cumsum([len(group.seqs) for group in groups])[:-1])
    borders = _borders(ends)
    # Of each group which of its lines are in front of each border, and where its lines begin and end.
    some = np.array([np.searchsorted(mine, borders) for mine in ranks])
    mine_end = [ends[mine] for mine in ranks]
    mine_begin = [mine - one.sizes for mine, one in zip(mine_end, composed, strict=True)]
    fronts = np.append(0, ends)[borders].tolist()
    buffer = np.empty(max(end - begin for begin, end in pairwise(fronts)), np.uint8)
    for at, (front, end) in enumerate(pairwise(fronts)):
        out = buffer[: end - front]
        for group, (first, stop) in enumerate(some[:, at : at + 2].tolist()):
            if first < stop:
                places = mine_begin[group][first:stop] - front
                composed[group].put(first, places, mine_end[group][first:stop] - front, out)
        yield out.tobytes()


def _borders(ends: Ints) -> list[int]:
    """From which line to which one is written at once."""
    found = [0]
    while found[-1] < len(ends):
        front = int(ends[found[-1] - 1]) if found[-1] else 0
        found.append(max(int(np.searchsorted(ends, front + _CHUNK_BYTES, "right")), found[-1] + 1))
    return found


def composed(pieces: Sequence[Piece], count: int) -> Texts:
    """Texts that are put together as lines are."""
    lines = Composition(pieces, count)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(lines.sizes, out=starts[1:])
    out = np.empty(int(starts[-1]), np.uint8)
    lines.put(0, starts[:-1].copy(), starts[1:], out)
    return Texts(out, starts)


def in_digits(numbers: Ints) -> Piece:
    """A number of each line."""
    return Piece(Texts.of_column(pa.array(numbers).cast(pa.string())))


def in_few_digits(numbers: Ints, key: bytes) -> list[Piece]:
    """Numbers that mostly are small, behind their key: of those each is made once.

    Args:
        numbers: 0 or more.
        key: What stands in front of each.
    """
    most = int(numbers.max(initial=0))
    if most >= len(numbers):
        return [Piece.same(key), in_digits(numbers)]
    return [Piece(Texts.of([b"%b%d" % (key, number) for number in range(most + 1)]), numbers)]


class ImageTexts:
    """The images of one version of a table: `"op":...,"before":...,"after":...` of each row."""

    def __init__(self, table: TableName, definition: TableDefinition) -> None:
        """Takes the definition that its batches are of."""
        self._table = b'"database":%b,"table":%b' % (_encode(table.database), _encode(table.table))
        self._texts: dict[str, TextsOf] = {
            column.name: texts_of(parse_column_type(column.column_type)) for column in definition.columns
        }

    def pieces(self, batch: pa.RecordBatch, behind: bytes) -> list[Piece] | None:
        """The pieces of the rows of a batch; None if an image lacks columns, or has what its types cannot express.

        Args:
            batch: Of the definition that it was made with.
            behind: What stands behind the images.
        """
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
        before, closing = self._image(names, batch.column(own).flatten, ops != _INSERT)
        after, closed = self._image(names, lambda: batch.columns[:own], ops != _DELETE)
        return [
            Piece.of(opened, ops),
            *before,
            Piece.of([b"", closing + b'},"after":{', closing + b'},"after":null'], ops),
            *after,
            Piece.of([closed + b"}" + behind, closed + b"}" + behind, behind], ops),
        ]

    def _image(self, names: Sequence[str], columns: Columns, there: Mask) -> tuple[list[Piece], bytes]:
        """The pieces of an image, and what closes its last value."""
        found, closing = list[Piece](), b""
        is_value = there.astype(np.int64)
        for at, (name, column) in enumerate(zip(names, columns() if there.any() else (), strict=False)):
            values, states = self._texts[name](column), is_value
            quote = b'"' if values.is_quoted else b""
            if column.null_count:
                states = is_value.copy()
                states[there & column.is_null().to_numpy(zero_copy_only=False)] = _NULL
            key = closing + b"%b%b:" % (b"," if at else b"", _encode(name))
            found += [Piece.of([b"", key + quote, key + b"null"], states), Piece(values.texts, None, states != _VALUE)]
            closing = quote
            if quote and column.null_count:
                # Not each line has a value to close.
                found.append(Piece.of([b"", quote, b""], states))
                closing = b""
        return found, closing
