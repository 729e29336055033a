"""The archive of Spark's classes: it is used where it fits, and never in the way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata.jvm import QUICK, short_job

SUBMIT = Path(sys.executable).with_name("spark-submit")


def start(options: str) -> subprocess.CompletedProcess[str]:
    command = [str(SUBMIT), "--driver-java-options", options, "--version"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_sparks_classes_come_from_the_archive_that_set_up_made(tmp_path):
    log = tmp_path / "classes"
    start(f"{short_job()} -Xlog:class+load:file={log}")
    loaded = log.read_text().splitlines()
    shared = sum(" org.apache.spark." in line and "source: shared objects file (top)" in line for line in loaded)
    assert shared > 100
    assert sum(".jar" in line.partition(" source: ")[2] for line in loaded) < shared / 10


@pytest.mark.parametrize("content", [b"", b"no archive"], ids=["empty", "text"])
def test_one_that_does_not_fit_is_passed_over_in_silence(tmp_path, content):
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(content)
    assert (with_it := start(short_job(archive))).stderr == start(QUICK).stderr
    assert with_it.stdout == start(QUICK).stdout


def test_there_need_be_none(tmp_path):
    assert short_job(tmp_path / "none.jsa") == QUICK
