"""The two steps of a run that Spark may do, for the commands: decode and check; by this machine's spark-submit, whose
output becomes progress and errors.
Not here: which engine does them (`config/engines.py`), the steps themselves (`pipeline/decode/`,
`quality/check_step/`), starting Spark (`startup/spark.py`), Airflow's way (`airflow/spark_step.py`)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from strata_cdc.cli.options import LOCAL
from strata_cdc.config.engines import Engine, EngineSettings
from strata_cdc.errors import ChecksFailedError, Usage
from strata_cdc.files.stored import decode_stored
from strata_cdc.lake.known_lake import known_if_stored
from strata_cdc.pipeline.steps import CHECK, DECODE
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.runs.run_folder import read_plan, read_verdicts, run_folder
from strata_cdc.runs.spark_output import is_report, job_failure
from strata_cdc.runs.specs import DecodeReport
from strata_cdc.spark_jobs.installed import require_spark
from strata_cdc.startup.spark import JOBS, SUBMIT, needed_by_spark, short_job, submit_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strata_cdc.config.engines import EngineChoice
    from strata_cdc.config.settings import Source
    from strata_cdc.files.storage import Folder
    from strata_cdc.runs.verdict import IntervalVerdict


# Runs one of `spark_jobs/` on this machine's spark-submit, and turns its output into progress and errors.
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
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=temporary_file,
            encoding="utf-8",
            errors="replace",
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


@dataclass(frozen=True)
class EngineSteps:
    """Decode and check, for the runs of one source."""

    source: Source
    engine: Engine | None = None
    """Instead of the engine of the settings."""
    master: str | None = None
    """Spark's master, if it is not this machine: then Spark decodes, whatever the size."""
    progress: Callable[[int, int], None] | None = None
    """Called with the number of slices decoded and of all slices."""
    checking: CheckProgress = field(default_factory=CheckProgress)
    """Called with how much is checked."""

    def __post_init__(self) -> None:
        """Refuses a master that nobody would use.

        Raises:
            Usage: Spark has a master and is not to decode.
        """
        if self.master is not None and self.engine is Engine.LOCAL:
            raise Usage("--master is Spark's, and --engine local does without Spark", remedy="Leave one of them out.")

    def decode(self, run: str) -> DecodeReport:
        """Decodes a planned run, and reports what was staged.

        Raises:
            Usage: There is no such run.
            StrataError: The step's error.
        """
        folder = run_folder(known_if_stored(self.source).lake, self.source.name, run)
        if not read_plan(folder).slices:
            return DecodeReport(run, slices=0, files=0, rows=0, failed_slices=0)
        choices: list[EngineChoice] = []
        report = DECODE.here(folder.url, self._engine_settings(), choices.append, self.progress)
        return report or self._decode_on_spark(folder, choices[0])

    def _engine_settings(self) -> EngineSettings:
        settings = self.source.settings.engine_settings
        wanted = self.engine or (Engine.SPARK if self.master is not None else None)
        return settings if wanted is None else replace(settings, engine=wanted)

    def _decode_on_spark(self, folder: Folder, choice: EngineChoice) -> DecodeReport:
        arguments = ["--because", choice.because]
        job = run_job(DECODE.program, folder.url, self.master or LOCAL, arguments, progress=self.progress)
        return decode_stored(job.encode(), DecodeReport, newest=1, file=DECODE.program, remedy="Run the same again.")

    def check(self, run: str) -> list[IntervalVerdict]:
        """Judges a decoded run; what fails is in the verdicts.

        Raises:
            Usage: There is no such run, or it has not been decoded.
            StrataError: The job's error, unless it is that checks failed.
        """
        folder = run_folder(known_if_stored(self.source).lake, self.source.name, run)
        if not read_plan(folder).slices:
            return []
        settings = self.source.settings
        if CHECK.here(folder.url, settings.checks, settings.compare_keys, self.checking) is None:
            self._check_on_spark(folder)
        return list(read_verdicts(folder).values())

    def _check_on_spark(self, folder: Folder) -> None:
        settings = self.source.settings
        own = ["--checks", settings.checks] if settings.checks else []
        arguments = ["--compare-keys", str(settings.compare_keys), *own]
        try:
            run_job(CHECK.program, folder.url, self.master or LOCAL, arguments, heard=self.checking.hear)
        except ChecksFailedError:
            # The job raises it when the verdicts are stored; they are returned.
            if not read_verdicts(folder):
                raise
