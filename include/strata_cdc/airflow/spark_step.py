"""A step that Spark may do: in the task's process, or submitted as Airflow's provider does it, with the job's own lines
in the log and not Spark's.
Not here: which steps these are (`steps.py`), the jobs (`spark_jobs/`), what their lines mean
(`strata_cdc.runs.spark_output`)."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from abc import abstractmethod
from contextlib import closing
from shutil import which
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from msgspec import Struct

from strata_cdc.airflow.docs_link import ChangesLink, DataDocsLink, SparkLink, VerdictLink, data_docs_address
from strata_cdc.airflow.older import AirflowException, AirflowNotFoundException, AirflowSkipException
from strata_cdc.airflow.retries import deciding
from strata_cdc.airflow.task_logs import say, saying
from strata_cdc.airflow.xcom import PlannedRun, read_planned
from strata_cdc.config.engines import Engine
from strata_cdc.counted import counted
from strata_cdc.errors import LakeUnavailableError, Permanent, RunClearedError, Transient, Usage
from strata_cdc.files.stored import decode_stored
from strata_cdc.pipeline.steps import CHECK, DECODE, StepOnSpark, following
from strata_cdc.quality.check_step.progress import CheckProgress
from strata_cdc.runs.spark_output import is_progress, is_report, job_failure, pages_of
from strata_cdc.runs.specs import DecodeReport
from strata_cdc.startup.spark import JOBS, SUBMIT, TASK_VARIABLE, how_to_fix, mixed_spark, needed_by_spark, short_job
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from subprocess import Popen

    from airflow.sdk import Context

    from strata_cdc.config.engines import EngineChoice

CONNECTION = "spark_strata"
"""Id of the connection that says where Spark is."""
_PYTHON = "spark.pyspark.python"
_DRIVER_PYTHON = "spark.pyspark.driver.python"
_KEPT_BYTES = 10_000_000
"""How much of Spark's output is kept: its end."""
_PROGRESS_SECONDS = 5.0
_OF_THE_JOB = (65, 75)
"""Exit codes of a job that has printed its error (`spark_jobs/decode_slices.py`)."""


class SparkDiedError(Transient):
    """Spark ended and the job reported nothing: it was killed, or did not start. Another try may succeed."""


class _SubmitOutput:
    """What spark-submit prints, in a file; the job's own lines go to the task's log.

    It replaces the log of the provider's hook, which writes everything there.
    """

    def __init__(self, real: Any, tell_pages: Callable[[str], None]) -> None:
        self._real = real
        self._tell_pages = tell_pages
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  as long as the task
        self.report = ""

    def info(self, message: str, *arguments: Any) -> None:
        """A line from Spark or from the hook."""
        line = message % arguments if arguments else message
        self._file.write(line.encode(errors="replace") + b"\n")
        if is_report(line):
            self.report = line
        elif is_progress(line):
            say(line)
            pages = pages_of(line)
            if pages:
                self._tell_pages(pages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def close(self) -> None:
        """Deletes the file."""
        self._file.close()

    def text(self) -> bytes:
        """The whole output, or its end."""
        self._file.seek(max(0, self._file.tell() - _KEPT_BYTES))
        return self._file.read()


def _say_slices() -> Callable[[int, int], None]:
    """Logs every few seconds how many slices are decoded."""
    shown_at = time.monotonic()

    def tell(slices: int, of_slices: int) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _PROGRESS_SECONDS:
            shown_at = time.monotonic()
            say(f"decoded {slices} of {of_slices} slices")

    return tell


class _SparkConnection(Struct, frozen=True):
    """What the connection says that the provider does not read, or does not act on."""

    conf: dict[str, str] = {}
    """Spark's settings: `conf` in its extra."""
    tracks_yarn: bool = False
    """Whether a driver on YARN is followed by its id, so that a task that is tried again finds it."""
    tracks_kubernetes: bool = False
    """Likewise on Kubernetes."""

    @classmethod
    def from_airflow(cls) -> _SparkConnection:
        """The connection as it is now; empty if there is none.

        Raises:
            Usage: `conf` is not an object.
        """
        try:
            connection = SparkSubmitHook.get_connection(CONNECTION)
        except AirflowNotFoundException:
            return cls()
        extra, master = connection.extra_dejson, f"{connection.conn_type}://{connection.host or ''}"
        settings = extra.get("conf", {})
        if not isinstance(settings, dict):
            raise Usage(
                f"`conf` in the extra of the connection {CONNECTION} is no object",
                remedy='Write it as {"conf": {"spark.cores.max": "8"}}.',
            )
        is_cluster = extra.get("deploy-mode") == "cluster"
        if _PYTHON in settings and not is_cluster:
            # In client mode the driver is here, and its Python is this one, not that of the workers.
            settings = {_DRIVER_PYTHON: sys.executable, **settings}
        conf = {name: str(value) for name, value in settings.items()}
        return cls(conf, is_cluster and "yarn" in master, is_cluster and "k8s" in master)


class SparkStep(SparkSubmitOperator):
    """Does a step of a planned run here, or submits one of `spark_jobs/` on the cluster that the connection
    `spark_strata` names.

    It is skipped for a run without rows to decode. The job gets only the variables that it needs: those of the task
    hold the secrets of all connections. The job ends when its task ends.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "planned")
    step: StepOnSpark[Any]
    """The step of the line."""

    def __init__(self, *, planned: Any, **options: Any) -> None:
        """Needs the XCom of `plan`."""
        self.planned = planned
        super().__init__(
            conn_id=CONNECTION,
            application=str(JOBS / self.step.program),
            name=f"strata {options['task_id']}",
            driver_memory="1g",
            # Every line goes through this process; at Spark's own level a check writes 10,000 of them.
            conf={"spark.log.level": "WARN", "spark.driver.extraJavaOptions": short_job()},
            **options,
        )

    def is_job_succeeded(self, status: str) -> bool:
        """Never, to the provider, which would not submit a job again that has succeeded once: a task that was cleared
        is to do its step again, and one that was killed at its end may."""
        del status
        return False

    @abstractmethod
    def do_here(self, planned: PlannedRun) -> str | None:
        """Does the step in this process, where that is its engine; gives the report as JSON, None if Spark is to do
        it."""

    @abstractmethod
    def arguments(self, planned: PlannedRun) -> list[str]:
        """Arguments of the job, besides the run."""

    @abstractmethod
    def request(self, planned: PlannedRun) -> str:
        """The request, in a line."""

    @abstractmethod
    def result(self, report: str) -> str:
        """The result, in a line, from the job's report as JSON."""

    @deciding
    def execute(self, context: Context) -> None:
        """Does the step, and logs the result."""
        planned = read_planned(self.planned)
        if not planned.slices:
            say("skipped: there are no rows to decode in this run, and Spark is not started")
            raise AirflowSkipException("no rows in this run")
        with saying(self.request(planned), following(self.step)) as tell:
            try:
                report = self.do_here(planned) or self._on_spark(planned, context)
            except RunClearedError as error:
                # Another process has judged and published the run since it was decoded here.
                raise AirflowSkipException(error.message) from None
            if report:
                tell(self.result(report))

    def _on_spark(self, planned: PlannedRun, context: Context) -> str:
        """Submits the job and waits for it; its report, empty if it printed none.

        Raises:
            Permanent: Two versions of Spark are installed over each other.
        """
        mixed = mixed_spark()
        if mixed is not None:
            raise Permanent(mixed, remedy=f"In the environment of Airflow's workers: {how_to_fix(mixed)}")
        self.application_args = ["--run-url", planned.run_url, *self.arguments(planned)]
        # The connection may be in one of the variables that Spark does not get.
        connection = _SparkConnection.from_airflow()
        self.conf = {**(self.conf or {}), **connection.conf}
        self._yarn_track_via_rm_api = connection.tracks_yarn
        self._track_driver_via_k8s_api = connection.tracks_kubernetes
        self._hook = self._get_hook()
        if connection.tracks_yarn:
            # Kept by the hook, which would ask for the connection again while its variable is gone.
            self._hook._get_yarn_rm_base_url()  # noqa: SLF001  see above

        def tell_pages(address: str) -> None:
            if context:
                context["ti"].xcom_push(SparkLink.key, address)

        output = self._hook._log = _SubmitOutput(self._hook.log, tell_pages)  # noqa: SLF001  the hook logs through it
        with closing(output):
            try:
                self._submit(context)
            except AirflowException as error:
                raise self._failure(self._hook._submit_sp, output, error) from None  # noqa: SLF001  its exit code
            finally:
                self._keep(planned, output, context)
            return output.report

    def _submit(self, context: Context) -> None:
        given = dict(os.environ)
        needed = needed_by_spark(given)
        for name in given.keys() - needed.keys():
            del os.environ[name]
        os.environ[TASK_VARIABLE] = str(os.getpid())
        if which(SUBMIT.name) is None:
            # Airflow was started by its path: its environment is activated for the job, which also needs its `python3`.
            os.environ["PATH"] = os.pathsep.join([str(SUBMIT.parent), given.get("PATH", os.defpath)])
        try:
            super().execute(context)
        finally:
            process = self._hook and self._hook._submit_sp  # noqa: SLF001  the hook leaves its pipe open
            if process and process.stdout:
                process.stdout.close()
            for name in os.environ.keys() - given.keys():
                del os.environ[name]
            os.environ.update(given)

    def _failure(self, process: Popen[str] | None, output: _SubmitOutput, error: AirflowException) -> Exception:
        """The error that the job has reported, without the trace of its start."""
        if process is None or not process.returncode:
            return error
        text = output.text().decode(errors="replace")
        failure = job_failure(process.returncode, output.report, text)
        return failure if process.returncode in _OF_THE_JOB else SparkDiedError(failure.message, remedy=failure.remedy)

    def _keep(self, planned: PlannedRun, output: _SubmitOutput, context: Context) -> None:
        """Keeps Spark's own output beside the plan."""
        storage = importlib.import_module("strata_cdc.files.storage")
        name = f"{self.task_id.rpartition('.')[2]}-{context['ti'].try_number}.log" if context else "spark.log"
        folder = storage.Folder.open(planned.run_url).folder("spark")
        try:
            folder.write(name, output.text())
        except LakeUnavailableError as error:
            say(f"Spark's output could not be kept: {error.message}")
        else:
            say(f"Spark's output is in {folder.join(name)}")


class DecodeStep(SparkStep):
    """Decodes the slices of a run, one Spark task each; the rows are staged beside the tables."""

    step = DECODE
    operator_extra_links = (SparkLink(),)

    because = "requested"
    """Why Spark decodes."""

    def do_here(self, planned: PlannedRun) -> str | None:
        """Decodes in threads of this process, if the run is small enough or Spark is not wanted."""
        settings = planned.engine_settings
        if settings.engine is Engine.SPARK:
            return None

        def say_engine(choice: EngineChoice) -> None:
            self.because = choice.because
            say(f"engine: {choice}")

        report = self.step.here(planned.run_url, settings, say_engine, _say_slices())
        return report and msgspec.json.encode(to_plain(report)).decode()

    def arguments(self, planned: PlannedRun) -> list[str]:
        """Why Spark was chosen, for the report."""
        del planned
        return ["--because", self.because]

    def request(self, planned: PlannedRun) -> str:
        """The numbers of the run."""
        parts = (counted(planned.rows, "row"), counted(planned.tables, "table"), counted(planned.slices, "slice"))
        return "decode {} of {} in {}: ".format(*parts) + planned.run

    def result(self, report: str) -> str:
        """Rows, files, and what is in quarantine."""
        report_of_job = decode_stored(
            report.encode(), DecodeReport, newest=1, file=self.step.program, remedy="Clear the task."
        )
        line = f"{counted(report_of_job.rows, 'row')} in {counted(report_of_job.files, 'file')}"
        if report_of_job.failed_slices:
            line += (
                f"; {counted(report_of_job.failed_slices, 'slice')} cannot be decoded, the check withholds their tables"
            )
        if report_of_job.quarantined:
            line += f"; in quarantine: {'; '.join(report_of_job.quarantined_because)}"
        return line


class CheckStep(SparkStep):
    """Checks what was decoded, before anybody reads it; its page has links to the Data Docs."""

    step = CHECK
    operator_extra_links = (VerdictLink(), DataDocsLink(), ChangesLink(), SparkLink())

    def do_here(self, planned: PlannedRun) -> str | None:
        """Checks in this process what this machine has decoded, unless there are expectations that Spark evaluates.

        Raises:
            ChecksFailedError: A check of severity error failed.
        """
        if planned.engine_settings.engine is Engine.SPARK:
            return None
        report = self.step.here(planned.run_url, planned.checks, planned.compare_keys, CheckProgress(say))
        if report is None:
            return None
        report.raise_if_failed()
        return msgspec.json.encode(to_plain(report)).decode()

    def arguments(self, planned: PlannedRun) -> list[str]:
        """The settings of checks: the job itself reads no settings."""
        return ["--checks", planned.checks, "--compare-keys", planned.compare_keys]

    def request(self, planned: PlannedRun) -> str:
        """The numbers of the run."""
        return f"check {counted(planned.rows, 'row')} of {counted(planned.tables, 'table')}: {planned.run}"

    def result(self, report: str) -> str:
        """How many checks, errors and warnings there are."""
        numbers = msgspec.json.decode(report)
        failed = counted(numbers["errors"], "error")
        docs = f"; Data Docs: {data_docs_address(numbers['source'], numbers['run'])}" if numbers["docs"] else ""
        return f"{counted(numbers['checks'], 'check')}, {failed}, {counted(numbers['warnings'], 'warning')}{docs}"
