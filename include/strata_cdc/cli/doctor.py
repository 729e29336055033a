"""`strata doctor`: what keeps a source from working (the server's settings and grants, store, lake), each with its fix.
Not here: looking (`ops/doctor/check_source.py`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal
from strata_cdc.config.settings import load_settings
from strata_cdc.errors import Permanent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.ops.doctor.findings import Finding

_MARKS = {"ok": "[green]ok[/green]", "warning": "[yellow]warning[/yellow]", "error": "[red]error[/red]"}


def doctor(
    context: typer.Context,
    source: Annotated[str | None, typer.Option(help="A source of the settings; all of them without it.")] = None,
) -> int:
    """Checks all that a source needs, and a group. Exit code 3 if a problem would keep a run from working."""
    from strata_cdc.ops.doctor.check_groups import check_group
    from strata_cdc.ops.doctor.check_source import check_replica, check_source, has_error

    settings = load_settings(os.environ)
    looked: list[tuple[str, str, tuple[Finding, ...]]] = []
    for name in [source] if source else sorted(settings.sources):
        configured = settings.source(name)
        replicas = [check_replica(settings.replica(name, other), other) for other in configured.settings.replicas]
        looked.append(("source", name, (*check_source(configured), *replicas)))
        _tell(context, *looked[-1])
    for name in () if source else sorted(settings.groups):
        looked.append(("group", name, tuple(check_group(settings.group(name)))))
        _tell(context, *looked[-1])
    return Permanent.exit_code if any(has_error(findings) for *_, findings in looked) else 0


def _tell(context: typer.Context, kind: str, name: str, findings: Sequence[Finding]) -> None:
    if context.obj["json"]:
        for finding in findings:
            print_line({kind: name, **finding.to_json()})
    else:
        print_findings(Terminal(markup=True), name if kind == "source" else f"group {name}", findings)


def print_findings(console: Terminal, title: str, findings: Sequence[Finding]) -> None:
    """The findings in a table, then the statements that fix them."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    for finding in findings:
        table.add_row(_MARKS[finding.severity], finding.name, escape(finding.what))
    console.print(table)
    remedies = [finding for finding in findings if finding.remedy]
    if remedies:
        console.print("\n[bold]To fix it[/bold]")
    for finding in remedies:
        # Not in the table: a statement must stay whole, so that it can be copied.
        console.print(f"  {finding.name}: {finding.remedy}", markup=False, highlight=False, soft_wrap=True)
