"""`strata publish`: makes a checked run what readers see.
Not here: publishing (`jobs/publish_interval.py`)."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from strata.config.settings import load_settings


def publish(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run, as `strata plan` names it.")],
    source: Annotated[str, typer.Option(help="A source of the settings.")],
) -> None:
    """Commits what passed its checks, one Delta commit per table and interval; refuses without a passing verdict."""
    # Imported here: the command's help must not load Arrow.
    from strata.jobs import ingest  # noqa: PLC0415  see above

    report = ingest.publish(source, run, settings=load_settings(os.environ))
    if context.obj["json"]:
        typer.echo(json.dumps(report, ensure_ascii=False))
        return
    shown = Table("table", "rows", "schema versions", "generation", "Delta version", "files changed")
    for entry in report["tables"]:
        versions = ", ".join(str(version) for version in entry["schema_versions"])
        shown.add_row(
            entry["table"],
            f"{entry['rows']:,}",
            versions,
            *(str(entry[name]) for name in ("generation", "delta_version", "changed")),
        )
    console = Console()
    console.print(shown)
    console.print(f"{report['rows']:,} rows published, {report['warnings']} warnings")


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(publish)
