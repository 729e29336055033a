"""Gathers batches of change rows into row groups, and writes these as Parquet.
Not here: which rows share a file, and where it is (`write.py`, `cli/rows_out.py`), encodings (`encodings.py`)."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from strata_cdc.tables.encodings import choose_encodings
from strata_cdc.tables.limits import FileLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

_COMPRESSION_LEVEL = 1
_BOUNDED = (pa.types.is_primitive, pa.types.is_decimal)


class RowGroups:
    """Batches of one schema, gathered until they are large enough for a row group."""

    def __init__(self, limits: FileLimits = FileLimits()) -> None:
        self._limits = limits
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self.held_bytes = 0
        """Bytes of the row group that is being gathered."""

    def add(self, batch: pa.RecordBatch) -> pa.Table | None:
        """Takes a batch and holds its buffers; returns a row group if it has become full."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        self.held_bytes += batch.nbytes
        limits = self._limits
        is_full = self._rows >= limits.row_group_rows or self.held_bytes >= limits.row_group_bytes
        return self.drain() if is_full else None

    def drain(self) -> pa.Table | None:
        """Returns what has been gathered, if there is anything."""
        batches, self._batches, self._rows, self.held_bytes = self._batches, [], 0, 0
        return pa.Table.from_batches(batches) if batches else None


def parquet_writer(sink: Any, first: pa.Table) -> pq.ParquetWriter:
    """A Parquet file of change rows, compressed with zstd, with encodings that suit the first rows.

    Texts, bytes and images before have no bounds: in stream order, their bounds would span almost all values in each
    row group, and computing them takes a twelfth of the time.

    Args:
        sink: A path, or anything that pyarrow writes to.
        first: The first row group; it is not written yet.
    """
    schema, encodings = first.schema, choose_encodings(first)
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=_COMPRESSION_LEVEL,
        use_dictionary=encodings.dictionary,
        column_encoding=encodings.others,
        store_decimal_as_integer=True,
        write_statistics=[field.name for field in schema if any(test(field.type) for test in _BOUNDED)],
        write_page_index=False,
        version="2.6",
    )


def write_row_group(writer: pq.ParquetWriter, table: pa.Table) -> None:
    """Adds a table as one row group."""
    writer.write_table(table, row_group_size=table.num_rows)


class Encoder:
    """Encodes tables in other threads, `THREADS` at a time: so many are held in memory, and those being gathered."""

    THREADS = 3
    """Decoding narrow rows is as fast as three threads that encode."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.THREADS, thread_name_prefix="parquet")
        self._running: deque[Future[None]] = deque()

    def run(self, encode: Callable[[pa.Table], None], table: pa.Table) -> None:
        """Begins to encode a table, once there is a thread for it.

        Raises:
            OSError: A table that was encoded before cannot be written.
        """
        self.wait(self.THREADS - 1)
        self._running.append(self._pool.submit(encode, table))

    def wait(self, most: int = 0) -> None:
        """Waits until no more than `most` tables are being encoded.

        Raises:
            OSError: One of the tables cannot be written.
        """
        while len(self._running) > most:
            self._running.popleft().result()

    def close(self) -> None:
        """Ends the threads."""
        self._pool.shutdown()
