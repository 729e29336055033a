"""A server of Spark Connect on this machine: the jobs decode and check by it, and sessions of a user's own read landed
changes by it; the same as without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from scripts.ports import free_port
from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.files.storage import Folder
from strata_cdc.pipeline import ingest
from strata_cdc.pipeline.decode.decode_here import decode_here
from strata_cdc.quality.check_step.check_interval import check_here
from strata_cdc.runs.run_folder import DECODED, read_decoded, read_verdicts
from strata_cdc.startup.spark import JOBS, short_job, submit_environment
from tests.airflow.pipeline import Pipeline, make_account
from tests.spark.test_decode_slices import LIFE, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.mysql_server import MysqlServer

pytestmark = [pytest.mark.spark, pytest.mark.mysql, pytest.mark.slow, pytest.mark.soak]

SECONDS = 600
PROGRAM = """
from pyspark.sql import SparkSession
from strata_cdc.spark_jobs.data_source import StrataSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(StrataSource)
changes = spark.read.format("strata").option("source", "shop").option("table", "shop.items").load()
print(changes.filter("_op = 'update' AND id <= 100").count(), changes.count(), type(spark).__module__)
"""


@contextmanager
def connect_server(folder: Path, given: Mapping[str, str]) -> Iterator[str]:
    """The address of a server of Spark Connect with tasks on this machine, as long as the block lasts."""
    port, log = free_port(), folder / "connect.log"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "1g"]
    command += [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command += ["--driver-java-options", short_job()]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with log.open("wb") as out:
        environment = submit_environment(given, Path(JOBS).parents[1], alone=True)
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + SECONDS
        while "Spark Connect server started" not in log.read_text():
            assert process.poll() is None, log.read_text()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


def decoded(run_url: str) -> dict[str, str]:
    return {file.url: file.digest for file in read_decoded(Folder.open(run_url)).files}


def test_the_jobs_and_the_data_source_by_spark_connect(server: MysqlServer, tmp_path: Path) -> None:
    server.run_sql(LIFE)
    pipeline = Pipeline(tmp_path, make_account(server))
    pipeline.state.settings_file.write_text(pipeline.state.default_settings() + "slice_mb = 1\n")
    settings = pipeline.settings
    for step in (ingest.land, ingest.track):
        step("shop", settings=settings)
    run_url = ingest.plan("shop", None, None, settings=settings).run_url
    assert decode_here(run_url, EngineSettings(Engine.LOCAL)).rows == ROWS
    here = decoded(run_url)
    check_here(run_url, None, 100)
    judged = {start: verdict.tables for start, verdict in read_verdicts(Folder.open(run_url)).items()}
    with connect_server(tmp_path, pipeline.environment) as remote:

        def run(*words: str) -> str:
            environment = {**os.environ, "SPARK_REMOTE": remote, "PYTHONPATH": str(Path(JOBS).parents[1])}
            done = subprocess.run(
                [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
            assert done.returncode == 0, done.stderr[-4000:] + (tmp_path / "connect.log").read_text()[-4000:]
            return done.stdout

        Folder.open(run_url).delete(DECODED)
        run("-m", "strata_cdc.spark_jobs.decode_slices", "--run-url", run_url)
        assert decoded(run_url) == here
        run("-m", "strata_cdc.spark_jobs.check_interval", "--run-url", run_url, "--small-bytes", "0")
        assert {start: verdict.tables for start, verdict in read_verdicts(Folder.open(run_url)).items()} == judged
        (tmp_path / "program.py").write_text(PROGRAM)
        assert run(str(tmp_path / "program.py")).split() == ["100", str(ROWS), "pyspark.sql.connect.session"]
