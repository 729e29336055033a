"""Computes the query of a history by DuckDB, in batches.
Not here: the query (`history.py`, `dialects/history.py`), LazyFrames (`frame.py`)."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow.dataset as ds


def history_batches(
    query: str, files: Mapping[str, ds.Dataset], wanted: pa.Schema, rows: int, condition: str | None = None
) -> Iterator[pa.Table]:
    """The rows of a history; DuckDB never holds all of them.

    Args:
        query: The query of DuckDB.
        files: By name in the query, what it reads besides the files that it names.
        wanted: The requested columns; values are cast to these types.
        rows: The most rows of a batch.
        condition: In DuckDB's SQL, over the columns of the query; None: all rows.

    Raises:
        Usage: The log does not have a requested value; only when the batch with it is computed.
    """
    # Not in the working directory, where DuckDB otherwise puts what memory does not hold.
    with duckdb.connect(config={"temp_directory": tempfile.gettempdir()}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, dataset in files.items():
            connection.register(name, dataset)
        try:
            # One text: each step of a relation's own would have the query read again.
            columns = ", ".join(map(_quoted, wanted.names))
            where = "" if condition is None else f" WHERE {condition}"
            chosen = connection.sql(f"SELECT {columns} FROM ({query}) AS history{where}")  # noqa: S608  our own names
            for batch in chosen.fetch_arrow_reader(rows):
                yield pa.Table.from_batches([batch]).cast(wanted)
        except duckdb.InvalidInputException as error:
            raise Usage(str(error)) from error


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
