"""`strata check`: judges what a run has decoded, and shows which checks failed.
Not here: the checks (`quality/checks/`), Spark where it is needed (`engine_steps.py`)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from strata_cdc.cli.doctor import print_findings
from strata_cdc.cli.options import Master, SourceName, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.cli.table_name import table_name
from strata_cdc.cli.terminal import Terminal
from strata_cdc.counted import counted
from strata_cdc.errors import ChecksFailedError, Usage
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.quality.check_step.own_at_versions import CheckedRule, CheckedTable
    from strata_cdc.quality.check_step.progress import CheckProgress
    from strata_cdc.runs.verdict import IntervalVerdict

_BAR_SECONDS = 0.2
_SHOWN_EXAMPLES = 3
"""All of them are in the verdict."""


def check(
    context: typer.Context,
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run, as `strata plan` names it.")] = None,
    source: SourceName = None,
    master: Master = None,
    dry_run: Annotated[  # noqa: FBT002  a switch of the command line
        bool, typer.Option("--dry-run", help="Only read the files of your own expectations; exit code 2 for a mistake.")
    ] = False,
    table: Annotated[
        str | None, typer.Option(help="With --dry-run: a table, database.table, of which to show all that is checked.")
    ] = None,
) -> int:
    """Runs the checks of a decoded run; the verdict decides whether `strata publish` may continue."""
    if dry_run:
        configured = source_of(source)
        if table is not None:
            return _show_table(configured, table, as_json=context.obj["json"])
        return _look_at_own(configured, as_json=context.obj["json"])
    if table is not None:
        raise Usage("a run is checked whole", remedy="Leave out --table, or give --dry-run.")
    if run is None:
        raise Usage("no run is named", remedy="Name it as `strata plan` does, or give --dry-run.")
    from strata_cdc.cli.engine_steps import EngineSteps
    from strata_cdc.pipeline.publish.publication import in_quarantine
    from strata_cdc.quality.check_step.data_docs import complete_docs
    from strata_cdc.runs.run_folder import run_folder

    configured = source_of(source)
    as_json = context.obj["json"]
    with progress_bar(is_shown=not as_json) as progress:
        verdicts = EngineSteps(configured, master=master, checking=progress).check(run)
    _show(verdicts, as_json=as_json)
    docs = complete_docs(run_folder(configured.lake, configured.name, run))
    if docs and not as_json:
        Terminal().print(f"Data Docs: {docs}", style="dim", soft_wrap=True)
    errors = [(verdict.interval, failure) for verdict in verdicts for failure in verdict.errors]
    if errors:
        first = errors[0][1]
        raise ChecksFailedError(
            f"{counted(len(errors), 'check')} failed, the first: {first.message}",
            source=configured.name,
            table=first.table or None,
            remedy=in_quarantine(configured.lake, configured.name, run, errors[0][0]).strip(),
        )
    return 0


def _look_at_own(source: Source, *, as_json: bool) -> int:
    """Reads users' own expectations as a run would, and asks Great Expectations for their arguments."""
    from strata_cdc.ops.doctor.check_source import check_own_only
    from strata_cdc.ops.doctor.findings import FindingSeverity

    findings = check_own_only(source)
    if as_json:
        print_report({"files": [finding.to_json() for finding in findings]}, as_json=True)
    else:
        print_findings(Terminal(markup=True), str(source.settings.checks), findings)
    return Usage.exit_code if any(finding.severity is FindingSeverity.ERROR for finding in findings) else 0


def _show_table(source: Source, table: str, *, as_json: bool) -> int:
    """Shows what would be checked of a table; exit code 2 if something is wrong with the user's expectations of it."""
    from strata_cdc.quality.check_step.own_at_versions import what_is_checked
    from strata_cdc.store.database import OnMissing, open_store

    engine = open_store(source.store_url, OnMissing.EMPTY)
    checked = what_is_checked(engine, source.name, table_name(table), source.settings.checks)
    if as_json:
        print_report(checked, as_json=True)
    else:
        _print_rules(checked)
    return Usage.exit_code if any(rule.mistakes for rule in checked.rules) else 0


def _print_rules(checked: CheckedTable) -> None:
    console = Terminal()
    shown = Table(
        "expectation", "of", "severity", "versions", "owner", "why", title=checked.table, title_justify="left"
    )
    for rule in checked.rules:
        why = "\n".join([rule.because, *rule.mistakes])
        versions = _listed(rule.versions) or "none"
        shown.add_row(rule.type, _about(rule), rule.severity, versions, rule.owner or "", why)
    console.print(shown)


def _about(rule: CheckedRule) -> str:
    """The columns and rows of a rule; of a user's, what its columns are called in which versions."""
    lines = [
        name
        if [*names] == [name]
        else f"{name}: " + "; ".join(f"{column} in {_listed(in_)}" for column, in_ in names.items())
        for name, names in rule.called.items()
    ]
    named = rule.arguments.get("column")
    if not lines and named:
        lines = [str(named)]
    return "\n".join([*lines, f"where {rule.where}"] if rule.where else lines)


def _listed(versions: Sequence[int]) -> str:
    return ", ".join(map(str, versions))


@contextmanager
def progress_bar(*, is_shown: bool) -> Iterator[CheckProgress]:
    """A bar of the rows that are judged, on a terminal."""
    from strata_cdc.quality.check_step.progress import CheckProgress

    console = Terminal(stderr=True)
    columns = (TextColumn("checking"), BarColumn(), TextColumn("{task.fields[counts]}"), TimeElapsedColumn())
    is_off = not (is_shown and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=is_off) as bar:
        task = bar.add_task("checking", total=None, counts="")

        class Bar(CheckProgress):
            def show(self, files: int, rows: int, all_files: int, all_rows: int) -> None:
                counts = f"{rows:,} of {all_rows:,} rows, {files:,} of {all_files:,} files"
                bar.update(task, total=all_rows, completed=rows, counts=counts)

        yield Bar(seconds=_BAR_SECONDS)


def _show(verdicts: list[IntervalVerdict], *, as_json: bool) -> None:
    if as_json:
        print_report({"intervals": [to_plain(verdict) for verdict in verdicts]}, as_json=True)
        return
    console = Terminal()
    failures = [failure for verdict in verdicts for failure in verdict.failures]
    console.print(f"{counted(sum(verdict.checks for verdict in verdicts), 'check')} run, {len(failures)} failed")
    if failures:
        table = Table("severity", "table", "what does not hold", "rows", "for example")
        for failure in failures:
            rows = "" if failure.unexpected_rows is None else f"{failure.unexpected_rows:,}"
            table.add_row(
                failure.severity, failure.table, failure.message, rows, "\n".join(failure.examples[:_SHOWN_EXAMPLES])
            )
        console.print(table)
