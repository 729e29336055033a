"""The engines for which SQL is written. It imports nothing, because the command's help has the names.
Not here: the names of their types (`types.py`)."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """An engine, by sqlglot's name for its dialect."""

    MYSQL = "mysql"
    SPARK = "spark"
    DUCKDB = "duckdb"
    POSTGRES = "postgres"
    BIGQUERY = "bigquery"
    SNOWFLAKE = "snowflake"
    CLICKHOUSE = "clickhouse"
