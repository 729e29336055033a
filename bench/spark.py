"""The Spark job as the DAG runs it, from the slices of a plan to published Delta tables.
Not here: the ratios (`decode.py`)."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.timing import Run, python
from strata_cdc.config.settings import load_settings
from strata_cdc.landing.land_files import land_files
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_slice import planned_tasks, store_decoded
from strata_cdc.runs.run_folder import read_decoded, run_folder
from strata_cdc.spark_jobs.decode_slices import decode_all
from strata_cdc.spark_jobs.session import open_local_session
from strata_cdc.tables.commit import publish

if TYPE_CHECKING:
    from strata_cdc.config.settings import Settings

SOURCE = "bench"
_CODE = "import sys; from bench.spark import measure; measure(sys.argv[1])"


def make_lake(folder: Path, *binlogs: Path) -> Path:
    """Lands binlogs that follow each other, tracks them, plans their decoding; returns the folder of the settings."""
    archive = folder / "archive"
    archive.mkdir(parents=True)
    for binlog in binlogs:
        shutil.copy(binlog, archive / binlog.name)
    (folder / "strata.toml").write_text(
        f'lake = "{folder}/lake"\n[sources.{SOURCE}]\nconnection = "mysql_bench"\nstore = "sqlite:///{folder}/store.db"\n'
    )
    settings = settings_of(folder)
    land_files(str(archive), lake=settings.lake, source=SOURCE)
    ingest.track(SOURCE, settings=settings)
    report = ingest.plan(SOURCE, None, None, settings=settings)
    (folder / "run").write_text(f"{report.run} {report.run_url}")
    return folder


def spark_job(folder: Path) -> Run:
    """One run in a process of its own; the JVM is there when the clock starts, Python workers are not."""
    return python(_CODE, folder)


def measure(folder: str) -> None:
    """Decodes and publishes, and prints the seconds and the rows."""
    run, _, url = (Path(folder) / "run").read_text().partition(" ")
    lake = settings_of(Path(folder)).lake
    shutil.rmtree(Path(lake) / "changes", ignore_errors=True)
    spark = open_local_session("bench", {"spark.ui.showConsoleProgress": "false"})
    spark.range(1).count()
    begin = time.perf_counter()
    tasks = planned_tasks(url)
    outcomes = decode_all(tasks, spark, len(tasks))
    decoded = store_decoded(url, [file for outcome in outcomes for file in outcome.files])
    staged = read_decoded(run_folder(lake, SOURCE, run)).files
    for interval, name in sorted({(file.interval, file.name) for file in staged}):
        publish(lake, SOURCE, name, interval, [f for f in staged if (f.interval, f.name) == (interval, name)])
    seconds = time.perf_counter() - begin
    spark.stop()
    print(seconds, decoded.rows, file=sys.stdout)


def settings_of(folder: Path) -> Settings:
    """The settings that `make_lake` wrote."""
    return load_settings(
        {"STRATA_SETTINGS": str(folder / "strata.toml"), "AIRFLOW_CONN_MYSQL_BENCH": "mysql://nobody@127.0.0.1:1/"}
    )
