"""`strata publish`: makes a checked run what readers see.
Not here: publishing (`pipeline/publish/publish_run.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from strata_cdc.cli.options import RunName, SourceName
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.pipeline.steps import PUBLISH

if TYPE_CHECKING:
    from strata_cdc.pipeline.publish.report import PublishReport


def publish(
    context: typer.Context,
    run: RunName,
    source: SourceName = None,
) -> None:
    """Commits each table that passed its checks, one commit per table and interval; exit code 1 if any did not."""
    settings = load_settings(os.environ)
    report = PUBLISH(settings.source_name(source), run, settings=settings)
    if context.obj["json"]:
        print_line(report)
    else:
        _show(report)
    report.raise_if_withheld()


def _show(report: PublishReport) -> None:
    shown = Table("table", "rows", "schema versions", "Delta version", "files changed")
    for entry in report.tables:
        versions = ", ".join(str(version) for version in entry.schema_versions)
        numbers = (entry.delta_version, entry.changed)
        shown.add_row(entry.table, f"{entry.rows:,}", versions, *map(str, numbers))
    console = Terminal()
    console.print(shown)
    if report.cleared:
        console.print("the run was published before, and its staged files are cleared: nothing was done")
        return
    where = f": `strata check {report.run}` shows them" if report.warnings else ""
    console.print(f"{counted(report.rows, 'row')} published, {counted(report.warnings, 'warning')}{where}")
