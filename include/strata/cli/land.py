"""`strata land`: copies the binlog of a source into the lake, with a progress bar.
Not here: landing (`jobs/land_binlog.py`)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from strata.cli.plan import print_report
from strata.config.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata.jobs.land_binlog import LandProgress

_MEGABYTE = 1 << 20


def land(context: typer.Context, source: Annotated[str, typer.Option(help="A source of the settings.")]) -> None:
    """Copies what the server has executed and the lake does not have, byte for byte; goes on where it stopped."""
    # Imported here: the command's help must not load Arrow.
    from strata.jobs.land_binlog import land_binlog  # noqa: PLC0415  see above

    found = load_settings(os.environ).source(source)
    with _progress_bar(source) as progress:
        report = land_binlog(
            found.address,
            lake=found.lake,
            source=source,
            segment_bytes=found.settings.segment_mb * _MEGABYTE,
            progress=progress,
        )
    print_report(asdict(report), as_json=context.obj["json"])


@contextmanager
def _progress_bar(source: str) -> Iterator[Callable[[LandProgress], None]]:
    """A bar on the terminal, nothing where there is none."""
    console = Console(stderr=True)
    columns = (
        TextColumn("landing {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("transactions, {task.fields[megabytes]:.0f} MB"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(source, total=None, megabytes=0.0)

        def tell(progress: LandProgress) -> None:
            bar.update(
                task,
                total=progress.of_transactions,
                completed=progress.transactions,
                megabytes=progress.bytes / _MEGABYTE,
            )

        yield tell


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(land)
