"""Which published files a mirror's rows come from, so that it is seen when an interval behind it has others since.
Not here: reading the files (`changes.py`), what becomes of the mirror then (`mirrors/follow/follow.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS = 4


class AppliedFiles(Struct, frozen=True):
    """The files of a change table, in intervals from one start to another, as they were when they were applied."""

    version: int
    """Of the change table."""
    first: int
    """Start of the first interval that counts (microseconds UTC): what lies before was read from the server."""
    last: int
    """Start of the last one, in which the mirror's position is."""
    digest: str

    @classmethod
    def of(cls, files: Mapping[str, int], version: int, first: int, last: int) -> Self:
        """What a change table has now.

        Args:
            files: All of its files by path, with the start of each one's interval. A file is named by what it holds.
            version: Of the table.
            first: Start of the first interval that counts.
            last: Start of the last one.
        """
        found = sorted(f"{start} {path}" for path, start in files.items() if first <= start <= last)
        return cls(version, first, last, hashlib.sha256("\n".join(found).encode()).hexdigest()[:32])

    def still_holds(self, files: Mapping[str, int]) -> bool:
        """Whether a newer state of the change table has the same files there."""
        return AppliedFiles.of(files, self.version, self.first, self.last).digest == self.digest

    @property
    def text(self) -> str:
        """As a commit has it."""
        return f"{self.version} {self.first} {self.last} {self.digest}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The inverse; None where nothing was noted."""
        parts = text.split()
        if len(parts) != _PARTS:
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]), parts[3])
