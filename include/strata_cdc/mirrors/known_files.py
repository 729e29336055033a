"""The keys of data files in memory: sorted, to find many at once; many small files together; bounded.
Not here: what a key's code is, which rows are dead (`key_index.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_SMALL_ROWS: Final = 1 << 16
_TOGETHER: Final = 16
"""Number of small files that are put together, and of such groups too. The cost of a search grows with the segments."""


class KeySegment:
    """The codes of the keys of one or more files, sorted, with the file and row number of each row."""

    def __init__(
        self, paths: list[str], codes: Ints, rows: NDArray[np.uint32] | None, slots: NDArray[np.uint32] | None
    ) -> None:
        self.paths = paths
        self._codes = codes
        self._rows = rows
        """None: the rows are in the order of their codes."""
        self._slots = slots
        """Indexes in `paths`; None if there is only one path."""

    @classmethod
    def of_file(cls, path: str, codes: Ints) -> KeySegment:
        """The segment of one file, from the codes of its rows in order."""
        if bool(np.all(codes[:-1] <= codes[1:])):
            return cls([path], codes, None, None)
        order = np.argsort(codes, kind="stable")
        return cls([path], codes[order], order.astype(np.uint32), None)

    @classmethod
    def together(cls, segments: Sequence[KeySegment]) -> KeySegment:
        """One segment with the rows of several."""
        paths: list[str] = []
        slots = []
        for segment in segments:
            slots.append(len(paths) + segment.slots)
            paths += segment.paths
        codes = np.concatenate([segment._codes for segment in segments])  # noqa: SLF001  same class
        order = np.argsort(codes, kind="stable")
        rows = np.concatenate([segment.rows for segment in segments])
        return cls(paths, codes[order], rows[order], np.concatenate(slots)[order].astype(np.uint32))

    @property
    def rows(self) -> NDArray[np.uint32]:
        """Row number of each code."""
        return np.arange(len(self._codes), dtype=np.uint32) if self._rows is None else self._rows

    @property
    def slots(self) -> NDArray[np.uint32]:
        """Index in `paths` of the file of each code."""
        return np.zeros(len(self._codes), np.uint32) if self._slots is None else self._slots

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self._codes)

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self._codes.nbytes + sum(array.nbytes for array in (self._rows, self._slots) if array is not None)

    def find(self, requested: Ints, numbers: Sequence[int]) -> Ints:
        """Rows with one of some codes; several for a code if there are several.

        Args:
            requested: The codes, ascending.
            numbers: The number that the result has for each of the files.

        Returns:
            Three lines: index in `requested`, number of the file, number of the row.
        """
        codes = self._codes
        if not len(codes):
            return np.empty((3, 0), np.int64)
        first, last = np.searchsorted(requested, codes[0]), np.searchsorted(requested, codes[-1], side="right")
        near = requested[first:last]
        low = np.searchsorted(codes, near, side="left")
        which = np.flatnonzero(codes[np.minimum(low, len(codes) - 1)] == near)
        low = low[which]
        size = np.searchsorted(codes, near[which], side="right") - low
        if size.size and size.max() > 1:
            which, begin = np.repeat(which, size), np.repeat(low, size)
            low = begin + np.arange(len(begin)) - np.repeat(np.cumsum(size) - size, size)
        rows = low if self._rows is None else self._rows[low]
        slots = np.zeros(len(low), np.int64) if self._slots is None else self._slots[low]
        return np.stack([which + first, np.asarray(numbers, np.int64)[slots], rows.astype(np.int64)])


class KnownFiles:
    """Segments by file, within a bound of memory.

    Each search needs all files, one after the other. If the segments that were not used for longest were dropped first,
    a table larger than the bound would be read completely each time. So the largest segment is dropped, and of equal
    ones the newest: what fits stays in memory.
    """

    def __init__(self, bound_bytes: int) -> None:
        self._bound = bound_bytes
        self._segments: dict[int, KeySegment] = {}
        self._of: dict[str, int] = {}
        self._next = 0
        self.held_bytes = 0

    def get(self, path: str) -> KeySegment | None:
        """The segment that has a file."""
        number = self._of.get(path)
        return None if number is None else self._segments[number]

    def hold(self, path: str, codes: Ints) -> KeySegment:
        """Takes the codes of a file's rows."""
        made = KeySegment.of_file(path, codes)
        self._add(made)
        for least, most in ((1, 1), (2, _TOGETHER)):
            small = [
                number
                for number, segment in self._segments.items()
                if least <= len(segment.paths) <= most and segment.count < _SMALL_ROWS * most
            ]
            if len(small) >= _TOGETHER:
                self._add(KeySegment.together([self._drop(number) for number in small]))
        while self.held_bytes > self._bound and len(self._segments) > 1:
            self._drop(max(self._segments, key=self._price_of))
        return made

    def keep(self, paths: Collection[str]) -> None:
        """Drops segments that have none of these files."""
        for number, segment in list(self._segments.items()):
            if not any(path in paths for path in segment.paths):
                self._drop(number)

    def _price_of(self, number: int) -> tuple[bool, int, int]:
        """What dropping it saves; segments of many small files go last, since they cost most to read again."""
        segment = self._segments[number]
        return len(segment.paths) == 1, segment.nbytes, number

    def _add(self, segment: KeySegment) -> None:
        self._segments[self._next] = segment
        self._of.update(dict.fromkeys(segment.paths, self._next))
        self._next += 1
        self.held_bytes += segment.nbytes

    def _drop(self, number: int) -> KeySegment:
        gone = self._segments.pop(number)
        self.held_bytes -= gone.nbytes
        for path in gone.paths:
            if self._of.get(path) == number:
                del self._of[path]
        return gone
