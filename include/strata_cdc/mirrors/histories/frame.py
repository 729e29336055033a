"""The history of a table as a LazyFrame of polars, whose batches DuckDB computes.
Not here: the history itself (`history.py`, `dialects/history.py`), computing it (`computed.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from strata_cdc.mirrors.histories.computed import history_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.dataset as ds

_BATCH_ROWS = 1 << 17


def frame_of(query: str, files: Mapping[str, ds.Dataset], schema: pa.Schema) -> Any:
    """A query of DuckDB as a LazyFrame. Each `collect` opens a connection and computes the query, without the columns
    that are not needed; the result is never held as a whole by DuckDB or here.

    Args:
        query: The query.
        files: By name in the query, what it reads besides the files that it names.
        schema: Its columns; values are cast to these types.

    Raises:
        Usage: When the frame is collected: the log does not have a value.
    """

    def batches(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        left = count
        for table in history_batches(query, files, wanted, batch_rows or _BATCH_ROWS):
            frame = _shown(pl.DataFrame(table), predicate, left)
            yield frame
            left = None if left is None else left - len(frame)
            if left == 0:
                return

    return register_io_source(batches, schema=pl.DataFrame(schema.empty_table()).schema)


def _shown(rows: pl.DataFrame, predicate: pl.Expr | None, count: int | None) -> pl.DataFrame:
    """The rows that are requested, of one batch: first those for which the condition is true."""
    frame = rows if predicate is None else rows.filter(predicate)
    return frame if count is None else frame.head(count)
