"""The Parquet files of a mirror: writes rows to them, and reads all or some of their rows.
Not here: which of their rows are dead (`vectors.py`), which files belong to the table (`log.py`)."""

from __future__ import annotations

import uuid
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strata_cdc.changes.arrow import INVALID
from strata_cdc.errors import DamagedFileError
from strata_cdc.files.storage import arrow_file_system, lake_errors, write_file
from strata_cdc.mirrors.actions import LiveFile
from strata_cdc.mirrors.limits import MirrorLimits
from strata_cdc.mirrors.log import now_ms
from strata_cdc.mirrors.made_again import MADE_AGAIN
from strata_cdc.mirrors.renames import NUMBER, name_in_files, same_as
from strata_cdc.mirrors.row_bounds import row_groups_within
from strata_cdc.tables.row_groups import RowGroups, parquet_writer, write_row_group
from strata_cdc.tables.verbatim import INVALID_COLUMN, column_of_verbatim, map_in, map_of, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from strata_cdc.mirrors.row_bounds import Ranges

    Rows = NDArray[np.int64]

_MAP = pa.field(INVALID_COLUMN, INVALID)


def write_rows(
    url: str,
    schema: pa.Schema,
    parts: Iterable[pa.Table | pa.RecordBatch],
    unsynced: list[str] | None = None,
    *,
    limits: MirrorLimits = MirrorLimits(),
) -> Iterator[LiveFile]:
    """Writes rows as data files. Each file is yielded once it is complete; at most one file is held in memory.

    Args:
        url: The table.
        schema: The table's columns, with their names in files; columns that the parts lack are NULL.
        parts: Rows. The values of text columns (`tables/verbatim.py`) go into the map `_invalid`; only files that need
            the map have it.
        unsynced: Receives the files that may still be lost in a power failure, for the commit (`log.commit`).
        limits: How large files become.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    writing = _Files(url, schema, unsynced, limits)
    for part in parts:
        yield from writing.put(part)
    yield from writing.close()


def has_map(url: str, file: LiveFile) -> bool:
    """Whether a data file has the map `_invalid`.

    Raises:
        DamagedFileError: The file is gone, or has other rows than the log says.
        LakeUnavailableError: The storage does not answer.
    """
    with _OpenedDataFile(url, file) as parquet:
        return INVALID_COLUMN in parquet.schema_arrow.names


class _Files:
    """The files of one call, one after the other."""

    def __init__(self, url: str, schema: pa.Schema, unsynced: list[str] | None, limits: MirrorLimits) -> None:
        own = [field for field in schema if field.name != INVALID_COLUMN]
        self._url, self._unsynced, self._limits = url, unsynced, limits
        self._called = [same_as(field) for field in own]
        self._stored = pa.schema([_stored(field) for field in own])
        self._groups, self._file = RowGroups(), self._new()

    def put(self, part: pa.Table | pa.RecordBatch) -> Iterator[LiveFile]:
        """Takes rows; yields the files that have become full."""
        invalid = map_of(part)
        rows = _fitted(_columns(part, self._called), part.num_rows, self._stored, self._called)
        if invalid is not None and not self._file.has_invalid:
            yield from self.close()
            self._file = self._new(has_invalid=True)
        if self._file.has_invalid:
            rows = rows.append_column(_MAP, _or_nothing(invalid, rows.num_rows))
        for batch in rows.to_batches(max_chunksize=1 << 16):
            group = self._groups.add(batch)
            if group is not None:
                self._file.add(group)
            if self._file.is_full:
                yield self._next()

    def close(self) -> Iterator[LiveFile]:
        """Yields the last file, if it has any rows."""
        group = self._groups.drain()
        if group is not None:
            self._file.add(group)
        if self._file.rows:
            yield self._next()

    def _next(self) -> LiveFile:
        done, self._file = self._file, self._new(has_invalid=self._file.has_invalid)
        return done.close()

    def _new(self, *, has_invalid: bool = False) -> _FileInMemory:
        return _FileInMemory(self._url, self._unsynced, self._limits, has_invalid=has_invalid)


class _FileInMemory:
    """One file in memory."""

    def __init__(self, url: str, unsynced: list[str] | None, limits: MirrorLimits, *, has_invalid: bool) -> None:
        self._url, self._limits = url, limits
        self.has_invalid = has_invalid
        self._unsynced = unsynced
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self.rows = 0

    @property
    def is_full(self) -> bool:
        if self.rows >= self._limits.file_rows:
            return True
        return self._writer is not None and bool(self._sink.tell() >= self._limits.file_bytes)

    def add(self, group: pa.Table) -> None:
        if self._writer is None:
            self._writer = parquet_writer(self._sink, group)
        write_row_group(self._writer, group)
        self.rows += group.num_rows

    def close(self) -> LiveFile:
        if self._writer is not None:
            self._writer.close()
        content = self._sink.getvalue()
        path = f"data/{uuid.uuid4().hex}.parquet"
        write_file(f"{self._url}/{path}", content, unsynced=self._unsynced)
        return LiveFile(path, content.size, self.rows, now_ms(), has_invalid=self.has_invalid)


def _stored(field: pa.Field) -> pa.Field:
    known = field.metadata or {}
    return field.with_name(name_in_files(field)).with_metadata({NUMBER: known[NUMBER]} if NUMBER in known else None)


def _there(parquet: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The columns that a file has, by their names in the file."""
    wanted = {name_in_files(field) for field in schema}
    if any(column_of_verbatim(field.name) is not None for field in schema):
        wanted.add(INVALID_COLUMN)
    return [name for name in parquet.schema_arrow.names if name in wanted]


def _columns(part: pa.Table | pa.RecordBatch, names: Sequence[str]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Those of some columns that rows have, by name."""
    there = part.schema.names
    return {name: part.column(there.index(name)) for name in names if name in there}


def _read(part: pa.RecordBatch | pa.Table, schema: pa.Schema, called: Sequence[str]) -> pa.Table:
    """Rows of a file in these columns; the file has each column under another name, and texts in the map."""
    there = _columns(part, called)
    texts = [name for name in called if name not in there and column_of_verbatim(name) is not None]
    if texts:
        there |= opened(map_in(part), texts, part.num_rows)
    return _fitted(there, part.num_rows, schema, called)


def _fitted(
    there: Mapping[str, pa.Array | pa.ChunkedArray], count: int, schema: pa.Schema, called: Sequence[str]
) -> pa.Table:
    """The rows in these columns, which are there under other names; what is not there is NULL."""
    return pa.Table.from_arrays(
        [
            _as_chunks(there[name] if name in there else pa.nulls(count, field.type), field)
            for field, name in zip(schema, called, strict=True)
        ],
        schema=schema,
    )


def _or_nothing(invalid: pa.ChunkedArray | None, count: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(count, INVALID)]) if invalid is None else invalid


def _as_chunks(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    chunks = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    return chunks if chunks.type == field.type else chunks.cast(field.type)


def read_file_rows(
    url: str,
    file: LiveFile,
    schema: pa.Schema,
    dead: Rows,
    *,
    within: Mapping[str, Ranges] | None = None,
    rows_at_once: int = 1 << 17,
) -> Iterator[pa.Table]:
    """The rows of a file that are not dead, in order, in the requested columns.

    Args:
        url: The table.
        file: The file.
        schema: The columns; those that the file lacks are NULL. Text columns come from the map `_invalid`.
        dead: Numbers of the dead rows, ascending.
        within: By the names of integer columns of the schema, values outside which rows may be skipped.
        rows_at_once: Rows of a batch, at most.

    Raises:
        DamagedFileError: The file is gone, or has other rows than the log says.
        LakeUnavailableError: The storage does not answer.
    """
    called = [name_in_files(field) for field in schema]
    in_file = {name_in_files(schema.field(name)): ranges for name, ranges in (within or {}).items()}
    with _OpenedDataFile(url, file) as parquet:
        count = parquet.metadata.num_rows
        if count != file.rows:
            raise DamagedFileError(f"a data file has {count} rows, not {file.rows}", file=f"{url}/{file.path}")
        columns = _there(parquet, schema)
        for first, groups in _runs(parquet, row_groups_within(parquet, in_file)):
            at = first
            for batch in parquet.iter_batches(rows_at_once, groups, columns):
                yield _alive(_read(batch, schema, called), at, dead)
                at += batch.num_rows


def _runs(parquet: pq.ParquetFile, groups: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Row groups that follow each other, each run with the number of its first row."""
    sizes = [parquet.metadata.row_group(group).num_rows for group in range(parquet.metadata.num_row_groups)]
    for _, run in groupby(enumerate(groups), lambda pair: pair[1] - pair[0]):
        numbers = [group for _, group in run]
        yield sum(sizes[: numbers[0]]), numbers


def _alive(table: pa.Table, at: int, dead: Rows) -> pa.Table:
    """The rows of a batch that are not dead; its first row has the number `at`."""
    low, high = np.searchsorted(dead, [at, at + table.num_rows])
    if high == low:
        return table
    kept = np.ones(table.num_rows, bool)
    kept[dead[low:high] - at] = False
    return table.filter(pa.array(kept))


def read_some_rows(url: str, file: LiveFile, schema: pa.Schema, rows: Rows) -> pa.Table:
    """Some rows of a file, in the order of the given numbers; only row groups that have such rows are read.

    Raises:
        DamagedFileError: The file is gone.
        LakeUnavailableError: The storage does not answer.
    """
    with _OpenedDataFile(url, file) as parquet:
        metadata = parquet.metadata
        ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
        groups = np.searchsorted(ends, rows, side="right")
        wanted = np.flatnonzero(np.bincount(groups))
        groups_read = parquet.read_row_groups([int(group) for group in wanted], columns=_there(parquet, schema))
        fitted = _read(groups_read, schema, [name_in_files(field) for field in schema])
        starts = np.r_[0, ends[:-1]]
        kept = np.r_[0, np.cumsum((ends - starts)[wanted])[:-1]]
        offsets = rows - starts[groups] + kept[np.searchsorted(wanted, groups)]
        return fitted.take(pa.array(offsets))


def names_in(urls: Iterable[str]) -> set[str]:
    """The names of all columns that are in any of some files."""
    names: set[str] = set()
    for url in urls:
        with lake_errors(url):
            files, path = arrow_file_system(url)
            names.update(pq.read_schema(path, filesystem=files).names)
    return names


class _OpenedDataFile:
    """A data file that is open for reading; a file that is gone or damaged is reported as such."""

    def __init__(self, url: str, file: LiveFile) -> None:
        self._where = f"{url}/{file.path}"
        self._file: pq.ParquetFile | None = None

    def __enter__(self) -> pq.ParquetFile:
        files, path = arrow_file_system(self._where)
        with lake_errors(self._where):
            try:
                self._file = pq.ParquetFile(path, filesystem=files)
            except FileNotFoundError:
                raise _gone(self._where) from None
            except pa.ArrowInvalid as error:
                raise DamagedFileError(f"a data file of the mirror cannot be read: {error}", file=self._where) from None
        return self._file

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        if self._file is not None:
            self._file.close()
        if isinstance(error, (OSError, pa.ArrowInvalid)):
            # Parquet finds a damaged page when it reads it, and calls that an OSError, as storage does.
            with lake_errors(self._where):
                raise error


def _gone(where: str) -> DamagedFileError:
    return DamagedFileError(
        "a data file of the mirror is gone: somebody deleted it, or vacuumed the table by a log that was cut",
        file=where,
        remedy=f"Restore it from a backup, or {MADE_AGAIN}",
    )


def names_of(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Some columns of a schema, in the requested order; all columns for None."""
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])
