"""Runs one of `spark_jobs/` on this machine's spark-submit, and turns its output into progress and errors.
Not here: the jobs (`spark_jobs/`), starting Spark (`startup/spark.py`), Airflow's way (`airflow/spark_step.py`)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING, Final

from strata_cdc.runs.spark_output import is_report, job_failure
from strata_cdc.spark_jobs.installed import require_spark
from strata_cdc.startup.spark import JOBS, SUBMIT, needed_by_spark, short_job, submit_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SLICES: Final = re.compile(r"decoded (\d+) of (\d+) slices")


def run_job(
    job: str,
    run_url: str,
    master: str,
    arguments: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    heard: Callable[[str], None] = lambda _: None,
) -> str:
    """Runs a job to its end.

    Args:
        job: File in `spark_jobs/`.
        run_url: Folder of the run.
        master: Spark's master.
        arguments: Of the job, beside the run.
        progress: Called with the number of slices done and of all slices.
        heard: Called with each line.

    Returns:
        The job's report as JSON, its last line of that form; empty if it has none.

    Raises:
        StrataError: What the job itself has reported.
        Permanent: Spark cannot be started here, or it died.
    """
    require_spark("`--engine local` decodes without Spark.")
    environment = submit_environment(needed_by_spark(os.environ), JOBS.parents[1], alone=master.startswith("local"))
    options = ["--master", master, "--driver-java-options", short_job()]
    command = [str(SUBMIT), *options, str(JOBS / job), "--run-url", run_url, *arguments]
    # In a file: Spark writes as much as it likes, and nobody reads it unless the job fails.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as temporary_file:
        process = subprocess.Popen(  # noqa: S603  all parts are ours
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=temporary_file, text=True
        )
        with process:
            try:
                report = _listen(process.stdout or (), progress, heard)
            except BaseException:
                process.terminate()
                raise
        temporary_file.seek(0)
        if process.returncode:
            # spark-submit writes both streams of a Python job to its stdout (core/.../deploy/PythonRunner.scala).
            raise job_failure(process.returncode, report, temporary_file.read())
    return report


def _listen(lines: Iterable[str], progress: Callable[[int, int], None] | None, heard: Callable[[str], None]) -> str:
    report = ""
    for line in lines:
        heard(line)
        match = _SLICES.match(line)
        if match and progress:
            progress(int(match[1]), int(match[2]))
        if is_report(line):
            report = line
    return report
