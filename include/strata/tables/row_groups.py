"""Batches gathered into the row groups of one Parquet file.
Not here: which rows share a file, and where it lies (`write.py`, `cli/rows_out.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

ROW_GROUP_ROWS = 256 * 1024
"""Rows that are gathered before a row group is written."""
ROW_GROUP_BYTES = 64 << 20
"""Bytes of Arrow buffers that are held for one row group at most."""

_COMPRESSION_LEVEL = 1
_DICTIONARY = ("_op", "_source", "_binlog_file", "_schema_version", "_committed_at", "_interval")
_ENCODINGS = {
    "_gtid": "DELTA_BYTE_ARRAY",
    **dict.fromkeys(("_seq", "_row", "_binlog_pos"), "DELTA_BINARY_PACKED"),
}


class RowGroupWriter:
    """A Parquet file of change rows, zstd, encoded as suits the columns that every change has.

    Args:
        sink: A path, or anything that pyarrow writes to.
        schema: Of all batches.
        encoder: Encodes row groups while the caller goes on; by default the caller waits.
    """

    def __init__(self, sink: Any, schema: pa.Schema, *, encoder: Encoder | None = None) -> None:
        self._schema = schema
        self._encoder = encoder
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self.held_bytes = 0
        """Of the row group that is being gathered."""
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=[name for name in _DICTIONARY if name in schema.names],
            column_encoding={name: encoding for name, encoding in _ENCODINGS.items() if name in schema.names},
            write_page_index=False,
            version="2.6",
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes a batch; its buffers are held until the row group is full."""
        self._pending.append(batch)
        self._rows += batch.num_rows
        self.held_bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self.held_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Ends the row group that is being gathered."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._rows, self.held_bytes = [], 0, 0
        if self._encoder is None:
            self._encode(table)
        else:
            self._encoder.run(self._encode, table)

    def close(self) -> None:
        """Writes what is held, and the file's footer."""
        try:
            self.flush()
            if self._encoder is not None:
                self._encoder.wait()
        finally:
            self._writer.close()

    def _encode(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)


class Encoder:
    """Encodes row groups beside the caller, one at a time for all files: so many wait in memory, and no more."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._running: Future[None] | None = None

    def run(self, encode: Callable[[pa.Table], None], table: pa.Table) -> None:
        """Begins with a row group, once the one before it is done.

        Raises:
            OSError: What was encoded before cannot be written.
        """
        self.wait()
        self._running = self._pool.submit(encode, table)

    def wait(self) -> None:
        """Waits for the last row group.

        Raises:
            OSError: It cannot be written.
        """
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Ends the thread."""
        self._pool.shutdown()
