"""Ids of a table's columns: a column keeps its id for ever, whatever names it and its table get. Values and their text.
Not here: assigning the ids (`schema/history/identified_tables.py`)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN: Final = re.compile(r"(\d+)(?:-(\d+))?(?:<(\d+))?", re.ASCII)


class ColumnIds(Struct, frozen=True):
    """The ids of all columns of one table, in the order of its definition; unique within a source, from 1."""

    ids: tuple[int, ...]
    copied_from: tuple[int | None, ...]
    """As long as `ids`: the column that each column is a copy of (CREATE TABLE ... LIKE); None if it is no copy."""

    @classmethod
    def from_text(cls, text: str) -> ColumnIds:
        """The inverse of `to_text`.

        Raises:
            ValueError: The text is not such a text.
        """
        pairs = [pair for run in filter(None, text.split(",")) for pair in _pairs(run)]
        return cls(tuple(column for column, _ in pairs), tuple(source for _, source in pairs))

    def origins_in(self, before: ColumnIds) -> list[int | None]:
        """For each of these columns its index among those of another version; None if that version does not have it."""
        ordinals = {column: at for at, column in enumerate(before.ids)}
        return [ordinals.get(column) for column in self.ids]

    def to_text(self) -> str:
        """Ranges of ids: `1-5,9`; `10-12<1` are copies of 1, 2 and 3."""
        ids, sources = self.ids, self.copied_from
        bounds = [
            at
            for at in range(1, len(ids))
            if ids[at] != ids[at - 1] + 1 or sources[at] != (None if (last := sources[at - 1]) is None else last + 1)
        ]
        runs = pairwise([0, *bounds, len(ids)]) if ids else ()
        return ",".join(_text(ids[begin], ids[end - 1], sources[begin]) for begin, end in runs)


def _text(first: int, last: int, source: int | None) -> str:
    ids = str(first) if first == last else f"{first}-{last}"
    return ids if source is None else f"{ids}<{source}"


def _pairs(run: str) -> Iterator[tuple[int, int | None]]:
    match = _RUN.fullmatch(run)
    if match is None:
        raise ValueError(f"{run!r} is no run of column ids")
    first, last, source = (int(part) if part else None for part in match.groups())
    for at in range((last or first or 0) - (first or 0) + 1):
        yield (first or 0) + at, None if source is None else source + at
