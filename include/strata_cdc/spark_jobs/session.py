"""The one place that starts Spark, or connects to a server of Spark Connect.
Not here: where it runs (spark-submit's `--master`), what it does (the jobs beside this file)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import psutil

from strata_cdc.environment import LIBRARIES
from strata_cdc.runs.in_spark import without_pandas_warning
from strata_cdc.runs.spark_output import PAGES
from strata_cdc.startup import worker_daemon
from strata_cdc.startup.spark import long_job, short_job, submit_environment
from strata_cdc.startup.switch import QuickStart, is_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

SETTINGS = {
    # A timestamp must mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # DATETIME has no zone; Delta calls it timestamp_ntz.
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # An interval's tables are small: Spark's default, 200 shuffle partitions, would cost more than the rows.
    "spark.sql.shuffle.partitions": "4",
    # On them, planning again between the stages of a query costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    # Views of changes have a branch for each version of a table: deriving filters from each other in all of them takes
    # a tenth of a query's processor time, and no such filter skips a file.
    "spark.sql.constraintPropagation.enabled": "false",
    # For each expression of a column, PySpark would look up which line of Python makes it and try to import IPython for
    # that: a tenth of what Great Expectations' checks of a small table take.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A line for each task would hide the lines that matter in a job's log.
    "spark.log.level": "WARN",
    # If rows have values that must not be shown, nothing is logged, not by executors either
    # (`quality/checks/suite.py`).
    "spark.executor.syncLogLevel.enabled": "true",
    **{f"spark.executorEnv.{name}": value for name, value in LIBRARIES.items()},
}
NO_PAGES = {"spark.ui.enabled": "false"}
"""Spark's pages show plans, settings and file names to anybody who reaches their port; `spark.ui.enabled=true` turns
them on, in the connection's options or Spark's own files."""
LOCAL = "local[2]"
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    **NO_PAGES,
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": short_job(),
}
"""If Spark is only the driver: no port of it can be reached from other machines."""
REMOTE = "SPARK_REMOTE"
"""Address of a server of Spark Connect: sc://HOST:PORT. PySpark's sessions are then of this server."""
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit gives this variable to a program of Python (core/.../deploy/PythonRunner.scala)."""
WORKERS_OF_THIS_MACHINE = {"spark.python.daemon.module": worker_daemon.__name__} if is_on(QuickStart.WORKERS) else {}
"""Not for a cluster: its machines may not have Strata's package until a job brings it."""


def open_session(name: str) -> SparkSession:
    """A session under spark-submit, with spark-submit's master and settings; or of the server of Spark Connect that
    `SPARK_REMOTE` names, whose settings of the cluster are its own.

    Args:
        name: Shown in Spark's pages.
    """
    if REMOTE in os.environ:
        return _open(name, {key: value for key, value in SETTINGS.items() if _is_of_session(key)})
    spark = _open(name, _submitted_settings())
    _show_pages(spark.sparkContext)
    return spark


def _is_of_session(setting: str) -> bool:
    """Whether a session may have a setting of its own: those of Spark SQL."""
    return setting.startswith("spark.sql.")


def _submitted_settings() -> dict[str, str]:
    """The settings of this file for a job under spark-submit."""
    given = _given_settings()
    is_local = (given.get("spark.master") or "").startswith("local")
    pages = {} if given.get("spark.ui.enabled") else NO_PAGES
    return {**SETTINGS, **pages, **(WORKERS_OF_THIS_MACHINE if is_local else {})}


def _show_pages(context: Any) -> None:
    """Prints where Spark's pages are, if they are turned on."""
    if context.uiWebUrl:
        sys.stdout.write(f"{PAGES}{context.uiWebUrl}\n")
        sys.stdout.flush()


def open_local_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session inside this process, for the command line and the tests."""
    # Before the JVM starts, because the JVM reads this environment.
    os.environ.update(submit_environment(os.environ, alone=True))
    return _open(
        name, {**SETTINGS, **LOCAL_SETTINGS, **WORKERS_OF_THIS_MACHINE, "spark.master": LOCAL, **(settings or {})}
    )


def query_session(name: str, settings: Mapping[str, str]) -> SparkSession:
    """A session for queries, with tables and settings of its own: of the process's Spark if it has one, else of a new
    one that ends with the process: under spark-submit, as that says; otherwise on all processors of this machine.

    Args:
        name: Shown in Spark's pages.
        settings: Of SQL, for this session alone.
    """
    with without_pandas_warning():
        from pyspark.sql import SparkSession  # noqa: PLC0415  as above

        active = SparkSession.getActiveSession()
    if active is None and _SUBMITTED in os.environ:
        active = open_session(name)
    elif active is None:
        active = open_local_session(name, _whole_machine())
    session = active.newSession()
    for key, value in settings.items():
        if session.conf.get(key) != value:
            session.conf.set(key, value)
    return session


def _whole_machine() -> dict[str, str]:
    """A session on all processors of this machine, for queries that may take long."""
    memory_mb = psutil.virtual_memory().total >> 20
    return {
        "spark.master": "local[*]",
        # Spark puts on the disk what it has no memory for; Python's workers and the system need some, too.
        "spark.driver.memory": f"{max(1024, memory_mb // 4)}m",
        "spark.driver.extraJavaOptions": long_job(),
        "spark.ui.showConsoleProgress": "false",
    }


def _given_settings() -> SparkConf:
    """The settings of spark-submit, from its arguments and its files."""
    with without_pandas_warning():
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415  the warning must be silenced first

    # Only after this the configuration is that of spark-submit.
    SparkContext._ensure_initialized()  # noqa: SLF001 - a session would come too late
    return SparkConf()


def _open(name: str, settings: Mapping[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with without_pandas_warning():
        from pyspark.sql import SparkSession  # noqa: PLC0415  as above

        builder = SparkSession.builder.appName(name)
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
