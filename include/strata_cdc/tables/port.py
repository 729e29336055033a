"""The table port: what an output has to be able to do for change tables to be published to it and read from it.
Not here: outputs (a folder each, as `delta/`), the choice of one (`outputs.py`), publishing (`commit.py`).

Files are Parquet. The publisher writes them below the table's URL before it commits them; an output says which of them
count. `tests/tables/conformance` is what an output has to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa


class CommitConflictError(Exception):
    """Another publisher came first: what was read of the table is old. Look again, and begin anew."""


class OutputError(Exception):
    """The output's library or its storage refuses; the message says what it says."""


class DataFile(Struct, frozen=True):
    """A file that a commit adds."""

    path: str
    """Relative to the table."""
    interval: int
    """That owns all of its rows: start (microseconds UTC)."""
    size_bytes: int
    stats: str
    """Number of rows, bounds and NULLs by column, as JSON in the form of Delta's log. An output need not use them."""


class OutputTable(Protocol):
    """A change table as it was when it was opened; a commit is refused if anybody has committed since."""

    @property
    def version(self) -> int:
        """Number of the newest commit; grows with each."""

    @property
    def columns(self) -> pa.Schema:
        """All columns in the types in which `Output.stored` gives them, with the metadata that they were added with."""

    def files(self) -> dict[str, int]:
        """The files that count, by path relative to the table, with the interval of each; whoever wrote them."""

    def bounds(self, column: str) -> dict[str, tuple[int, int]]:
        """The least and the greatest value of a column of whole numbers in files that have no NULL in it, by path.

        Files of which the output does not know it are left out.
        """

    def mark(self, name: str) -> int | None:
        """The number that the newest commit with this mark has set, or None."""

    def upgraded(self, source: str) -> Self:
        """The table in today's form: what older versions of Strata left beside it is part of it from now on.

        Safe to repeat, and to be killed in.

        Raises:
            CommitConflictError: Somebody committed meanwhile.
            LakeUnavailableError: The storage does not answer.
        """

    def with_columns(self, added: Sequence[pa.Field]) -> Self:
        """The table with further columns, NULL in the rows that are there; itself if none is added.

        A column that is there already is a struct and gets the fields given here beside its own.

        Raises:
            CommitConflictError: Somebody committed meanwhile.
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
        """One commit, which readers see whole or not at all: files out, files in. The table has it afterwards.

        Args:
            source: The source's name; all of its publishers exclude each other.
            added: Files that are in their place.
            removed: Path -> interval.
            marks: Numbers that stand with the commit: with the position of a stream in one, who applies it twice sees
                that it is there (`mark`).
            about: What the commit says of itself, for people.

        Raises:
            CommitConflictError: Somebody has committed since the table was opened; nothing is changed.
            OutputError: It cannot be done.
        """

    def read(self, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
        """Rows, in no order.

        Args:
            columns: Names of those that are wanted; None for all.
            start: First interval that is wanted (microseconds UTC, inclusive).
            end: Where to end (exclusive).

        Raises:
            LakeUnavailableError: The storage does not answer.
        """

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All rows, in no order, some at a time: memory is bounded whatever the table's size.

        Args:
            columns: Names of those that are wanted; None for all.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """

    def left_beside(self) -> Sequence[Self]:
        """What `upgraded` would take: tables with further rows, until then. None is the usual."""


class Output(Protocol):
    """A kind of table."""

    def open(self, url: str) -> OutputTable | None:
        """The table as it is now, or None if there is none.

        Raises:
            LakeUnavailableError: The storage does not answer.
            OutputError: What is there cannot be read.
        """

    def with_commit(self, known: Mapping[str, int]) -> frozenset[str]:
        """The tables in which a commit can be seen to be there, by one look at each.

        The others may have it all the same: an output forgets old commits in time, and only `open` tells.

        Args:
            known: By URL of a table, the number of the commit.

        Raises:
            LakeUnavailableError: The storage does not answer.
        """

    def create(self, url: str, columns: Sequence[pa.Field]) -> OutputTable:
        """A new table without rows.

        Raises:
            CommitConflictError: Somebody else made it first.
            OutputError: It cannot be done.
        """

    def stored(self, columns: pa.Schema) -> pa.Schema:
        """These columns of a Parquet file as `OutputTable.columns` has them once they are added."""
