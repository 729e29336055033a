"""Runs one of `spark_jobs/` on this machine's spark-submit, and turns what it says into progress and errors.
Not here: the jobs (`spark_jobs/`), how Spark is started (`startup/spark.py`), Airflow's way (`dags/steps.py`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from strata import errors
from strata.errors import ErrorFacts, Permanent, StrataError
from strata.startup.spark import SUBMIT, needed_by_spark, short_job, submit_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


DECODE = "decode_slices.py"
CHECK = "check_interval.py"

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_JOBS: Final = _REPOSITORY / "spark_jobs"
_REFUSED: Final = 65
_UNAVAILABLE: Final = 75
"""Exit codes of the jobs (`EX_DATAERR`, `EX_TEMPFAIL` of sysexits.h): what they have said is one of our errors."""
_SLICES: Final = re.compile(r"decoded (\d+) of (\d+) slices")
_RAISED: Final = re.compile(r"^strata\.errors\.(\w+): (.+)$", re.MULTILINE)
"""What a task raised so that Spark tried it again, as it stands in Spark's own report."""
_SHOWN_CHARACTERS: Final = 2000


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
        progress: Is told how many slices are done, and of how many.
        heard: Is told each line.

    Returns:
        The job's report as JSON, its last line of that form; empty if it has none.

    Raises:
        StrataError: What the job itself has said.
        Permanent: Spark cannot be started here, or it died.
    """
    _refuse_without_spark(job)
    environment = submit_environment(needed_by_spark(os.environ), _REPOSITORY, alone=master.startswith("local"))
    options = ["--master", master, "--driver-java-options", short_job()]
    command = [str(SUBMIT), *options, str(_JOBS / job), "--run-url", run_url, *arguments]
    # In a file: Spark writes as much as it likes, and nobody reads it unless the job fails.
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        process = subprocess.Popen(  # noqa: S603  all parts are ours
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
        )
        with process:
            try:
                report = _listen(process.stdout or (), progress, heard)
            except BaseException:
                process.terminate()
                raise
        said.seek(0)
        if process.returncode:
            raise _failure(process.returncode, report, said)
    return report


def _listen(lines: Iterable[str], progress: Callable[[int, int], None] | None, heard: Callable[[str], None]) -> str:
    report = ""
    for line in lines:
        heard(line)
        found = _SLICES.match(line)
        if found and progress:
            progress(int(found[1]), int(found[2]))
        if line.startswith("{"):
            report = line
    return report


def _refuse_without_spark(job: str) -> None:
    if not SUBMIT.exists() or not (_JOBS / job).exists():
        raise Permanent(
            "spark-submit or the Spark job is not where Strata is installed",
            remedy="Run `make setup` in a checkout, and `strata` from its environment.",
        )
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise Permanent(
            "JAVA_HOME names a folder without Java, which Spark needs",
            file=home,
            remedy="Let it name a Java of 17 or later, or unset it if `java` is in PATH.",
        )
    if not home and shutil.which("java") is None:
        raise Permanent(
            "there is no Java, which Spark needs: JAVA_HOME is not set, and `java` is not in PATH",
            remedy="Install Java 17 or later, or let JAVA_HOME name it.",
        )


def _failure(code: int, report: str, said: IO[str]) -> StrataError:
    """The error of a job that has failed: its own if it has said one, else Spark's last words.

    spark-submit writes both streams of a Python job to its stdout (core/.../deploy/PythonRunner.scala).
    """
    if code in {_REFUSED, _UNAVAILABLE}:
        with suppress(msgspec.DecodeError):
            return _as_error(msgspec.json.decode(report, type=ErrorFacts))
    text = said.read()
    raised = _RAISED.findall(text)
    if raised:
        name, message = raised[-1]
        return _as_error(ErrorFacts(name, message.rstrip(".")))
    last = "\n".join(line for line in text.splitlines() if line.strip())[-_SHOWN_CHARACTERS:]
    what = f"Spark was killed by signal {-code}" if code < 0 else f"Spark ended with exit code {code}"
    return Permanent(f"{what}; it said last:\n{last}" if last else f"{what} and said nothing")


def _as_error(facts: ErrorFacts) -> StrataError:
    fields: dict[str, Any] = msgspec.structs.asdict(facts)
    name, message = fields.pop("error"), fields.pop("message")
    known = {kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type)}
    kind = known.get(name, Permanent)
    return kind(message, **fields) if issubclass(kind, StrataError) else Permanent(message, **fields)
