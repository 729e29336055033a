"""Writes batches of decoded changes as staged Parquet files, which are not read before their checks.
Not here: publishing them (`commit.py`), names of folders and columns (`layout.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import asdict

from strata_cdc.arrow_columns import from_numbers, repeated_number, repeated_text
from strata_cdc.errors import ErrorFacts
from strata_cdc.files.objects import is_s3, write_object
from strata_cdc.files.storage import content_digest, write_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.schema.model.definition import TableName
from strata_cdc.tables.layout import INTERVAL, data_path, staged_folder, table_folder
from strata_cdc.tables.limits import FileLimits
from strata_cdc.tables.named_columns import published
from strata_cdc.tables.row_groups import RowGroups, parquet_writer, write_row_group
from strata_cdc.tables.statistics import delta_statistics, pack_statistics, unpack_statistics

if TYPE_CHECKING:
    from types import TracebackType

    from strata_cdc.changes.port import ChangeBatch, QuarantinedRows

_TIMESTAMP = pa.timestamp("us", tz="UTC")


class StagedFile(Struct, frozen=True):
    """A Parquet file that waits for its verdict, or that has been published since."""

    database: str
    table: str
    interval: int
    """Start of the interval of its rows (microseconds UTC)."""
    version_id: int
    """The schema version that decoded all of its rows; 0 if none did."""
    url: str
    size_bytes: int
    digest: str
    """`content_digest` of the written bytes: checking, publishing and keeping the file compare it with the bytes."""
    rows: int
    min_seq: int
    max_seq: int
    partial_rows: int
    """Rows whose image lacks columns."""
    invalid_rows: int
    """Rows with a value that its column cannot hold."""
    stats: bytes
    """`statistics`, packed."""
    reason: str = ""
    """Why its rows must not be published, as the error's JSON; empty if they may be."""
    etag: str = ""
    """What the object store called these bytes; empty if it has not answered."""

    @property
    def name(self) -> TableName:
        """The table."""
        return TableName(self.database, self.table)

    @property
    def file_name(self) -> str:
        """Last part of the URL. It depends on the content: equal names mean equal bytes."""
        return self.url.rpartition("/")[2]

    @property
    def statistics(self) -> str:
        """Statistics in the form of Delta's log (JSON).

        Raises:
            DamagedFileError: They have been changed since they were stored.
        """
        return unpack_statistics(self.stats, self.url)

    @property
    def why(self) -> ErrorFacts:
        """Why its rows must not be published, if `reason` is not empty.

        Raises:
            DamagedFileError: The reason is not an error.
        """
        remedy = "Decode the run again (task `decode`): it gives the same files."
        return decode_stored(self.reason.encode(), ErrorFacts, newest=1, file=self.url, remedy=remedy)

    @property
    def is_publishable(self) -> bool:
        """Whether its rows are to be checked and published; otherwise they go to quarantine as they are."""
        return not self.reason


class FormerFile(StagedFile, frozen=True):
    """As older versions listed a staged file: its statistics were a text."""

    stats: str  # type: ignore[assignment]

    def now(self) -> StagedFile:
        """The same file as it is listed now."""
        return StagedFile(**asdict(self) | {"stats": pack_statistics(msgspec.json.decode(self.stats))})


class _FileKey(Struct, frozen=True, order=True):
    """Rows with the same key share a file."""

    table: TableName
    version_id: int
    fault: str = ""


class ChangeWriter:
    """Writes the change batches of one slice, of any number of tables, as Parquet files.

    Files are held in memory until they are complete, and are then named by their content. So a killed task leaves
    nothing that looks like a complete file, and a repeated task writes the same names and bytes. A file has rows of one
    schema version.

    Args:
        staging: Folder of the run's staged files, path or URL.
        source: The source's name; becomes `_source`.
        interval: Start of the interval of the slice (microseconds UTC); becomes `_interval`.
        slice_key: Names the slice in every run that decodes it: the same slice must get the same key.
        limits: Limits of what is held for a file.
        changes: Folder of the source's change tables: rows that may be published are written where they stay, in the
            folder of their table. None: to `staging`, like rows that must not be published.
    """

    def __init__(
        self,
        staging: str,
        *,
        source: str,
        interval: int,
        slice_key: str,
        limits: FileLimits = FileLimits(),
        changes: str | None = None,
    ) -> None:
        self._staging, self._limits, self._changes = staging, limits, changes
        self._interval = interval
        self._slice_key = _short(content_digest(slice_key.encode()))
        self._open: dict[_FileKey, HeldFile] = {}
        self._files_of: dict[TableName, int] = {}
        self._reasons: dict[_FileKey, str] = {}
        self._staged: list[StagedFile] = []
        self._own = _OwnColumns(source, interval)

    def write(self, change: ChangeBatch) -> None:
        """Takes one batch; its buffers may be held until the row group is full.

        Raises:
            LakeUnavailableError: The storage does not take a file that became full.
        """
        self._add(_FileKey(change.table, change.version_id or 0), change.batch)

    def quarantine(self, quarantined: QuarantinedRows) -> None:
        """Takes rows that must not be published; they get separate files, which have the reason.

        Raises:
            LakeUnavailableError: The storage does not take a file that became full.
        """
        # Rows of the same table with the same fault are in one file; its reason has the position of the first row.
        fault = f"{type(quarantined.error).__name__}: {quarantined.error.message}"
        key = _FileKey(quarantined.table, quarantined.version_id or 0, fault)
        self._reasons.setdefault(key, msgspec.json.encode(quarantined.error.facts()).decode())
        self._add(key, quarantined.rows)

    def _add(self, key: _FileKey, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        file = self._open.get(key)
        if file is None:
            file = self._open[key] = HeldFile(self._limits)
        file.add(self._own.added_to(published(batch)))
        if file.is_full:
            del self._open[key]
            self._finish(key, file)

    def close(self) -> tuple[StagedFile, ...]:
        """Writes what is held, and returns all files, ordered by table and version.

        Raises:
            LakeUnavailableError: The storage does not take a file.
        """
        for key in sorted(self._open):
            self._finish(key, self._open.pop(key))
        return tuple(sorted(self._staged, key=lambda file: (file.name, file.version_id, file.min_seq, file.url)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.clear()

    def _finish(self, key: _FileKey, file: HeldFile) -> None:
        table = key.table
        content = file.finish()
        ordinal = self._files_of.get(table, 0)
        self._files_of[table] = ordinal + 1
        digest = content_digest(content)
        name = f"{self._slice_key}-{ordinal:04d}-{_short(digest)}.parquet"
        url = self._url(key, name)
        etag = _write(url, content)
        stats = delta_statistics(pq.read_metadata(pa.BufferReader(content)))
        self._staged.append(
            StagedFile(
                database=table.database,
                table=table.table,
                interval=self._interval,
                version_id=key.version_id,
                url=url,
                size_bytes=content.size,
                digest=digest,
                rows=file.rows,
                min_seq=stats["minValues"]["_seq"],
                max_seq=stats["maxValues"]["_seq"],
                partial_rows=file.partial_rows,
                invalid_rows=file.invalid_rows,
                stats=pack_statistics(stats),
                reason=self._reasons.get(key, ""),
                etag=etag,
            )
        )

    def _url(self, key: _FileKey, name: str) -> str:
        if self._changes is None or key in self._reasons:
            return f"{staged_folder(self._staging, self._interval, key.table)}/{name}"
        return f"{self._changes}/{table_folder(key.table)}/{data_path(self._interval, name)}"


def _write(url: str, content: pa.Buffer) -> str:
    """Writes a file; returns its ETag, if it is on a store that has such."""
    if is_s3(url):
        return write_object(url, content) or ""
    write_file(url, content)
    return ""


class _OwnColumns:
    """The columns that a change table has besides the decoded ones; they have one value in all rows of a slice, and all
    batches share their memory.

    Args:
        source: Becomes `_source`.
        interval: Becomes `_interval`.
    """

    def __init__(self, source: str, interval: int) -> None:
        self._source, self._interval = source, interval
        self._texts, self._starts = self._repeated(0)

    def _repeated(self, rows: int) -> tuple[pa.Array, pa.Array]:
        return repeated_text(self._source, rows), repeated_number(self._interval, rows, _TIMESTAMP)

    def added_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with these columns."""
        rows = batch.num_rows
        if rows > len(self._texts):
            self._texts, self._starts = self._repeated(max(rows, 2 * len(self._texts)))
        fields, columns = list(batch.schema), batch.columns
        at = 1 + batch.schema.get_field_index("_op")
        fields.insert(at, pa.field("_source", pa.string()))
        columns.insert(at, self._texts.slice(0, rows))
        fields.append(pa.field(INTERVAL, _TIMESTAMP))
        columns.append(self._starts.slice(0, rows))
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


class HeldFile:
    """A Parquet file that is written in memory, and facts about its rows.

    Args:
        limits: How large its row groups become, and when it is full.
    """

    def __init__(self, limits: FileLimits) -> None:
        self._most_bytes = limits.file_bytes
        self.rows = 0
        self.partial_rows = 0
        self.invalid_rows = 0
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._row_groups = RowGroups(limits)

    @property
    def is_full(self) -> bool:
        """Whether no more rows should be added."""
        return bool(self._sink.tell() >= self._most_bytes)

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds rows; all batches have the same columns. Their buffers may be held until the row group is full."""
        self.partial_rows += _non_empty(batch.column("_missing"))
        self.invalid_rows += _non_empty(batch.column("_invalid"))
        self.rows += batch.num_rows
        self._write(self._row_groups.add(batch))

    def finish(self) -> pa.Buffer:
        """The complete file."""
        self._write(self._row_groups.drain())
        if self._writer is not None:
            self._writer.close()
        return self._sink.getvalue()

    def _write(self, table: pa.Table | None) -> None:
        if table is None:
            return
        if self._writer is None:
            self._writer = parquet_writer(self._sink, table)
        write_row_group(self._writer, table)


def _non_empty(lists: pa.Array) -> int:
    """Number of entries of a list or map column that are neither NULL nor empty; NULL entries have no elements here."""
    if lists.null_count == len(lists):
        return 0
    return int(np.count_nonzero(np.diff(from_numbers(lists.offsets))))


def _short(digest: str) -> str:
    return digest[:20]
