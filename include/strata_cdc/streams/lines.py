"""JSON lines of many rows at once. A text that is equal in a table or a transaction is made once, the texts of values
are made a column at a time, and each line is composed of these texts at its position in the stream's order.
Not here: which lines there are (`rendering.py`), texts of values (`changes/json_columns.py`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.binlog.kernels.json_lines import CHOSEN, END_LINE, FIRST_LINE, OWN, SAME, count_lines, put_lines
from strata_cdc.binlog.kernels.memory import address_of
from strata_cdc.changes.arrow import ROW_FIELDS
from strata_cdc.changes.json_columns import texts_of
from strata_cdc.changes.texts import Texts, constant_texts, integer_texts_of
from strata_cdc.schema.model.types import parse_column_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from strata_cdc.binlog.kernels.arrays import Bytes, IntRows, Ints
    from strata_cdc.changes.json_columns import TextsOf
    from strata_cdc.schema.model.definition import TableDefinition, TableName

    Columns = Callable[[], Sequence[pa.Array]]
    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_OPS: Final = pa.array(["insert", "update", "delete"])
_INSERT, _UPDATE, _DELETE = range(3)
_VALUE, _NULL = 1, 2
"""States of a value in an image that exists; 0: there is no such image."""
_PIECE_BYTES: Final = 256 << 10
"""Lines are written in parts of this size, one after the other: so much stays in the processor's cache."""
_CALL_BYTES: Final = 1 << 20
"""One call writes lines of this size, or one longer line, into memory that the next calls use again."""
_encode: Final = msgspec.json.encode


class LineColumn(Struct, frozen=True, eq=False, dict=True):
    """A part of each line, chosen from some texts."""

    texts: Texts
    chosen: Ints | None = None
    """For each line, the number of its text; None: the text with the line's own number, or the only text."""
    is_absent: Mask | None = None
    """For each text, whether nothing is written instead of it."""

    @cached_property
    def part(self) -> list[int]:
        """The column as the kernels take it (`binlog/kernels/json_lines.py`)."""
        chosen, absent = self.chosen, self.is_absent
        addresses = [*self.texts.addresses, CHOSEN if chosen is not None else SAME if len(self.texts) == 1 else OWN]
        addresses += [0, 0] if chosen is None else [address_of(chosen, np.int64), len(chosen)]
        return [*addresses, *([0, 0] if absent is None else [address_of(absent, np.bool_), len(absent)])]

    @classmethod
    def same(cls, text: bytes) -> LineColumn:
        """Makes a column with the same text in each line."""
        return cls(constant_texts(text))

    @classmethod
    def from_texts(cls, texts: Sequence[bytes], chosen: Ints) -> LineColumn:
        """Makes a column of a few texts that are used often."""
        return cls(constant_texts(*texts), chosen)


class Lines(Struct):
    """Some lines that are made of the same columns, and where they are in the stream."""

    seqs: Ints
    """Ordinals of the lines' transactions."""
    steps: Ints
    """The steps of the lines in their transactions."""
    pieces: list[LineColumn]


class Composition:
    """Lines that are composed of columns, in groups; the lines of a group have the same columns."""

    def __init__(self, groups: Sequence[Sequence[LineColumn]], counts: Sequence[int]) -> None:
        """Takes the columns of each group in their order, and how many lines each group has.

        One call of a kernel writes any number of lines. The kernel takes the addresses of the columns' data, which this
        object keeps alive.
        """
        self._pieces = groups
        self._parts = np.array([column.part for columns in groups for column in columns], np.int64)
        part_ends, line_ends = np.cumsum([len(columns) for columns in groups]), np.cumsum(counts)
        begins = [np.append(0, ends[:-1]) for ends in (part_ends, line_ends)]
        self._groups = np.stack([begins[0], part_ends, begins[1], line_ends], axis=1)
        self.sizes = np.zeros(line_ends[-1], np.int64)
        """Bytes of each line, group by group."""
        failed = count_lines(self._parts, self._groups, self.sizes)
        if failed >= 0:
            raise RuntimeError(f"part {failed} has no text for a line")

    def split(self, lines: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
        """Splits an array with an element for each line into the groups."""
        return np.split(lines, self._groups[:-1, END_LINE])

    def borders(self, ranks: Ints, borders: Ints) -> IntRows:
        """Returns which line of each group is the first after each border.

        Args:
            ranks: The rank of each line among all lines; ascending within a group.
            borders: The ranks that have a border before them.
        """
        borders_of = [np.searchsorted(mine, borders) for mine in self.split(ranks)]
        return np.ascontiguousarray((np.array(borders_of) + self._groups[:, [FIRST_LINE]]).T)

    def put(self, borders: IntRows, front: int, begins: Ints, ends: Ints, out: Bytes) -> None:
        """Writes lines at their places, as `put_lines` takes these; the places move to the ends of the lines."""
        failed = put_lines(self._parts, self._groups, borders, front, begins, ends, out)
        if failed >= 0:
            raise RuntimeError(f"line {failed} is not as long as was counted")


def joined(groups: Sequence[Lines]) -> Iterator[bytes]:
    """Yields all lines in the order of the stream, several at a time.

    The lines of each group are in order.
    """
    if not groups:
        return
    lines = Composition([group.pieces for group in groups], [len(group.seqs) for group in groups])
    order = np.lexsort(
        (np.concatenate([group.steps for group in groups]), np.concatenate([group.seqs for group in groups]))
    )
    in_order = np.append(0, np.cumsum(lines.sizes[order]))
    ranks, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    ranks[order], ends[order] = np.arange(len(order)), in_order[1:]
    begins = ends - lines.sizes
    borders = _borders(in_order, _PIECE_BYTES)
    some, fronts = lines.borders(ranks, borders), in_order[borders]
    calls = _borders(fronts, _CALL_BYTES)
    buffer = np.empty(np.diff(fronts[calls]).max(), np.uint8)
    for at, stop in pairwise(calls.tolist()):
        out = buffer[: fronts[stop] - fronts[at]]
        lines.put(some[at : stop + 1], int(fronts[at]), begins, ends, out)
        yield out.tobytes()


def _borders(begins: Ints, size: int) -> Ints:
    """The lines before which a new part of the output begins; then the end of the last line.

    Args:
        begins: Where each line begins, and where the last line ends.
        size: Bytes of a part; a part ends with the line that exceeds it.
    """
    borders = np.searchsorted(begins, np.arange(0, int(begins[-1]), size))
    return np.unique(np.append(borders, len(begins) - 1))


def composed(columns: Sequence[LineColumn], count: int) -> Texts:
    """Composes texts in the same way as lines."""
    lines = Composition([columns], [count])
    starts = np.append(0, np.cumsum(lines.sizes))
    out = np.empty(int(starts[-1]), np.uint8)
    lines.put(np.array([[0], [count]]), 0, starts[:-1].copy(), starts[1:], out)
    return Texts(out, starts)


def in_digits(numbers: Ints) -> LineColumn:
    """Makes a column with a number for each line."""
    return LineColumn(integer_texts_of(numbers))


def in_few_digits(numbers: Ints, key: bytes) -> list[LineColumn]:
    """Makes columns of a key and a number for each line. Most numbers are small, so the text of each small number is
    made once.

    Args:
        numbers: 0 or more.
        key: The text before each number.
    """
    most = int(numbers.max(initial=0))
    if most >= len(numbers):
        return [LineColumn.same(key), in_digits(numbers)]
    return [LineColumn(Texts.of([b"%b%d" % (key, number) for number in range(most + 1)]), numbers)]


class ImageTexts:
    """The images of one version of a table: `"op":...,"before":...,"after":...` of each row."""

    def __init__(self, table: TableName, definition: TableDefinition) -> None:
        """Takes the definition that its batches have."""
        self._table = b'"database":%b,"table":%b' % (_encode(table.database), _encode(table.table))
        self._texts: dict[str, TextsOf] = {
            column.name: texts_of(parse_column_type(column.column_type)) for column in definition.columns
        }

    def pieces(self, batch: pa.RecordBatch, behind: bytes) -> list[LineColumn] | None:
        """Returns the columns of a batch's rows; None if an image lacks columns, or has values that its types cannot
        express.

        The batch must have the definition with which this object was made. The text `behind` follows the images.
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
            LineColumn.from_texts(opened, ops),
            *before,
            LineColumn.from_texts([b"", closing + b'},"after":{', closing + b'},"after":null'], ops),
            *after,
            LineColumn.from_texts([closed + b"}" + behind, closed + b"}" + behind, behind], ops),
        ]

    def _image(self, names: Sequence[str], columns: Columns, there: Mask) -> tuple[list[LineColumn], bytes]:
        """The columns of an image, and the text that closes its last value."""
        image_columns, closing = list[LineColumn](), b""
        is_value = there.astype(np.int64)
        for at, (name, column) in enumerate(zip(names, columns() if there.any() else (), strict=False)):
            values, states = self._texts[name](column), is_value
            quote = b'"' if values.is_quoted else b""
            if column.null_count:
                states = is_value.copy()
                states[there & column.is_null().to_numpy(zero_copy_only=False)] = _NULL
            key = closing + b"%b%b:" % (b"," if at else b"", _encode(name))
            image_columns += [
                LineColumn.from_texts([b"", key + quote, key + b"null"], states),
                LineColumn(values.texts, None, states != _VALUE),
            ]
            closing = quote
            if quote and column.null_count:
                # Not every line has a value to close.
                image_columns.append(LineColumn.from_texts([b"", quote, b""], states))
                closing = b""
        return image_columns, closing
