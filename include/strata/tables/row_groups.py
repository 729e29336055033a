"""Batches gathered into the row groups of one Parquet file.
Not here: which rows share a file, and where it lies (`write.py`, `cli/rows_out.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

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
        encoder: Where row groups are encoded while the caller goes on, one at a time; by default the caller waits.
    """

    def __init__(self, sink: Any, schema: pa.Schema, *, encoder: Executor | None = None) -> None:
        self._schema = schema
        self._encoder = encoder
        self._encoding: Future[None] | None = None
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
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
        self._bytes += batch.nbytes
        if self._rows >= ROW_GROUP_ROWS or self._bytes >= ROW_GROUP_BYTES:
            self._write_row_group()

    def close(self) -> None:
        """Writes what is held, and the file's footer."""
        try:
            if self._pending:
                self._write_row_group()
            self._await_encoder()
        finally:
            self._writer.close()

    def _write_row_group(self) -> None:
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._rows, self._bytes = [], 0, 0
        self._await_encoder()
        if self._encoder is None:
            self._encode(table)
        else:
            self._encoding = self._encoder.submit(self._encode, table)

    def _encode(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=table.num_rows)

    def _await_encoder(self) -> None:
        if self._encoding is not None:
            encoding, self._encoding = self._encoding, None
            encoding.result()
