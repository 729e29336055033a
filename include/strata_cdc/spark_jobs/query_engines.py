"""The engines of `strata sql` by name.
Not here: what they do (`past/duckdb_engine.py`, `past_queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import Usage
from strata_cdc.past.duckdb_engine import run_in_duckdb
from strata_cdc.spark_jobs.installed import require_spark

if TYPE_CHECKING:
    from strata_cdc.past.query import QueryEngine


def query_engine(name: str) -> QueryEngine:
    """An engine.

    Args:
        name: `duckdb` or `spark`.

    Raises:
        Usage: There is no such engine.
        Permanent: Spark cannot be started here; the message says what to install.
    """
    if name == "duckdb":
        return run_in_duckdb
    if name != "spark":
        raise Usage(f"there is no engine {name}", remedy="The engines of queries are duckdb and spark.")
    require_spark("Without `--engine spark`, DuckDB answers the query.")
    # Imported here: it has sqlglot with it, and DuckDB needs nothing of Spark.
    from strata_cdc.spark_jobs.past_queries import run_in_spark  # noqa: PLC0415  see above

    return run_in_spark
