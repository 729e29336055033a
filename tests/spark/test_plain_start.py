"""With the switch of `startup/` off, a command and a Spark job give the same, and use none of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata_cdc.cli.demo import BINLOG
from strata_cdc.startup.spark import SUBMIT, submit_environment
from strata_cdc.startup.switch import VARIABLE, QuickStart, is_on

REPOSITORY = Path(__file__).parents[2]
WORKER = """
import json
from pyspark.sql import SparkSession
from strata_cdc.spark_jobs.session import open_session
from strata_cdc.startup.spark import short_job

spark = open_session("plain start")
where = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
print(json.dumps({"pyspark": where[0], "options": short_job()}))
spark.stop()
"""


def plain(value: str) -> dict[str, str]:
    return {**os.environ, VARIABLE: value}


def test_names_turn_off_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, off in (
        ("", set()),
        ("1", set(QuickStart)),
        ("kernels,archive", {QuickStart.KERNELS, QuickStart.ARCHIVE}),
    ):
        monkeypatch.setenv(VARIABLE, given)
        assert {part for part in QuickStart if not is_on(part)} == off


@pytest.mark.slow
def test_a_command_decodes_the_same(tmp_path: Path) -> None:
    """Without the linked library each kernel that the file needs is compiled: of few types, so that it takes less."""
    found = []
    for value in ("", "1"):
        out = tmp_path / f"out{value}"
        command = [Path(sys.executable).with_name("strata"), "decode", BINLOG, "--format", "jsonl", "--out", out]
        subprocess.run(command, env=plain(value), capture_output=True, check=True)
        found.append(out.read_bytes())
    assert found[0]
    assert found[0] == found[1]


@pytest.mark.soak
@pytest.mark.spark
def test_a_spark_job_runs_as_spark_starts_by_itself(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(WORKER)
    environment = submit_environment(plain("1"), REPOSITORY, REPOSITORY / "include", alone=True)
    done = subprocess.run(
        [str(SUBMIT), "--master", "local[1]", str(job)], env=environment, capture_output=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["pyspark"].partition("pyspark.zip")[1], "from Spark's own archive"
    assert found["options"] == ""
