"""`strata track`: binlog files, or what has landed of a source, to schema versions.
Not here: tracking (`tracking/track_schema.py`, `schema/tracker/track.py`)."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from strata_cdc.cli.options import source_of
from strata_cdc.cli.report import print_line
from strata_cdc.cli.terminal import Terminal, say
from strata_cdc.config.settings import SETTINGS_VARIABLE, are_given, load_settings
from strata_cdc.counted import counted
from strata_cdc.errors import SchemaGapError, Usage
from strata_cdc.schema.tracker.notices import MOST_OF_A_KIND, NoticeKind, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import TaskID

    from strata_cdc.schema.tracker.stream import TrackReport


def track(
    context: typer.Context,
    files: Annotated[
        list[str] | None, typer.Argument(help="Binlog files or landed segments; without them, all that has landed.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Name of the source that the binlogs are of; by default that of the settings.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL of the store; by default that of the settings.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="CREATE statements of the tables before the first file: a `mysqldump --no-data`."),
    ] = None,
    lower_case_table_names: Annotated[
        int | None, typer.Option(min=0, max=2, help="The server's setting, which no binlog holds; 0 by default.")
    ] = None,
    skip_corrupt: Annotated[  # noqa: FBT002 - a flag of the command line
        bool, typer.Option("--skip-corrupt", help="Continue after damage: a gap of all tables where it may hide DDL.")
    ] = False,
) -> None:
    """Turns every DDL in binlogs into versions of the tables that it touched. Run it again at any time: what has been
    tracked is skipped. Exit code 1 if a statement or a hole made a table unknown in this run, even if it is known
    again by its end; that a stream starts without a baseline is only reported."""
    as_json = context.obj["json"]
    name = source_name(source)
    if files:
        url = store_url(store, name)
        report = _track_files(
            files, name, url, baseline, lower_case_table_names, as_json=as_json, skip_corrupt=skip_corrupt
        )
    elif store is None and baseline is None:
        from strata_cdc.lake.known_lake import known_store
        from strata_cdc.tracking.notice_ddl import track_source

        configured = source_of(name)
        report = track_source(configured, known_store(configured))
    else:
        option = "--baseline" if store is None else "--store"
        raise Usage(
            f"{option} is for binlog files, and none is given",
            remedy=f"Name them, or leave out {option} to track what has landed.",
        )
    _print(report, as_json=as_json)
    if report.gaps:
        raise SchemaGapError(
            _gaps_summary(report),
            source=name,
            remedy=f"`strata schema history --source {name}` shows the statements; `strata snapshot --source {name}`, "
            f"then `strata track --source {name}`, closes a gap from there on. All other tables have been tracked.",
        )


def _gaps_summary(report: TrackReport) -> str:
    gaps = [notice for notice in worst_first(report.notices) if notice.kind is NoticeKind.GAP]
    tables = counted(len(gaps), "table") if len(gaps) < MOST_OF_A_KIND else "many tables"
    worst = str(gaps[0]).removeprefix("gap: ")
    return f"{counted(report.gaps, 'time')} a table became unknown ({tables}); the worst is {worst}"


def source_name(given: str | None) -> str:
    """The source's name of the command line, else that of the settings where they have only one.

    Raises:
        Usage: There is none, or there are several.
    """
    if given is not None:
        return given
    if not are_given(os.environ):
        raise Usage("no source is named", remedy=f"Give --source NAME, or let {SETTINGS_VARIABLE} name the settings.")
    return load_settings(os.environ).source_name(None)


def store_url(given: str | None, source: str | None) -> str:
    """The store's URL of the command line, else of the settings.

    Raises:
        Usage: Neither has one.
    """
    if given is not None:
        return given
    if not are_given(os.environ):
        raise Usage("there is no store", remedy=f"Give --store URL, or let {SETTINGS_VARIABLE} name the settings.")
    return source_of(source).store_url


def _track_files(
    files: list[str],
    source: str,
    url: str,
    baseline: str | None,
    lower_case_table_names: int | None,
    *,
    as_json: bool,
    skip_corrupt: bool,
) -> TrackReport:
    from strata_cdc.binlog.bytes.files import refuse_missing
    from strata_cdc.schema.replay.baseline import read_baseline_file
    from strata_cdc.store.database import open_store
    from strata_cdc.tracking.track_schema import track_files

    # Before there is a store: a wrong name makes none.
    refuse_missing(files)
    known = read_baseline_file(baseline, lower_case_table_names=lower_case_table_names or 0) if baseline else None
    engine = open_store(url)
    console = Terminal(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
    )
    bar.disable = as_json or not console.is_terminal
    with bar:
        return track_files(
            files,
            engine,
            source,
            baseline=known,
            lower_case_table_names=lower_case_table_names,
            progress=_shown_on(bar),
            skip_corrupt=skip_corrupt,
        )


def _shown_on(bar: Progress) -> Callable[[str, int, int], None]:
    tasks: dict[str, TaskID] = {}

    def show(name: str, done: int, size: int) -> None:
        if name not in tasks:
            tasks[name] = bar.add_task(name, total=size)
        bar.update(tasks[name], completed=done)

    return show


def _print(report: TrackReport, *, as_json: bool) -> None:
    if as_json:
        print_line(report)
        return
    typer.echo(
        f"{counted(report.transactions, 'transaction')}, {counted(report.statements, 'DDL statement')}, "
        f"{counted(report.versions, 'version')}"
        + (f" ({counted(report.skipped, 'transaction')} had been tracked before)" if report.skipped else "")
    )
    gtids = f", GTID set {report.gtid_executed}" if report.gtid_executed else ""
    typer.echo(f"{report.source} is known up to transaction {report.seq:,}{gtids}")
    for example in report.examples:
        say(example, err=True)
    if report.statement_changes:
        typer.echo(
            f"{counted(report.statement_changes, 'statement')} changed rows that the binlog does not hold: "
            "the server logged them as statements. Set binlog_format=ROW.",
            file=sys.stderr,
        )
    if report.removals:
        typer.echo(f"{counted(report.removals, 'statement')} removed rows without delete rows", file=sys.stderr)
