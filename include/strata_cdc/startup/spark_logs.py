"""Keeps Spark from logging errors: they may quote any value of a table.
Not here: starting Spark (`spark.py`), what becomes of the errors (`quality/checks/suite.py`,
`spark_jobs/past_queries.py`)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_QUERY_LOG: Final = "SQLQueryContextLogger"
"""PySpark's own logger of errors in queries."""


@contextmanager
def without_spark_logs(spark: Any) -> Iterator[None]:
    """Nothing is logged by Spark's driver, nor by PySpark.

    Args:
        spark: The session (`pyspark.sql.SparkSession`).
    """
    context, log = spark.sparkContext, logging.getLogger(_QUERY_LOG)
    level, was_off = context._jsc.sc().getConf().get("spark.log.level", "WARN"), log.disabled  # noqa: SLF001  Spark has no other way to ask for it
    context.setLogLevel("OFF")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = was_off
        context.setLogLevel(level)
