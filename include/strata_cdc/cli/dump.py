"""`strata dump`: reads the rows of tables from the server while others write to it, and makes their mirrors.
Not here: the work (`mirrors/dump/`, `mirrors/dump/`)."""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path  # noqa: TC003  typer reads it
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from strata_cdc.cli.options import SourceName, Tables
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal, say
from strata_cdc.config.settings import load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.mirrors.dump.backups.take_in import Backup
    from strata_cdc.mirrors.dump.dump_table import DumpProgress
    from strata_cdc.mirrors.dump.dump_tables import DumpReport

_MEGABYTE = 1 << 20


def dump(  # noqa: PLR0913, PLR0917  the options of the command
    context: typer.Context,
    source: SourceName = None,
    table: Tables = None,
    parallel: Annotated[int | None, typer.Option(min=1, help="Tables at once; by default as the settings say.")] = None,
    pause: Annotated[
        int | None, typer.Option(min=0, help="Milliseconds between two chunks of a table; likewise.")
    ] = None,
    from_mysqldump: Annotated[
        Path | None, typer.Option(help="Take the rows from this file of mysqldump, plain or compressed.")
    ] = None,
    from_shell: Annotated[
        Path | None, typer.Option(help="Take the rows from this folder of MySQL Shell's `util.dump...`.")
    ] = None,
    from_dumpling: Annotated[
        str | None, typer.Option(help="Take the rows of a TiCDC source from this folder or URL of Dumpling's export.")
    ] = None,
    feed_start: Annotated[
        int | None, typer.Option(help="The changefeed's start-ts; for an export from before its first commit.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(help="In which such an export has TIMESTAMP, as in UTC, +08:00, Europe/Berlin.")
    ] = None,
    mysqld: Annotated[
        str | None, typer.Option(help="The program that a backup is loaded into; by default the one on PATH.")
    ] = None,
) -> None:
    """Reads tables that have no mirror yet, or those that are named, in chunks; continues where it was killed.

    Takes no lock and writes nothing on the server. A backup is loaded into a mysqld of its own, in TMPDIR.
    """
    from strata_cdc.pipeline.dump_source import dump_source, take_backup, take_dumpling

    settings = load_settings(os.environ)
    name, patterns = settings.source_name(source), tuple(table or ())
    _refuse_two(from_mysqldump, from_shell, from_dumpling)
    backup = _backup(from_mysqldump, from_shell)
    if from_dumpling is not None:
        report = take_dumpling(
            name, patterns, settings=settings, url=from_dumpling, feed_start=feed_start, time_zone=time_zone
        )
    elif backup is not None:
        report = take_backup(name, patterns, settings=settings, backup=backup, mysqld=mysqld)
    else:
        with _progress_bars() as tell:
            report = dump_source(name, patterns, settings=settings, parallel=parallel, pause_ms=pause, tell=tell)
    if context.obj["json"]:
        for dumped in report.tables:
            print_line(dumped)
    else:
        _say(report)
    report.raise_if_wrong()


def _refuse_two(*given: Path | str | None) -> None:
    if sum(path is not None for path in given) > 1:
        raise Usage("--from-mysqldump, --from-shell and --from-dumpling exclude each other: read one after the other")


def _backup(from_mysqldump: Path | None, from_shell: Path | None) -> Backup | None:
    from strata_cdc.mirrors.dump.backups.mysqldump import MysqldumpFile
    from strata_cdc.mirrors.dump.backups.shell_dump import ShellDump

    if from_mysqldump is not None:
        return MysqldumpFile(from_mysqldump)
    return None if from_shell is None else ShellDump(from_shell)


def _say(report: DumpReport) -> None:
    for table in report.tables:
        again = f", read {table.readings} times" if table.readings > 1 else ""
        invalid = "".join(f"; {counted(count, 'value')} of {name} in _invalid" for name, count in table.invalid.items())
        read, since = counted(table.rows, "row"), counted(table.changes, "change")
        say(f" {table.table}  {read} read, {since} since{again}, mirror at transaction {table.seq}{invalid}")
    for failed in report.failed:
        say(f" {failed.table}  {failed.message}")
    if not report.tables and not report.failed:
        say("no table of `mirrors` lacks its rows")


@contextmanager
def _progress_bars() -> Iterator[Callable[[DumpProgress], None]]:
    """A bar for each table that is being read."""
    console = Terminal(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} rows, {task.fields[megabytes]:,.1f} MB, {task.fields[left]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks = {}

        def tell(progress: DumpProgress) -> None:
            if progress.table not in tasks:
                tasks[progress.table] = bar.add_task(progress.table, total=None, megabytes=0.0, left="")
            seconds = progress.seconds_left
            bar.update(
                tasks[progress.table],
                total=progress.of_rows,
                completed=progress.rows,
                megabytes=progress.bytes / _MEGABYTE,
                left="" if seconds is None else f"{timedelta(seconds=int(seconds))} left",
            )

        yield tell
