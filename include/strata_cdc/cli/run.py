"""`strata run`: all that `ingest_binlog` does of a source, by one command.
Not here: doing it (`pipeline/`), what is shown meanwhile (`step_lines.py`)."""

from __future__ import annotations

import os
import signal
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from strata_cdc.cli.options import EngineName, Master, SourceName, Tables, optional_time
from strata_cdc.cli.report import print_report
from strata_cdc.cli.round_lines import RoundLines
from strata_cdc.cli.step_lines import StepLines
from strata_cdc.cli.terminal import say
from strata_cdc.clock import now_micros
from strata_cdc.config.groups import micros_of
from strata_cdc.config.settings import load_settings
from strata_cdc.config.source_kinds import no_gtids
from strata_cdc.counted import counted
from strata_cdc.errors import Usage
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.values import to_plain

if TYPE_CHECKING:
    from strata_cdc.config.engines import Engine
    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.pipeline.rehearse import Rehearsal
    from strata_cdc.pipeline.run_source import SourceRequest, WholeReport


_UPKEEP_SECONDS = 1.0
"""After a run: what is left of the upkeep of change tables is done after the next ones."""


def run(  # noqa: PLR0913  one for each option
    context: typer.Context,
    source: SourceName = None,
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--from", help="Instead of the pending rows: all that were committed from this time (ISO 8601, UTC) on."
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(help="Only rows that were committed before this time (ISO 8601, UTC); later rows stay pending."),
    ] = None,
    table: Tables = None,
    gtid_set: Annotated[
        str | None, typer.Option(help="Instead of the pending rows: the time from the first to the last of these.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Also rows that failed or are blocked (held).")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Shows what a run would publish; nothing is written anywhere.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Runs again and again, until SIGTERM or Ctrl-C; a run that has begun ends.")
    ] = False,
    every: Annotated[str, typer.Option(help="With --follow: from one run to the next, as in 500ms, 10s, 1m.")] = "10s",
    engine: EngineName = None,
    master: Master = None,
) -> None:
    """Lands, tracks, plans, decodes, checks and publishes all that is pending. If it is stopped at any point, the next
    run continues.

    The first run takes a snapshot of the schemas first. Spark is started only for a run of more binlog than the setting
    `local_mb`, or for expectations of your own.
    """
    if follow and (dry_run or since or until or gtid_set):
        raise Usage("--follow processes all that is pending, now and later", remedy="Leave out what bounds it.")
    require_matchable(table or ())
    settings = load_settings(os.environ)
    configured = settings.source(source)
    if gtid_set is not None and configured.is_sink:
        raise no_gtids(configured.name, gtid_set)
    wanted = _request(configured.name, since, until, table, gtid_set, failed=failed)
    if follow:
        _follow(wanted, settings, _seconds_of(every), engine, master, as_json=context.obj["json"])
    elif dry_run:
        _rehearse(wanted, settings, as_json=context.obj["json"])
    else:
        _run(wanted, settings, engine, master, as_json=context.obj["json"])


def _request(
    source: str, since: str | None, until: str | None, table: list[str] | None, gtid_set: str | None, *, failed: bool
) -> SourceRequest:
    from strata_cdc.pipeline.run_source import SourceRequest

    if gtid_set is not None:
        if until is not None or since is not None:
            raise Usage("a run takes a GTID set or a span of time, not both")
        parse_executed(gtid_set)
    end = optional_time(until)
    if end is not None and end > now_micros():
        raise Usage(f"--until {until} is in the future", remedy="Leave it out: a run takes all there is by now.")
    begin = optional_time(since)
    if begin is not None and begin >= (now_micros() if end is None else end):
        raise Usage(f"there is no time between --from {since} and {until or 'now'}")
    return SourceRequest(source, end, tuple(table or ()), gtid_set, failed, begin)


def _run(
    wanted: SourceRequest, settings: Settings, engine: Engine | None, master: str | None, *, as_json: bool
) -> None:
    from strata_cdc.cli.engine_steps import EngineSteps
    from strata_cdc.pipeline.keep_changes import keep_changes
    from strata_cdc.pipeline.run_source import run_source

    with StepLines(shown=not as_json) as lines:
        steps = EngineSteps(settings.source(wanted.source), engine, master, lines.decoded)
        report = run_source(wanted, steps, lines, settings=settings)
        for step in keep_changes(wanted.source, settings=settings, seconds=_UPKEEP_SECONDS):
            lines.end("keep", step.line)
    if as_json:
        print_report(report, as_json=True)
    else:
        _show_left(report)
        _show_compared(settings.source(wanted.source))
    report.raise_if_withheld()


def _seconds_of(every: str) -> float:
    try:
        seconds = micros_of(every) / 1e6
    except ValueError:
        raise Usage(f"--every {every} is no duration", remedy="Write it as in 500ms, 10s or 1m.") from None
    if not seconds:
        raise Usage("--every is 0", remedy="Write it as in 500ms, 10s or 1m.")
    return seconds


def _follow(
    wanted: SourceRequest,
    settings: Settings,
    every: float,
    engine: Engine | None,
    master: str | None,
    *,
    as_json: bool,
) -> None:
    from strata_cdc.cli.engine_steps import EngineSteps
    from strata_cdc.pipeline.follow_source import follow_source
    from strata_cdc.pipeline.keep_changes import ChangesKeeper
    from strata_cdc.pipeline.run_source import run_source
    from strata_cdc.serve.memory import release_memory_often

    release_memory_often()
    ended, shown = Event(), RoundLines(as_json=as_json)
    for number in (signal.SIGTERM, signal.SIGINT):
        # No exception from within: a run that has begun is finished. A second signal ends it at once.
        signal.signal(number, partial(_end, ended))
    steps = EngineSteps(settings.source(wanted.source), engine, master)
    if not as_json:
        say(f"following {wanted.source}, every {every:g} s: each line is a run that had something to do", err=True)

    def run_once() -> WholeReport:
        return run_source(wanted, steps, StepLines(shown=False), settings=settings)

    keeper = ChangesKeeper(wanted.source, settings)
    follow_source(run_once, every, ended, shown.show, keep=keeper.keep)


def _end(ended: Event, number: int, _frame: object) -> None:
    # By another thread: this one may hold the event's lock, for the signal may have come while it begins to wait.
    Thread(target=ended.set).start()
    signal.signal(number, signal.SIG_DFL)


def _show_left(report: WholeReport) -> None:
    left = {"failed": report.left.failed, "held": report.left.held}
    for state, number in left.items():
        if number:
            parts = counted(number, "table's part of an interval", "tables' parts of intervals")
            say(f"before this run {state}, and still: {parts}; `strata status --source {report.source}` says why")


def _show_compared(source: Source) -> None:
    from strata_cdc.progress.compared import compared_line

    line = compared_line(source)
    if line is not None:
        say(line)


def _rehearse(wanted: SourceRequest, settings: Settings, *, as_json: bool) -> None:
    from strata_cdc.pipeline.rehearse import rehearse

    rehearsal = rehearse(wanted, settings=settings)
    if as_json:
        print_report(rehearsal, as_json=True)
        return
    print_report(_as_lines(rehearsal), as_json=False)
    say("nothing was written: without --dry-run this is done")


def _as_lines(rehearsal: Rehearsal) -> dict[str, Any]:
    lines = to_plain(rehearsal)
    if rehearsal.to_land is not None:
        lines["to_land"] = counted(rehearsal.to_land, "transaction")
    lines["tables"] = [f"{table}: {counted(rows, 'row')}" for table, rows in rehearsal.tables.items()]
    return lines
