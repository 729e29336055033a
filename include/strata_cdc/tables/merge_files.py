"""Merges the files of one interval of a change table into few large ones, in one commit; no row changes.
Not here: which intervals become one (`store/merges.py`), when (`pipeline/housekeep/merge_intervals.py`).

An interval that was made of several has their files, which begin at the starts of these: that is where its rows were
published. After this they begin at its own start. Who opened the table before still reads the earlier files, which
`delete_merged` deletes once they are old.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from strata_cdc.arrow_columns import repeated_number
from strata_cdc.clock import from_micros
from strata_cdc.errors import DamagedFileError, StrataError
from strata_cdc.files.storage import (
    arrow_file_system,
    content_digest,
    delete_file,
    delete_folder,
    file_times,
    list_folders,
    read_file,
    write_file,
)
from strata_cdc.tables.commit import committed
from strata_cdc.tables.layout import INTERVAL, data_path, interval_key, table_url
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.lost import open_changes
from strata_cdc.tables.ordered_rows import ordered_groups
from strata_cdc.tables.outputs import OUTPUT
from strata_cdc.tables.port import CommitConflictError, DataFile, OutputError
from strata_cdc.tables.statistics import delta_statistics
from strata_cdc.tables.write import HeldFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.tables.port import Output, OutputTable

_PREFIX: Final = "merged-"
_DIGEST: Final = 20
_NAMED_BY_CONTENT: Final = re.compile(r"(?:merged|[0-9a-f]{20})-\d{4}-(?P<digest>[0-9a-f]{20})\.parquet")
"""Files whose columns were renamed when they were published have another mark at the end of their names."""


@dataclass(frozen=True)
class MergeLimits:
    """Limits of one merge of files."""

    files: FileLimits = FileLimits(file_bytes=64 << 20)
    """Of each new file."""
    held_bytes: int = 64 << 20
    """Content of the earlier files that is held, at most; what is beyond is read twice."""


class MergedFiles(Struct, frozen=True):
    """What a merge did to the files of one table's part of an interval."""

    version: int
    """Version of the table that has the merged files."""
    rows: int
    files_before: int
    files_after: int


def merge_files(
    lake: str,
    source: str,
    table: TableName,
    start: int,
    end: int,
    *,
    known: int | None,
    output: Output = OUTPUT,
    limits: MergeLimits = MergeLimits(),
) -> MergedFiles | None:
    """Merges the files of an interval. Safe to repeat, to kill, and to do twice at once.

    Args:
        start: Start of the interval (microseconds UTC).
        end: Its end, exclusive.
        known: A version that the table is known to have had; None if no version is known.
        output: The kind of table.
        limits: How much is held in memory.

    Returns:
        None if all of the files begin at the interval's start already, or there are none.

    Raises:
        DamagedFileError: A file is gone, or does not have the bytes that were published; nothing is committed.
        LostTableError: The table lacks the version `known`, or is damaged.
        LakeUnavailableError: The storage does not answer, or other publishers always came first.
    """

    def attempt() -> MergedFiles | None:
        opened = open_changes(lake, source, table, known, output)
        if opened is None:
            return None
        former = inside(opened)
        if all(begin == start for begin in former.values()):
            return None
        try:
            return _MergeAttempt(source, table, table_url(lake, source, table), (start, end), former, limits).commit(
                opened
            )
        except (StrataError, OutputError, OSError):
            now = open_changes(lake, source, table, known, output)
            if now is None or inside(now) == former:
                raise
            # Another process has merged them meanwhile, as part of a longer interval, and has deleted what was read or
            # written here.
            raise CommitConflictError from None

    def inside(changes: OutputTable) -> dict[str, int]:
        return changes.files(start, end)

    return committed(attempt, source, table, start)


class _MergeAttempt:
    """One attempt to merge some files."""

    def __init__(
        self,
        source: str,
        table: TableName,
        url: str,
        span: tuple[int, int],
        former: Mapping[str, int],
        limits: MergeLimits,
    ) -> None:
        self._source, self._table, self._url = source, table, url
        self._start, self._end = span
        self._former, self._paths, self._limits = former, sorted(former), limits
        self._held: dict[int, bytes] = {}
        self._added: list[DataFile] = []
        self._last: tuple[int, pq.ParquetFile] | None = None
        self._path = ""
        """The file that is being read."""

    def commit(self, table: OutputTable) -> MergedFiles:
        """Writes the merged files, and commits them for the former ones."""
        footers = [self._footer(number) for number in range(len(self._paths))]
        rows = sum(footer.num_rows for footer in footers)
        # Rows of different columns stay in different files: a merged file has no column that its rows do not have.
        open_files: dict[bytes, HeldFile] = {}
        with self._reading():
            for _, group in ordered_groups(footers, self._opened):
                rows_here = self._as_merged(group)
                columns = rows_here.schema.serialize().to_pybytes()
                held = open_files.setdefault(columns, HeldFile(self._limits.files))
                for batch in rows_here.to_batches():
                    held.add(batch)
                if held.is_full:
                    self._write(open_files.pop(columns))
        for held in open_files.values():
            self._write(held)
        written = sum(json.loads(file.stats)["numRecords"] for file in self._added)
        if written != rows:
            raise self._damaged(f"files with {rows:,} rows gave {written:,}", self._paths[0])
        # A file that was merged before comes out the same if all that is new has other columns.
        same = {file.path for file in self._added} & self._former.keys()
        added = [file for file in self._added if file.path not in same]
        removed = {path: start for path, start in self._former.items() if path not in same}
        table.rearrange(self._source, added, removed)
        return MergedFiles(table.version, rows, len(self._former), len(self._added))

    def _as_merged(self, group: pa.Table) -> pa.Table:
        """Rows with the start of this interval, and columns without the metadata of their file."""
        at = group.schema.get_field_index(INTERVAL)
        field = group.schema.field(INTERVAL)
        own = repeated_number(self._start, len(group), field.type)
        return group.set_column(at, field, pa.chunked_array([own])).replace_schema_metadata(None)

    def _write(self, held: HeldFile) -> None:
        content = held.finish()
        name = f"{_PREFIX}{len(self._added):04d}-{content_digest(content)[:_DIGEST]}.parquet"
        path = data_path(self._start, name)
        write_file(f"{self._url}/{path}", content)
        stats = delta_statistics(pq.read_metadata(pa.BufferReader(content)))
        self._added.append(DataFile(path, self._start, content.size, json.dumps(stats)))

    # The former files --------------------------------------------------------------------------------

    def _footer(self, number: int) -> pq.FileMetaData:
        """The footer of a file whose bytes are those that were published, as far as its name shows them."""
        path = self._paths[number]
        content = read_file(f"{self._url}/{path}")
        if content is None:
            raise self._damaged("it is gone", path)
        named = _NAMED_BY_CONTENT.fullmatch(path.rpartition("/")[2])
        if named is not None and named["digest"] != content_digest(content)[:_DIGEST]:
            raise self._damaged("it has other bytes than those that were published", path)
        if sum(map(len, self._held.values())) + len(content) <= self._limits.held_bytes:
            self._held[number] = content
        self._path = path
        with self._reading():
            return pq.read_metadata(pa.BufferReader(content))

    def _opened(self, number: int) -> pq.ParquetFile:
        """A file; the last one stays open, because its row groups mostly follow each other."""
        if self._last is None or self._last[0] != number:
            self._path = self._paths[number]
            files, path = arrow_file_system(f"{self._url}/{self._path}")
            held = self._held.pop(number, None)
            opened = pq.ParquetFile(path, filesystem=files) if held is None else pq.ParquetFile(pa.BufferReader(held))
            self._last = number, opened
        return self._last[1]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error), self._path) from error

    def _damaged(self, how: str, path: str) -> DamagedFileError:
        since, until = from_micros(self._start), from_micros(self._end)
        return DamagedFileError(
            f"a published file cannot be merged with others: {how}",
            source=self._source,
            table=str(self._table),
            file=f"{self._url}/{path}",
            remedy="Restore it from a backup of the lake. Without one, "
            f"`strata run --source {self._source} --from {since:%Y-%m-%dT%H:%M:%S.%fZ} "
            f"--until {until:%Y-%m-%dT%H:%M:%S.%fZ}` publishes its rows again.",
        )


def delete_merged(lake: str, source: str, table: TableName, start: int, end: int, *, before: int) -> int:
    """Deletes the files that a merge has replaced; nothing publishes files where they are any more.

    Safe to repeat, and to be killed.

    Args:
        start: Start of the interval whose files were merged (microseconds UTC).
        end: Its end, exclusive.
        before: When they were merged, microseconds UTC.

    Returns:
        The number of deleted files.
    """
    url = table_url(lake, source, table)
    changes = open_changes(lake, source, table)
    live = set() if changes is None else {f"{url}/{path}" for path in changes.files()}
    count = 0
    for key in list_folders(f"{url}/data"):
        folder = f"{url}/data/{key}"
        if interval_key(start) < key < interval_key(end):
            files = file_times(folder)
            if live.isdisjoint(files):
                delete_folder(folder)
                count += len(files)
    for file, changed in file_times(f"{url}/data/{interval_key(start)}").items():
        is_merged = file.rpartition("/")[2].startswith(_PREFIX)
        if file not in live and changed < before and not is_merged:
            delete_file(file)
            count += 1
    return count
