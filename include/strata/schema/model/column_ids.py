"""Ids of a table's columns: a column has one for ever, whatever it and its table are called. Values and their text.
Not here: who gives them (`schema/history/identified_tables.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUN: Final = re.compile(r"(\d+)(?:-(\d+))?(?:<(\d+))?", re.ASCII)


class ColumnIds(Struct, frozen=True):
    """The ids of all columns of one table, in the order of its definition; unique within a source, from 1."""

    ids: tuple[int, ...]
    copied_from: tuple[int | None, ...]
    """As long as `ids`: the column that each was made like (CREATE TABLE ... LIKE); None for one made by itself."""

    @classmethod
    def from_text(cls, text: str) -> ColumnIds:
        """The inverse of `to_text`.

        Raises:
            ValueError: The text is something else.
        """
        pairs = [pair for run in filter(None, text.split(",")) for pair in _pairs(run)]
        return cls(tuple(column for column, _ in pairs), tuple(source for _, source in pairs))

    def to_text(self) -> str:
        """Runs of ids: `1-5,9`; `10-12<1` are copies of 1, 2 and 3."""
        runs: list[list[tuple[int, int | None]]] = []
        for pair in zip(self.ids, self.copied_from, strict=True):
            if runs and pair == _next(runs[-1][-1]):
                runs[-1].append(pair)
            else:
                runs.append([pair])
        return ",".join(_text(run[0], run[-1][0]) for run in runs)


def _next(pair: tuple[int, int | None]) -> tuple[int, int | None]:
    column, source = pair
    return column + 1, None if source is None else source + 1


def _text(first: tuple[int, int | None], last: int) -> str:
    column, source = first
    ids = str(column) if column == last else f"{column}-{last}"
    return ids if source is None else f"{ids}<{source}"


def _pairs(run: str) -> Iterator[tuple[int, int | None]]:
    match = _RUN.fullmatch(run)
    if match is None:
        raise ValueError(f"{run!r} is no run of column ids")
    first, last, source = (int(part) if part else None for part in match.groups())
    for at in range((last or first or 0) - (first or 0) + 1):
        yield (first or 0) + at, None if source is None else source + at
