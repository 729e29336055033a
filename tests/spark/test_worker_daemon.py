"""Workers import the PySpark that is installed, not its archive."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest

from strata_cdc.startup.worker_daemon import without_archives
from tests.spark_session import spark

__all__ = ["spark"]

INSTALLED = str(Path(pyspark.__file__).parent)
ARCHIVE = f"{INSTALLED}/python/lib/pyspark.zip"


def test_archives_of_the_installed_package_are_left_out():
    assert without_archives(["/work", ARCHIVE, "/opt/mine.zip", *sys.path]) == ["/work", "/opt/mine.zip", *sys.path]


def test_archives_stay_where_nothing_else_has_the_package():
    assert without_archives(["/work", ARCHIVE]) == ["/work", ARCHIVE]
    assert without_archives(["/opt/spark/python/lib/pyspark.zip", *sys.path])[0] == "/opt/spark/python/lib/pyspark.zip"


@pytest.mark.spark
def test_a_worker_has_the_installed_package(spark):
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == [pyspark.__file__]
