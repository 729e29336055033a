"""The two steps of a run that Spark does, or may do, for the commands: decode and check.
Not here: starting Spark (`spark_job.py`), the steps themselves (`spark_jobs/`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from strata_cdc.cli.spark_job import run_job
from strata_cdc.errors import ChecksFailedError
from strata_cdc.files.storage import delete_file
from strata_cdc.files.stored import decode_stored
from strata_cdc.lake.known_lake import known_if_stored
from strata_cdc.pipeline.steps import CHECK, DECODE
from strata_cdc.quality.check.check_interval import Checking, check_interval, needs_spark
from strata_cdc.quality.check.progress import CheckProgress
from strata_cdc.runs.run_folder import VERDICT, read_plan, read_verdicts, run_folder
from strata_cdc.runs.specs import DecodeReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Source
    from strata_cdc.runs.verdict import IntervalVerdict


@dataclass(frozen=True)
class SparkSteps:
    """Spark for the runs of one source; it is started only where there are rows."""

    source: Source
    master: str
    progress: Callable[[int, int], None] | None = None
    """Called with the number of slices decoded and of all slices."""
    checking: CheckProgress = field(default_factory=CheckProgress)
    """Called with how much is checked."""

    def decode(self, run: str) -> DecodeReport:
        """Decodes a planned run, and reports what was staged.

        Raises:
            Usage: There is no such run.
            StrataError: The job's error.
        """
        folder = run_folder(known_if_stored(self.source).lake, self.source.name, run)
        if not read_plan(folder).slices:
            return DecodeReport(run, slices=0, files=0, rows=0, failed_slices=0)
        job = run_job(DECODE.program, folder.url, self.master, progress=self.progress)
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
        checking = Checking.of(settings.checks, settings.compare_keys)
        on_spark = needs_spark(folder, checking)
        # Its absence distinguishes a job that died from one that has judged.
        delete_file(folder.join(VERDICT))
        own = ["--checks", settings.checks] if settings.checks else []
        arguments = ["--compare-keys", str(settings.compare_keys), *own]
        try:
            if on_spark:
                run_job(CHECK.program, folder.url, self.master, arguments, heard=self.checking.hear)
            else:
                check_interval(self.source.lake, self.source.name, run, _no_spark, checking, self.checking)
        except ChecksFailedError:
            if not read_verdicts(folder):
                raise
        return list(read_verdicts(folder).values())


def _no_spark() -> Any:
    raise AssertionError("`needs_spark` has decided that Spark is not needed")
