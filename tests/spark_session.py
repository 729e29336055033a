"""A Spark session for tests; a module that wants it imports the fixture."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from strata_cdc.spark_jobs.session import open_local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Each task has the whole query with it, so that a view of tiny files takes its time by the number of tasks.
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local session, started once however many modules ask for it."""
    # It speaks when its objects are collected, at the very end: into a stream that pytest has closed by then.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session = open_local_session("tests", SETTINGS)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
