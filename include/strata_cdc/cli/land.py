"""`strata land`: copies the binlog of a source into the lake, with a progress bar.
Not here: landing (`landing/land_binlog.py`, `landing/follow_binlog.py`, `landing/land_files.py`)."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from strata_cdc.cli.options import SourceName, source_of
from strata_cdc.cli.report import print_report
from strata_cdc.cli.terminal import Terminal
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.cut_segments import LandReport
    from strata_cdc.landing.land_state import LandProgress

    Tell = Callable[[LandProgress], None]

_MEGABYTE = 1 << 20


def land(
    context: typer.Context,
    source: SourceName = None,
    *,
    files: Annotated[
        str | None,
        typer.Option(help="Folder or URL with binlog files (plain, gzip, zstd), instead of the server."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Goes on until SIGTERM or Ctrl-C, and connects again when it has to.")
    ] = False,
) -> None:
    """Copies what the server has executed and the lake does not have, byte for byte; continues where it stopped."""
    if files and follow:
        raise Usage("--files and --follow exclude each other: no server adds to an archive")
    from strata_cdc.lake.known_lake import known_if_stored

    configured = known_if_stored(source_of(source))
    with _progress_bar(configured.name) as tell:
        if files:
            report = _land_files(configured, files, tell)
        elif follow:
            report = _follow(configured, tell)
        else:
            report = _land(configured, tell)
    print_report(report, as_json=context.obj["json"])


def _land(source: Source, tell: Tell) -> LandReport:
    if source.is_sink:
        from strata_cdc.ticdc.land_settings import land_sink_source

        return land_sink_source(source, tell)
    from strata_cdc.landing.land_source import land_source

    return land_source(source, tell)


def _land_files(source: Source, files: str, tell: Tell) -> LandReport:
    from strata_cdc.landing.land_files import land_files

    if source.is_sink:
        raise Usage(
            "--files is for binlogs, and this source is the folder of a TiCDC sink",
            source=source.name,
            remedy="Land them as a source of their own.",
        )
    return land_files(files, lake=source.lake, source=source.name, segment_bytes=source.segment_bytes, progress=tell)


def _follow(source: Source, tell: Tell) -> LandReport:
    from strata_cdc.landing.first_landing import allowed_begins
    from strata_cdc.landing.follow_binlog import follow_binlog
    from strata_cdc.landing.land_source import landing_terms

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # No exception from within: a segment that is being published is published first.
        signal.signal(number, lambda *_: stop.set())
    return follow_binlog(
        source.address,
        lake=source.lake,
        source=source.name,
        stop=stop.is_set,
        segment_bytes=source.segment_bytes,
        begins=allowed_begins(source),
        terms=landing_terms(source),
        progress=tell,
    )


@contextmanager
def _progress_bar(source: str) -> Iterator[Tell]:
    """A bar on a terminal; without a terminal, a line a minute."""
    console = Terminal(stderr=True)
    if not console.is_terminal:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    columns = (
        TextColumn("landing {task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("transactions, {task.fields[megabytes]:,.1f} MB{task.fields[lag]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(source, total=None, megabytes=0.0, lag="")

        def tell(progress: LandProgress) -> None:
            lag = progress.lag_seconds
            bar.update(
                task,
                total=progress.of_transactions,
                completed=progress.transactions,
                megabytes=progress.bytes / _MEGABYTE,
                lag="" if lag is None else f", lag {lag:,.1f} s",
            )

        yield tell
