"""Spark starts as this environment's, whatever another of the user's is like; the archive of its classes is used where
it fits, and never in the way."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strata_cdc.startup.spark import QUICK, SHARED_CLASSES, SUBMIT, short_job, submit_environment

pytestmark = pytest.mark.spark


def start(options: str = QUICK, **given: str) -> subprocess.CompletedProcess[str]:
    command = [str(SUBMIT), "--driver-java-options", options, "--version"]
    environment = submit_environment({**os.environ, **given}, alone=True)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def classes_of(archive: Path, log: Path) -> tuple[int, int]:
    """How many of Spark's classes come from the archive, and how many classes from jars."""
    start(f"{short_job(archive)} -Xlog:class+load:file={log}")
    loaded = log.read_text().splitlines()
    shared = sum(" org.apache.spark." in line and "source: shared objects file (top)" in line for line in loaded)
    return shared, sum(".jar" in line.partition(" source: ")[2] for line in loaded)


def test_sparks_classes_come_from_the_archive_that_set_up_made(tmp_path):
    """Its path may have blanks."""
    folder = tmp_path / "my projects"
    folder.mkdir()
    shutil.copy(SHARED_CLASSES, folder)
    shared, from_jars = classes_of(folder / SHARED_CLASSES.name, tmp_path / "log")
    assert shared > 100
    assert from_jars < shared / 10


@pytest.mark.soak
def test_one_that_does_not_fit_is_passed_over_in_silence(tmp_path):
    archive = tmp_path / "spark.jsa"
    without = start()
    for content in (b"", b"no archive"):
        archive.write_bytes(content)
        with_it = start(short_job(archive))
        assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)


def test_there_need_be_none(tmp_path):
    assert short_job(tmp_path / "none.jsa") == QUICK


def test_neither_another_spark_of_the_users_nor_a_python_of_path_is_started(tmp_path):
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    theirs = dict.fromkeys(("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(tmp_path / "another"))
    assert "version 4." in start(PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", **theirs).stderr
