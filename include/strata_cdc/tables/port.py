"""The table port: what an output must be able to do so that change tables can be published to it and read from it.
Not here: outputs (a folder each, as `delta/`), the choice of one (`outputs.py`), publishing (`commit.py`).

Files are Parquet. The publisher writes them below the table's URL before it commits them; the output decides which of
them belong to the table. An output must pass `tests/tables/conformance`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa


class CommitConflictError(Exception):
    """Another publisher came first: what was read of the table is outdated. Read it again, and start again."""


LATE_REMEDY = "Run the step again: it continues where it stopped. `strata doctor` says whether the store lists late."


class OutputError(Exception):
    """The output's library or its storage refuses; the message comes from there."""


class DataFile(Struct, frozen=True):
    """A file that a commit adds."""

    path: str
    """Relative to the table."""
    interval: int
    """The interval of all of its rows: start (microseconds UTC)."""
    size_bytes: int
    stats: str
    """Number of rows, bounds and NULLs by column, as JSON in the form of Delta's log. An output need not use them."""


class FileCommit(Struct, frozen=True):
    """What one commit did to the files of a table."""

    changes_rows: bool
    """False: readers see the same rows before and after it, in other files."""
    added: tuple[int, ...]
    """The interval of each file that it added."""
    removed: tuple[int, ...]


class OutputTable(Protocol):
    """A change table as it was when it was opened; a commit is refused if another process has committed since."""

    @property
    def version(self) -> int:
        """Number of the newest commit; it increases with each commit."""

    @property
    def columns(self) -> pa.Schema:
        """All columns, in the types that `Output.stored` returns, with the metadata with which they were added."""

    def files(self, start: int | None = None, end: int | None = None) -> dict[str, int]:
        """The files of the table by path relative to it, with the interval of each; by any writer. Only those of
        intervals with start <= interval < end (microseconds UTC)."""

    def bounds(self, column: str, after: int | None = None, last: int | None = None) -> dict[str, tuple[int, int]]:
        """By path, the smallest and largest value of a column of integers, for files that have no NULL in it. Only of
        those that may have values with after < value <= last.

        Files for which the output does not know this are not in the result.
        """

    def mark(self, name: str) -> int | None:
        """The number that the newest commit with this mark has set, or None."""

    def upgraded(self, source: str) -> Self:
        """The table in the current form: with what older versions of Strata have stored outside it.

        It is safe to repeat this, and to kill it.

        Raises:
            CommitConflictError: Another process committed meanwhile.
            LakeUnavailableError: The storage does not answer.
        """

    def with_columns(self, added: Sequence[pa.Field]) -> Self:
        """The table with more columns, which are NULL in existing rows; the table itself if none is added.

        If a column exists already, it is a struct, and gets the fields given here in addition to its own.

        Raises:
            CommitConflictError: Another process committed meanwhile.
            OutputError: It cannot be done.
        """

    def commit(
        self,
        source: str,
        added: Sequence[DataFile],
        removed: Mapping[str, int],
        *,
        marks: Mapping[str, int] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Makes one commit that removes and adds files; readers see all of it or nothing. The table then has it.

        Args:
            source: The source's name; all of its publishers exclude each other.
            added: Files that are already in the table's folder.
            removed: Path -> interval.
            marks: Numbers that are stored with the commit. If one is a position in a stream, a process that applies it
                a second time sees that it is there (`mark`).
            about: Metadata of the commit, for people.

        Raises:
            CommitConflictError: Another process has committed since the table was opened; nothing is changed.
            OutputError: It cannot be done.
        """

    def rearrange(self, source: str, added: Sequence[DataFile], removed: Mapping[str, int]) -> None:
        """As `commit`, where the added files have the rows of the removed files: who follows the table sees no change.

        Raises:
            CommitConflictError: Another process has committed since the table was opened; nothing is changed.
            OutputError: It cannot be done.
        """

    def trim(self, *, log_hours: int, removed_hours: int, needed: int | None) -> int:
        """Deletes commits that no reader needs, so that the log stays short. It is safe to repeat this, and to kill it.

        Args:
            log_hours: Younger commits stay, and what is needed to read the table as it was then.
            removed_hours: How long the log remembers which files were removed.
            needed: Commits after this version stay: `commits_since` is going to be called with it. None: it is not.

        Returns:
            The number of deleted files.

        Raises:
            CommitConflictError: Another process committed meanwhile; some files may be deleted.
            LakeUnavailableError: The storage refuses.
        """

    def unneeded(self, hours: int) -> Sequence[str]:
        """Paths of files below the table's folder that have not changed for so long, and that no state of the table
        has had in this time: what killed publishers have left, and what was removed before."""

    def commits_since(self, version: int) -> Sequence[FileCommit] | None:
        """The commits after a version, in order; None if the log does not have all of them any more."""

    def read_rows(self, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
        """Rows, in no order.

        Args:
            columns: Names of the requested columns; None for all.
            start: First requested interval (microseconds UTC, inclusive).
            end: End of the range (exclusive).
        """

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All rows, in no order, a batch at a time: memory is bounded whatever the table's size.

        Args:
            columns: Names of the requested columns; None for all.
        """

    def left_beside(self) -> Sequence[Self]:
        """What `upgraded` would add: until then, these are tables with further rows. Usually there are none."""


class Output(Protocol):
    """A kind of table."""

    def open(self, url: str) -> OutputTable | None:
        """The table as it is now, or None if there is none.

        Raises:
            LakeUnavailableError: The storage does not answer.
            OutputError: The table cannot be read.
        """

    def with_commit(self, known: Mapping[str, int]) -> frozenset[str]:
        """The tables that are seen to have a commit, with one request for each table.

        The other tables may have it too: an output deletes old commits after some time, and then only `open` shows it.

        Args:
            known: By URL of a table, the number of the commit.
        """

    def create(self, url: str, columns: Sequence[pa.Field]) -> OutputTable:
        """A new table without rows.

        Raises:
            CommitConflictError: Another process made it first.
            OutputError: It cannot be done.
        """

    def stored(self, columns: pa.Schema) -> pa.Schema:
        """These columns of a Parquet file in the form that `OutputTable.columns` has once they are added."""
