"""The published files that a mirror's rows come from: they show whether an applied interval was published again.
Not here: reading the files (`changes.py`), what happens to the mirror then (`mirrors/follow/follow.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.tables.port import FileCommit

_PARTS = 4
_KEY = "strata.taken"


class AppliedFiles(Struct, frozen=True):
    """The files of a change table, in intervals from one start to another, as they were when they were applied."""

    version: int
    """Version of the change table."""
    first: int
    """Start of the first interval that counts (microseconds UTC): earlier rows were read from the server."""
    last: int
    """Start of the last interval, in which the mirror's position is."""
    digest: str

    @classmethod
    def from_files(cls, files: Mapping[str, int], version: int, first: int, last: int) -> Self:
        """The current files of a change table.

        Args:
            files: All files of the change table by path, with the start of each file's interval. A file's name depends
                on its content.
            version: Version of the change table.
            first: Start of the first interval that counts.
            last: Start of the last interval.
        """
        lines = sorted(f"{start} {path}" for path, start in files.items() if first <= start <= last)
        return cls(version, first, last, hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32])

    def still_holds(self, files: Mapping[str, int]) -> bool:
        """Whether a newer state of the change table has the same files in these intervals."""
        return AppliedFiles.from_files(files, self.version, self.first, self.last).digest == self.digest

    def after(self, commits: Iterable[FileCommit]) -> Self | None:
        """The same after commits that have not changed the rows of these intervals; None if one has.

        Args:
            commits: Those after `version`, in order. If files were merged with files of earlier intervals, those count,
                too.
        """
        first = self.first
        for commit in commits:
            is_here = any(first <= start <= self.last for start in (*commit.removed, *commit.added))
            if is_here and commit.changes_rows:
                return None
            if any(first <= start <= self.last for start in commit.removed):
                first = min([first, *commit.added])
        return structs.replace(self, first=first)

    @property
    def text(self) -> str:
        """The text that is stored in a commit."""
        return f"{self.version} {self.first} {self.last} {self.digest}"

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Reads what `text` wrote; None if nothing was noted."""
        parts = text.split()
        if len(parts) != _PARTS:
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]), parts[3])


def applied_metadata(note: str) -> dict[str, str]:
    """The text of some applied files as custom metadata of a commit in Delta's log; empty for no text."""
    return {_KEY: note} if note else {}


def applied_note(metadata: Mapping[str, Any]) -> str:
    """Reads what `applied_metadata` made; empty if the commit has none."""
    return str(metadata.get(_KEY, ""))
