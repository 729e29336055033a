"""The table port implemented with Delta.
Not here: the log (`log.py`), tables of older versions of Strata (`old_generations.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError
from pyarrow.fs import SubTreeFileSystem

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.storage import arrow_file_system
from strata_cdc.tables.delta.log import (
    add_actions,
    bounds_of,
    columns_of,
    commit_files,
    create_table,
    existing_commits,
    file_commits,
    has_commit,
    live_files,
    open_table,
    require_newest,
    stored,
    with_columns,
)
from strata_cdc.tables.delta.old_generations import fold_generations, later_generations
from strata_cdc.tables.delta.pool import OpenTable, lend, reopen
from strata_cdc.tables.delta.trim import keep_short, trim_if_due, trim_log
from strata_cdc.tables.layout import INTERVAL
from strata_cdc.tables.port import CommitConflictError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strata_cdc.tables.port import DataFile, FileCommit

_UTC = pa.timestamp("us", tz="UTC")


@contextmanager
def _as_the_port_says() -> Iterator[None]:
    try:
        yield
    except CommitFailedError as error:
        raise CommitConflictError from error
    except DeltaError as error:
        raise OutputError(str(error)) from error


@contextmanager
def _committing(url: str, version: int) -> Iterator[None]:
    """Once it has committed, deltalake (1.6) lists the log, and fails if it does not see the commit: then the table
    has to be opened again to know whether it is made."""
    try:
        yield
    except DeltaError as error:
        if has_commit(url, version + 1):
            raise CommitConflictError from error
        raise


class DeltaChanges:
    """A change table that is a Delta table; see `OutputTable`."""

    def __init__(self, opened: OpenTable) -> None:
        lend(self, opened)
        self._opened = opened
        self._table = opened.table
        self._url = opened.url
        self._known: tuple[int, pa.Table] | None = None

    @property
    def version(self) -> int:
        """The newest version of the Delta table."""
        return self._table.version()

    @property
    def columns(self) -> pa.Schema:
        """The columns, with their metadata in Delta's log."""
        return columns_of(self._table)

    @_as_the_port_says()
    def files(self, start: int | None = None, end: int | None = None) -> dict[str, int]:
        """The files that the log refers to."""
        return live_files(self._actions(), start, end)

    @_as_the_port_says()
    def bounds(self, column: str, after: int | None = None, last: int | None = None) -> dict[str, tuple[int, int]]:
        """From the statistics in the log."""
        return bounds_of(self._actions(), column, after, last)

    def _actions(self) -> pa.Table:
        """All live files, read once for each version: there may be a hundred thousand."""
        if self._known is None or self._known[0] != self.version:
            self._known = self.version, add_actions(self._table)
        return self._known[1]

    def mark(self, name: str) -> int | None:
        """The version of an application transaction."""
        return self._table.transaction_version(name)

    @_as_the_port_says()
    def upgraded(self, source: str) -> DeltaChanges:
        """The table with the rows of its later generations."""
        with _committing(self._url, self.version):
            folded = fold_generations(self._table, self._url, source)
        return self if folded is self._table else DeltaChanges(OpenTable(self._url, folded))

    @_as_the_port_says()
    def with_columns(self, added: Sequence[pa.Field]) -> DeltaChanges:
        """The table with more columns, in a commit of their own."""
        if not added:
            return self
        with _committing(self._url, self.version):
            return DeltaChanges(OpenTable(self._url, with_columns(self._table, self._url, added)))

    @_as_the_port_says()
    def commit(
        self,
        source: str,
        added: Sequence[DataFile],
        removed: Mapping[str, int],
        *,
        marks: Mapping[str, int] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """One Delta commit; marks are application transactions, `about` is custom metadata."""
        with _committing(self._url, self.version):
            commit_files(self._table, source, added, removed, marks=marks, about=about)
        self._opened.note()
        trim_if_due(self._table, self._url)

    @_as_the_port_says()
    def rearrange(self, source: str, added: Sequence[DataFile], removed: Mapping[str, int]) -> None:
        """One Delta commit whose actions have `dataChange` false: streams of other readers pass over it."""
        with _committing(self._url, self.version):
            commit_files(self._table, source, added, removed, changes_rows=False)
        self._opened.note()

    @_as_the_port_says()
    def trim(self, *, log_hours: int, removed_hours: int, needed: int | None) -> int:
        """Deletes files of `_delta_log`; checkpoints then forget removed files after `removed_hours`."""
        keep_short(self._table, removed_hours)
        return trim_log(self._table, self._url, hours=log_hours, needed=needed)

    @_as_the_port_says()
    def unneeded(self, hours: int) -> Sequence[str]:
        """What a full `vacuum` would delete."""
        return self._table.vacuum(retention_hours=hours, dry_run=True, enforce_retention_duration=False, full=True)

    def commits_since(self, version: int) -> Sequence[FileCommit] | None:
        """From the log's files."""
        return file_commits(self._url, version, self.version)

    def read_rows(self, columns: Sequence[str] | None, start: int | None, end: int | None) -> pa.Table:
        """Rows as Arrow reads them."""
        filters = [
            (INTERVAL, operator, pa.scalar(bound, _UTC))
            for operator, bound in ((">=", start), ("<", end))
            if bound is not None
        ]
        try:
            # Not with deltalake's (1.6) own file system, which is written in Python: Arrow (26.0) may free bytes of it
            # in a thread of its own while the interpreter ends. Python (3.11) ends a thread that requests its lock so
            # late, in the middle of a C++ destructor, and that aborts the process (exit code 134).
            files, path = arrow_file_system(self._table.table_uri)
            return self._table.to_pyarrow_table(
                columns=None if columns is None else list(columns),
                filesystem=SubTreeFileSystem(path, files),
                filters=filters or None,
            )
        except OSError as error:
            raise LakeUnavailableError(f"published files cannot be read: {error}") from error

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """All rows, a row group at a time."""
        try:
            files, path = arrow_file_system(self._table.table_uri)  # as in `read`
            dataset = self._table.to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, files))
            # Not `to_batches`: whatever read-ahead is set, Arrow (26.0) decodes as many row groups ahead as fit between
            # it and a slower reader.
            for fragment in dataset.get_fragments():
                # A new fragment for each file: those of the dataset would keep what they have read of each file's end.
                file = fragment.format.make_fragment(fragment.path, fragment.filesystem, fragment.partition_expression)
                for group in file.split_by_row_group():
                    yield group.to_table(dataset.schema, None if columns is None else list(columns))
        except OSError as error:
            raise LakeUnavailableError(f"published files cannot be read: {error}") from error

    @_as_the_port_says()
    def left_beside(self) -> Sequence[DeltaChanges]:
        """Later generations that an older version of Strata has published."""
        later = later_generations(self._table, self._url)
        return [DeltaChanges(OpenTable(table.table_uri, table)) for table in later.values()]


class DeltaOutput:
    """Change tables are Delta tables, partitioned by interval; see `Output`."""

    @_as_the_port_says()
    def open(self, url: str) -> DeltaChanges | None:
        """The Delta table at the URL, with its newest commit."""
        opened = reopen(url)
        if opened is None and (table := open_table(url)) is not None:
            opened = OpenTable(url, table)
        if opened is None:
            return None
        require_newest(opened.table, url)
        return DeltaChanges(opened)

    def with_commit(self, known: Mapping[str, int]) -> frozenset[str]:
        """Looks for the commit's file in the log."""
        return existing_commits(known)

    @_as_the_port_says()
    def create(self, url: str, columns: Sequence[pa.Field]) -> DeltaChanges:
        """A new Delta table."""
        return DeltaChanges(OpenTable(url, create_table(url, columns)))

    def stored(self, columns: pa.Schema) -> pa.Schema:
        """The columns in Delta's types."""
        return stored(columns)
