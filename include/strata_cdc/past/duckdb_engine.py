"""Runs a translated query in DuckDB, inside this process.
Not here: what the query means (`dialects/queries/`), the rows of its tables (`table_rows.py`), other engines
(`spark_jobs/past_queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.errors import QueryError, one_line
from strata_cdc.past.table_rows import NOT_IN_LAKE, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from strata_cdc.dialects.queries.query import TranslatedQuery
    from strata_cdc.past.table_rows import QueryRows

_IN_PYTHON: Final = ("Python exception occurred while executing the UDF: ", "ValueError: ")
"""How DuckDB begins what a function of Python has raised."""


def run_in_duckdb(query: TranslatedQuery, tables: Mapping[str, QueryRows]) -> pa.Table:
    """The rows of a query, with columns c0, c1 and so on.

    Args:
        tables: Its tables, by their names in DuckDB.

    Raises:
        QueryError: A value of the rows has no answer.
        DamagedFileError: A data file is gone or damaged.
        LakeUnavailableError: The storage does not answer.
    """
    # Imported here: only queries need DuckDB.
    import duckdb  # noqa: PLC0415  see above
    from duckdb.func import PythonUDFType  # noqa: PLC0415  see above
    from duckdb.sqltypes import VARCHAR  # noqa: PLC0415  see above

    loaded = {name: rows.table() for name, rows in tables.items()}
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET scalar_subquery_error_on_multiple_rows = true")
        try:
            for name, function in query.functions.items():
                of_all = _for_all(function)
                connection.create_function(name, of_all, [VARCHAR, VARCHAR], VARCHAR, type=PythonUDFType.ARROW)
            for macro in query.macros:
                connection.execute(macro)
            for name, rows in loaded.items():
                connection.register(f"{name}_rows", rows)
                connection.execute(f"CREATE TEMP VIEW {name} AS {view_of(name, rows.schema)}")
            return connection.execute(query.sql).fetch_arrow_table()
        except duckdb.Error as error:
            raise _refusal(error) from None


def _for_all(function: Callable[[str, str], str]) -> Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array]:
    """A function of two texts as one of columns; DuckDB leaves out rows with NULL."""

    def every(texts: pa.ChunkedArray, names: pa.ChunkedArray) -> pa.Array:
        return pa.array(map(function, texts.to_pylist(), names.to_pylist()), pa.string())

    return every


def remedy_of_value(message: str) -> str:
    """What to do about a value of the rows that has no answer, of which an error says this."""
    if message.startswith(NOT_IN_LAKE):
        return (
            "Leave this column out, or these rows by a condition on other columns. The column _invalid of the table's "
            "mirror has such values: `strata docs mirrors`."
        )
    if "several spellings" in message:
        return "ANY_VALUE() shows one of them."
    if "for a character of this text" in message:
        return "Leave these values out by WHERE, or compare them with COLLATE utf8mb4_0900_bin."
    return "Leave these values out by WHERE."


def _refusal(error: Exception) -> QueryError:
    kind, _, message = one_line(str(error).partition("\n\n")[0]).partition(": ")
    for begin in _IN_PYTHON:
        message = message.removeprefix(begin)
    if "out of range" in message:
        remedy = "The value is too large for its type: CAST one side, as in CAST(x AS DECIMAL(30, 0)) + 1."
    elif kind == "Invalid Input Error" and message.startswith("More than one row"):
        message, remedy = "a subquery that is a value gives several rows", "Limit it, or use IN."
    elif kind == "Invalid Input Error":
        remedy = remedy_of_value(message)
    else:
        message, remedy = f"{kind}: {message}", "Write it in another way."
    return QueryError(f"the query has no answer here: {message}", remedy=remedy)
