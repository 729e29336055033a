"""`strata check`: judges what a run has decoded, and shows what does not hold.
Not here: the checks (`checks/`), Spark (`spark_jobs/`, which this starts)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from strata.cli.report import print_report
from strata.cli.terminal import Terminal
from strata.config.settings import load_settings
from strata.errors import ChecksFailedError, Permanent, Transient
from strata.startup.spark import SUBMIT, needed_by_spark, short_job, submit_environment

if TYPE_CHECKING:
    from strata.checks.verdict import IntervalVerdict

_REPOSITORY = Path(__file__).resolve().parents[3]
_JOB = _REPOSITORY / "spark_jobs" / "check_interval.py"
_REFUSED = 65
_UNAVAILABLE = 75
"""Exit codes of the Spark job (`EX_DATAERR`, `EX_TEMPFAIL` of sysexits.h)."""


def check(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run, as `strata plan` names it.")],
    source: Annotated[str, typer.Option(help="A source of the settings.")],
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
) -> None:
    """Runs the checks of a decoded run on Spark; the verdict decides whether `strata publish` may go on."""
    # Imported here: the command's help must not load Arrow.
    from strata.jobs.run.run_folder import VERDICT, read_plan, read_staged, read_verdicts, run_folder  # noqa: PLC0415  see above
    from strata.wire.storage import delete_file  # noqa: PLC0415  see above

    settings = load_settings(os.environ)
    found = settings.source(source)
    folder = run_folder(found.lake, source, run)
    read_plan(folder)
    read_staged(folder)
    # Its absence is how a job that died is told from one that has judged.
    delete_file(folder.join(VERDICT))
    _run_job(folder.url, found.settings.checks, master)
    verdicts = list(read_verdicts(folder).values())
    if not verdicts:
        raise ChecksFailedError(
            "the run could not be judged", source=source, remedy="The job's message above says why."
        )
    _show(verdicts, as_json=context.obj["json"])
    errors = [failure for verdict in verdicts for failure in verdict.errors]
    if errors:
        raise ChecksFailedError(
            f"{len(errors)} checks failed, the first: {errors[0].message}",
            source=source,
            table=errors[0].table or None,
            remedy="The rows are in quarantine, with the verdict as the reason.",
        )


def _run_job(run_url: str, checks: str | None, master: str) -> None:
    if not SUBMIT.exists() or not _JOB.exists():
        raise Permanent(
            "spark-submit or the Spark job is not where Strata is installed",
            remedy="Run `make setup` in a checkout, and `strata` from its environment.",
        )
    own = ["--checks", checks] if checks else []
    environment = submit_environment(needed_by_spark(os.environ), _REPOSITORY, alone=master.startswith("local"))
    options = ["--master", master, "--driver-java-options", short_job()]
    command = [str(SUBMIT), *options, str(_JOB), "--run-url", run_url, *own]
    # The job's own report would stand between ours; its errors go through.
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)  # noqa: S603  all parts are ours
    code = done.returncode
    if code == _UNAVAILABLE:
        raise Transient("the checks could not be run", remedy="The job's message above says why; run it again later.")
    if code not in {0, _REFUSED}:
        raise Permanent(f"the Spark job ended with {code}", remedy="Its messages above say why.")


def _show(verdicts: list[IntervalVerdict], *, as_json: bool) -> None:
    if as_json:
        print_report({"intervals": [verdict.to_json() for verdict in verdicts]}, as_json=True)
        return
    console = Terminal(markup=False)
    failures = [failure for verdict in verdicts for failure in verdict.failures]
    console.print(f"{sum(verdict.checks for verdict in verdicts)} checks run, {len(failures)} failed")
    if failures:
        table = Table("severity", "table", "what does not hold", "rows", "for example")
        for failure in failures:
            rows = "" if failure.unexpected_rows is None else f"{failure.unexpected_rows:,}"
            table.add_row(failure.severity, failure.table, failure.message, rows, "\n".join(failure.examples))
        console.print(table)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(check)
