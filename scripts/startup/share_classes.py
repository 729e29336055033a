"""Archives the classes that Spark's JVM loads for a short job, so that later ones start in half the time.

Run by set-up as `python -m scripts.startup.share_classes`. The JVM runs a job that does a little of everything, and
writes at its end the classes that it has loaded (class data sharing, JEP 350).
Not here: the use of the archive (`startup/spark.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from strata_cdc.startup.spark import QUICK, SHARED_CLASSES, SUBMIT, archive_option, short_job, submit_environment

EXERCISE = "exercise"
LOCAL = "local[2]"


def make_archive() -> bool:
    """Runs the job and keeps the archive that it wrote.

    Returns:
        Whether there is an archive now.
    """
    SHARED_CLASSES.parent.mkdir(parents=True, exist_ok=True)
    unfinished = SHARED_CLASSES.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    # A full disk leaves an incomplete archive, which kills a JVM: so a JVM is started with it here first.
    made = (
        _submit(f"{QUICK} {archive_option('ArchiveClassesAtExit', unfinished)}", __file__, EXERCISE)
        and unfinished.exists()
        and _submit(short_job(unfinished), "--version")
    )
    if made:
        unfinished.replace(SHARED_CLASSES)
    else:
        unfinished.unlink(missing_ok=True)
    return made


def _submit(java_options: str, *job: str) -> bool:
    """Whether spark-submit succeeded."""
    root = Path(__file__).parents[2]
    command = [str(SUBMIT), "--master", LOCAL, "--driver-java-options", java_options, *job]
    environment = submit_environment(os.environ, root, root / "include", alone=True)
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    return done.returncode == 0


def exercise() -> None:
    """What the jobs use of Spark: Python on slices of a list, Parquet in and out, aggregates, joins, windows."""
    from pyspark.sql import Window  # noqa: PLC0415 - loaded under spark-submit alone
    from pyspark.sql import functions as f  # noqa: PLC0415  as above

    from strata_cdc.spark_jobs.session import open_session  # noqa: PLC0415  as above

    spark = open_session("strata set-up")
    spark.sparkContext.parallelize(range(4), 2).map(str).collect()
    numbers = spark.range(100).select(
        "id",
        (f.col("id") % 7).cast("string").alias("text"),
        f.col("id").cast("decimal(20,2)").alias("amount"),
        f.current_timestamp().alias("at"),
        f.struct("id").alias("before"),
        f.array("id").alias("list"),
    )
    with tempfile.TemporaryDirectory() as folder:
        numbers.write.parquet(f"{folder}/numbers")
        found = spark.read.parquet(f"{folder}/numbers")
        found.agg(f.count("*"), f.min("id"), f.max("amount"), f.countDistinct("text")).collect()
        found.groupBy("text").agg(f.sum("amount").alias("sum")).join(found, "text").orderBy("id").limit(5).collect()
        latest = Window.partitionBy("text").orderBy(f.desc("id"))
        found.withColumn("place", f.row_number().over(latest)).where("place = 1 AND before.id IS NOT NULL").toPandas()
        found.where(~f.col("text").isin("1", "2") & f.col("text").rlike("^[0-9]$")).cache().count()
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:] == [EXERCISE]:
        exercise()
    else:
        sys.exit(not make_archive())
