"""Lines that are composed of columns of texts, many at once: each text is written at its position in the order of the
stream.
Not here: which lines there are (`streams/writing.py`), the columns of images (`image_texts.py`), of values
(`json_columns.py`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.json_lines import CHOSEN, END_LINE, FIRST_LINE, OWN, SAME, count_lines, put_lines
from strata_cdc.binlog.kernels.memory import address_of
from strata_cdc.changes.texts import Constants, Digits, ListedTexts, Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.binlog.kernels.arrays import Bytes, IntRows, Ints
    from strata_cdc.changes.texts import TextSource

    Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_CHUNK_BYTES: Final = 256 << 10
"""Lines are written in parts of this size, one after the other: so much stays in the processor's cache."""
_CALL_BYTES: Final = 1 << 20
"""One call writes lines of this size, or one longer line, into memory that the next calls use again."""


class LineColumn(Struct, frozen=True, eq=False, dict=True):
    """A part of each line, chosen from some texts."""

    texts: TextSource
    chosen: Ints | None = None
    """For each line, the number of its text; None: the text with the line's own number, or the only text."""
    is_absent: Mask | None = None
    """For each text, whether nothing is written instead of it."""

    @cached_property
    def part(self) -> list[int]:
        """The column as the kernels take it (`binlog/kernels/json_lines.py`)."""
        texts, chosen, absent = self.texts.made, self.chosen, self.is_absent
        addresses = [*texts.addresses, CHOSEN if chosen is not None else SAME if len(texts) == 1 else OWN]
        addresses += [0, 0] if chosen is None else [address_of(chosen, np.int64), len(chosen)]
        return [*addresses, *([0, 0] if absent is None else [address_of(absent, np.bool_), len(absent)])]


class ConstantPart(Struct, frozen=True, eq=False, dict=True):
    """A part that is the same in each line."""

    text: bytes

    @cached_property
    def _column(self) -> LineColumn:
        return LineColumn(Constants((self.text,)))

    @property
    def part(self) -> list[int]:
        """As `LineColumn.part`."""
        return self._column.part


LinePart = LineColumn | ConstantPart


class Lines(Struct, frozen=True, eq=False):
    """Some lines that are made of the same columns, and where they are in the stream."""

    seqs: Ints
    """Ordinals of the lines' transactions."""
    steps: Ints
    """The steps of the lines in their transactions."""
    columns: list[LinePart]


class Composition:
    """Lines that are composed of columns, in groups; the lines of a group have the same columns."""

    def __init__(self, groups: Sequence[Sequence[LinePart]], counts: Sequence[int]) -> None:
        """Takes the columns of each group in their order, and how many lines each group has.

        One call of a kernel writes any number of lines. The kernel takes the addresses of the columns' data, which this
        object keeps alive.
        """
        self._columns = groups
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
    lines = Composition([group.columns for group in groups], [len(group.seqs) for group in groups])
    order = np.lexsort(
        (np.concatenate([group.steps for group in groups]), np.concatenate([group.seqs for group in groups]))
    )
    in_order = np.append(0, np.cumsum(lines.sizes[order]))
    ranks, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    ranks[order], ends[order] = np.arange(len(order)), in_order[1:]
    begins = ends - lines.sizes
    borders = _borders(in_order, _CHUNK_BYTES)
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


class ComposedTexts(Struct, frozen=True, eq=False, dict=True):
    """Texts that are composed of columns in the same way as lines."""

    columns: Sequence[LinePart]
    count: int

    @cached_property
    def made(self) -> Texts:
        """The texts."""
        lines = Composition([self.columns], [self.count])
        starts = np.append(0, np.cumsum(lines.sizes))
        out = np.empty(int(starts[-1]), np.uint8)
        lines.put(np.array([[0], [self.count]]), 0, starts[:-1].copy(), starts[1:], out)
        return Texts(out, starts)


def in_few_digits(numbers: Ints, key: bytes) -> list[LinePart]:
    """Makes columns of a key and a number for each line. Most numbers are small, so the text of each small number is
    made once.

    Args:
        numbers: 0 or more.
        key: The text before each number.
    """
    most = int(numbers.max(initial=0))
    if most >= len(numbers):
        return [ConstantPart(key), LineColumn(Digits(numbers))]
    return [LineColumn(ListedTexts([b"%b%d" % (key, number) for number in range(most + 1)]), numbers)]
