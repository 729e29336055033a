"""The engines whose SQL is written.
Not here: what their types are called (`types.py`). Imports nothing: the command's help has the names."""

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
