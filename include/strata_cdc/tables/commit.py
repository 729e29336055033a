"""Publishes: staged files become rows that readers see, in one Delta commit for each table and interval.
Not here: whether they may be published (`pipeline/publish/publish_run.py`), which column of the table gets which
column of a file (`continued.py`)."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from strata_cdc.errors import LakeUnavailableError, LateListingError
from strata_cdc.files.storage import arrow_file_system, write_file
from strata_cdc.store.owned import merged_meanwhile
from strata_cdc.tables.continued import place_columns
from strata_cdc.tables.layout import data_path, interval_key, published_name, table_url
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.parquet_names import rename_columns
from strata_cdc.tables.pinned import read_pinned, refuse_changed
from strata_cdc.tables.port import CommitConflictError, DataFile, OutputError
from strata_cdc.tables.same_rows import same_rows
from strata_cdc.tables.statistics import renamed_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.owned import OwnedInterval
    from strata_cdc.tables.port import Output, OutputTable
    from strata_cdc.tables.write import StagedFile

_Found = TypeVar("_Found")
ATTEMPTS = 12
"""How often a publication is tried again because another commit came first."""
FIRST_WAIT_SECONDS = 0.05
"""Wait before the second attempt; it doubles each time, up to a second."""


class TableCommit(Struct, frozen=True):
    """The result of a publication in a table."""

    database: str
    table: str
    version: int
    """Version of the table that has the interval's rows."""
    rows: int
    """Rows of the interval that are published now."""
    added_files: int
    removed_files: int
    """Like `added_files`, 0 if the interval was already published with just these files: then there was no commit."""


def publish(
    lake: str,
    source: str,
    table: TableName,
    interval: int,
    staged: Sequence[StagedFile],
    output: Output = OUTPUT,
    *,
    known: int | None = None,
    span: OwnedInterval | None = None,
) -> TableCommit | None:
    """Makes these files, and no others, what readers see of a table and interval.

    It is safe to repeat this, and to run it twice at the same time. Earlier files of the interval that are not among
    the staged ones are removed in the commit that adds these; if no row differs, there is no commit. A staged file that
    is in the table's folder already is committed as it is (decision 118). It is copied if it is somewhere else, as a
    former version has left it, or if the table has other names for its columns.

    Args:
        interval: Start of the interval (microseconds UTC).
        staged: All files of the table and interval; without files, the interval becomes empty.
        output: The kind of table.
        known: A version that the table is known to have had.
        span: The interval as it is planned: its files begin in it, and have the rows of its transactions and no others.
            None: only files that are known to be of the interval's start are replaced.

    Returns:
        None if the interval has no rows and had none.

    Raises:
        DamagedFileError: A staged file does not have the bytes that were decoded; nothing of the table is committed.
        LostTableError: The table lacks the version `known`, or is damaged; nothing is committed to what is left of it.
        AlreadyRunningError: The interval is part of a longer one by now; nothing is committed.
        LakeUnavailableError: The storage does not answer, or other publishers always came first.
    """
    work = _IntervalPublication(output, lake, source, table, interval, tuple(staged), known, span, {}, {}, {})
    return committed(work.attempt, source, table, interval)


def committed(attempt: Callable[[], _Found], source: str, table: TableName, interval: int) -> _Found:
    """The result of an attempt to commit, which is made again as long as others commit first.

    Args:
        attempt: Opens the table and commits.
        interval: Start of the interval (microseconds UTC).

    Raises:
        LakeUnavailableError: The storage does not answer, or other publishers always came first.
    """
    wait = FIRST_WAIT_SECONDS
    for number in range(ATTEMPTS):
        if number:
            time.sleep(wait)
            wait = min(2 * wait, 1.0)
        try:
            return attempt()
        except CommitConflictError:
            continue
        except LateListingError:
            if number == ATTEMPTS - 1:
                raise
        except (OSError, OutputError) as error:
            raise LakeUnavailableError(
                f"interval {interval_key(interval)} cannot be committed: {error}", source=source, table=str(table)
            ) from error
    raise LakeUnavailableError(
        f"interval {interval_key(interval)} could not be committed in {ATTEMPTS} attempts: other writers committed "
        "first each time, or the store lists late",
        source=source,
        table=str(table),
        remedy="Run the step again; it continues where it stopped.",
    )


class _IntervalPublication(Struct, frozen=True):
    """The publication of one interval of one table; it holds nothing that a failed attempt would have to undo."""

    output: Output
    lake: str
    source: str
    table: TableName
    interval: int
    staged: tuple[StagedFile, ...]
    known: int | None
    span: OwnedInterval | None
    schemas: dict[int, pa.Schema]
    """The columns of each version's files, once they have been read."""
    held: dict[str, bytes]
    """By URL, content that was read for a file's columns, until it is placed: at most one file for each version."""
    placed: dict[str, DataFile]
    """By path, files that are already in the table's folder, even if the attempt that wrote them failed."""

    @property
    def url(self) -> str:
        return table_url(self.lake, self.source, self.table)

    def attempt(self) -> TableCommit | None:
        table = open_changes(self.lake, self.source, self.table, self.known, self.output)
        if table is not None:
            table = table.upgraded(self.source)
        wanted: dict[str, tuple[StagedFile, dict[str, str]]] = {}
        for version_id in sorted({file.version_id for file in self.staged}):
            of_version = [file for file in self.staged if file.version_id == version_id]
            table, names = self._with_columns(table, self._schema_of(of_version[0]))
            for file in of_version:
                wanted[data_path(self.interval, published_name(file.file_name, names))] = file, names
        return None if table is None else self._replace(table, wanted)

    def _schema_of(self, file: StagedFile) -> pa.Schema:
        if file.version_id not in self.schemas:
            self.schemas[file.version_id] = self.output.stored(self._read_schema(file))
        return self.schemas[file.version_id]

    def _read_schema(self, file: StagedFile) -> pa.Schema:
        if file.url.startswith(f"{self.url}/"):
            refuse_changed(file)
            return _opened(file.url).schema_arrow
        content = self.held[file.url] = read_pinned(file)
        return pq.read_schema(pa.BufferReader(content))

    def _with_columns(self, table: OutputTable | None, schema: pa.Schema) -> tuple[OutputTable, dict[str, str]]:
        placement = place_columns(() if table is None else table.columns, schema)
        if table is None:
            return self.output.create(self.url, placement.added), placement.names
        return table.with_columns(placement.added), placement.names

    def _replace(self, table: OutputTable, wanted: dict[str, tuple[StagedFile, dict[str, str]]]) -> TableCommit | None:
        """Makes one commit: removes earlier files of the interval, and adds these."""
        end = self.interval + 1 if self.span is None else self.span.end
        former = table.files(self.interval, end)
        if not former and not wanted:
            return None
        self._refuse_merged(table, former)
        removed = {path: start for path, start in former.items() if path not in wanted}
        coming = [path for path in wanted if path not in former]
        if removed and coming and self._has_rows(removed, [wanted[path] for path in coming]):
            # Merged files have the same rows in other files. Replaced, they would be other rows to mirrors.
            removed, coming = {}, []
        added = [self._place(path, *wanted[path]) for path in coming]
        if added or removed:
            table.commit(self.source, added, removed, about={"strata.interval": interval_key(self.interval)})
        return TableCommit(
            database=self.table.database,
            table=self.table.table,
            version=table.version,
            rows=sum(file.rows for file, _ in wanted.values()),
            added_files=len(added),
            removed_files=len(removed),
        )

    def _refuse_merged(self, table: OutputTable, former: Mapping[str, int]) -> None:
        """Refuses to commit if files of the interval have rows of others, or the other way round: then it was merged
        with its neighbours after the run was planned."""
        if self.span is None:
            return
        first, last = self.span.after_seq, self.span.last_seq
        bounds = table.bounds("_seq", first, last)
        others = former.keys() - bounds.keys()
        is_of_others = bool(others) and not others.isdisjoint(table.bounds("_seq"))
        if is_of_others or not all(
            path in former and first < low and high <= last for path, (low, high) in bounds.items()
        ):
            raise merged_meanwhile(self.source, self.interval, self.span.end, table=str(self.table))

    def _has_rows(self, removed: Mapping[str, int], coming: Sequence[tuple[StagedFile, dict[str, str]]]) -> bool:
        """Whether published files have the same rows as staged ones; no if they cannot be read."""
        with suppress(OSError, pa.ArrowException):
            return same_rows(
                [_opened(f"{self.url}/{path}") for path in removed],
                [_renamed(*file_and_names) for file_and_names in coming],
            )
        return False

    def _place(self, path: str, file: StagedFile, names: dict[str, str]) -> DataFile:
        """A staged file at its path in the table, with the table's names of its columns."""
        if file.url == f"{self.url}/{path}":
            refuse_changed(file)
            return DataFile(path, self.interval, file.size_bytes, file.statistics)
        if path not in self.placed:
            content = self.held.pop(file.url, None)
            parts = rename_columns(read_pinned(file) if content is None else content, names)
            write_file(f"{self.url}/{path}", *parts)
            stats = json.dumps(renamed_statistics(json.loads(file.statistics), names))
            self.placed[path] = DataFile(path, self.interval, sum(map(len, parts)), stats)
        return self.placed[path]


def _opened(url: str) -> pq.ParquetFile:
    files, path = arrow_file_system(url)
    return pq.ParquetFile(path, filesystem=files)


def _renamed(file: StagedFile, names: dict[str, str]) -> pq.ParquetFile:
    """A staged file with the table's names of its columns."""
    if not names:
        return _opened(file.url)
    return pq.ParquetFile(pa.BufferReader(b"".join(rename_columns(read_pinned(file), names))))
