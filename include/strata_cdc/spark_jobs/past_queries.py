"""Runs a translated query over tables as they were in Spark: its tasks read the mirrors' data files, each on its own.
Not here: what the query means in Spark's SQL (`dialects/queries/spark.py`), its tables (`past/`), the session
(`session.py`).

A table is copied to a folder of this process for its moment (`past/table_at.py`): workers on other machines must see
that folder, too (`TMPDIR`), and have Strata installed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strata_cdc.dialects.queries.spark import spark_sql
from strata_cdc.errors import Permanent, QueryError, StrataError, one_line
from strata_cdc.past.duckdb_engine import remedy_of_value
from strata_cdc.past.table_rows import NO_COLUMN, LoadedRows, view_of
from strata_cdc.runs.in_spark import without_pandas_warning
from strata_cdc.runs.spark_output import raised_in
from strata_cdc.spark_jobs.session import query_session
from strata_cdc.startup.spark_logs import without_spark_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from strata_cdc.dialects.queries.query import TranslatedQuery
    from strata_cdc.past.table_rows import MirrorRows, QueryRows

_SETTINGS: Final = {
    # Overflows and wrong values are errors.
    "spark.sql.ansi.enabled": "true",
    # With this, Spark cuts digits from decimals that become too long.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    # A whole number in GROUP BY or ORDER BY is a number, and `${...}` in a text is text.
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    # How large the tables are is not known before they are read.
    "spark.sql.adaptive.enabled": "true",
    # An answer is read as a whole, and an array in Arrow has 2 GB of text at most.
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
}
_CONDITION: Final = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\] (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_OUT_OF_RANGE: Final = frozenset(
    {
        "ARITHMETIC_OVERFLOW",
        "BINARY_ARITHMETIC_OVERFLOW",
        "CAST_OVERFLOW",
        "NUMERIC_VALUE_OUT_OF_RANGE",
        "NUMERIC_OUT_OF_SUPPORTED_RANGE",
        "DATETIME_OVERFLOW",
    }
)


def run_in_spark(query: TranslatedQuery, tables: Mapping[str, QueryRows]) -> pa.Table:
    """The rows of a query, with columns c0, c1 and so on; they are read into this process.

    Args:
        query: The query.
        tables: Its tables, by their names in the query.

    Raises:
        QueryError: Spark does not have the query's meaning, or a value of the rows has no answer.
        MissingExtraError: pyspark is not installed.
        Permanent: Spark cannot be started here, or it died.
        DamagedFileError: A data file is gone or damaged.
        LakeUnavailableError: The storage does not answer.
    """
    sql = spark_sql(query.sql)
    views = {name: spark_sql(view_of(name, _schema(rows))) for name, rows in tables.items()}
    spark = query_session("strata sql", _SETTINGS)
    with without_spark_logs(spark), without_pandas_warning():
        try:
            for name, rows in tables.items():
                _frame(spark, rows).createOrReplaceTempView(f"{name}_rows")
                spark.sql(views[name]).createOrReplaceTempView(name)
            return spark.sql(sql).toArrow()
        except StrataError:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            raise refusal from None
        finally:
            for name in tables:
                spark.catalog.dropTempView(name)
                spark.catalog.dropTempView(f"{name}_rows")


# Rows -------------------------------------------------------------------------------------------


def _schema(rows: QueryRows) -> pa.Schema:
    return rows.rows.schema if isinstance(rows, LoadedRows) else rows.schema


def _frame(spark: SparkSession, rows: QueryRows) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415  only queries on Spark need it

    schema = _in_spark(_schema(rows))
    if isinstance(rows, LoadedRows):
        return spark.createDataFrame(rows.rows.cast(schema), from_arrow_schema(schema, prefer_timestamp_ntz=True))
    parts = len(rows.files)
    numbers = spark.range(parts, numPartitions=max(parts, 1))
    return numbers.mapInArrow(_read_files(rows, schema), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _in_spark(schema: pa.Schema) -> pa.Schema:
    """The types that Spark has: no integers without a sign."""
    fields = [field.with_type(pa.decimal128(20, 0)) if pa.types.is_uint64(field.type) else field for field in schema]
    return pa.schema([NO_COLUMN if pa.types.is_null(field.type) else field for field in fields])


def _read_files(rows: MirrorRows, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: it gets numbers of data files, and gives their rows."""

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in numbers:
            for number in some.column(0).to_pylist():
                for batch in rows.batches(rows.files[number]):
                    yield from batch.cast(schema).to_batches()

    return read


# Errors -----------------------------------------------------------------------------------------


def _refusal(error: Exception) -> StrataError | None:
    """Spark's error as one of Strata's; None if it is not Spark's."""
    text = str(error)
    raised = raised_in(text)
    if raised is not None:
        return raised
    condition, message = _condition(error, text)
    if condition is None:
        return _failure(error, message)
    if condition == "USER_RAISED_EXCEPTION" and "out of range" not in message:
        remedy = remedy_of_value(message)
    elif condition == "SCALAR_SUBQUERY_TOO_MANY_ROWS":
        message, remedy = "a subquery that is a value gives several rows", "Limit it, or use IN."
    elif condition.partition(".")[0] in _OUT_OF_RANGE or condition == "USER_RAISED_EXCEPTION":
        message = "a number is out of range of its type"
        remedy = "The value is too large for its type: CAST one side, as in CAST(x AS DECIMAL(30, 0)) + 1."
    else:
        message, remedy = f"Spark: {condition}: {message}", "Leave out `--engine spark`: DuckDB answers it."
    return QueryError(f"the query has no answer here: {one_line(message)}", remedy=remedy)


def _failure(error: Exception, message: str) -> Permanent | None:
    """An error for which Spark has no name, such as a JVM that has died; None if it is not Spark's."""
    if not isinstance(error, ConnectionError) and not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    return Permanent(
        f"Spark could not run the query: {message}",
        remedy="It may have been short of memory or disk: take a smaller part of the answer, or a larger machine.",
    )


def _condition(error: Any, text: str) -> tuple[str | None, str]:
    """The name of Spark's error, and its text; of an error of the JVM that pyspark does not know, by its text."""
    known = getattr(error, "getCondition", None)
    condition = known() if known is not None else None
    if condition == "USER_RAISED_EXCEPTION":
        return condition, str(error.getMessageParameters()["errorMessage"])
    match = _CONDITION.search(text)
    if match is None:
        return condition, one_line(text.partition("\n")[0])
    return condition or match.group(1), match.group(2)
