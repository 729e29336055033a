"""The steps of a run by name, with the settings filled in: what the DAGs and the command line call.
Not here: the steps themselves (beside this file), Airflow (`airflow/`)."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.index import Resume
from strata_cdc.clock import now_micros
from strata_cdc.config.source_kinds import no_gtids
from strata_cdc.counted import counted
from strata_cdc.errors import (
    ChecksFailedError,
    SchemaGapError,
    StrataError,
)
from strata_cdc.lake.known_lake import known_if_stored, known_store
from strata_cdc.lake.lost_tables import lost_tables_if_due, raise_if_lost
from strata_cdc.landing.clock_readings import reading_clock
from strata_cdc.landing.land_source import land_or_wait, refuse_statement_format
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.resume_landing import check_history
from strata_cdc.mirrors.follow.note_waiting import Tell, note_waiting, warn
from strata_cdc.mirrors.follow.update_mirrors import MirrorReport, update_mirrors
from strata_cdc.mirrors.lock import MirrorLocks
from strata_cdc.mirrors.modes import Mode
from strata_cdc.mirrors.renames import renames_by
from strata_cdc.pipeline.housekeep.clean_runs import clear_staged, delete_due, find_due
from strata_cdc.pipeline.housekeep.retain_landed import has_limits, retain_landed
from strata_cdc.pipeline.plan.closable import closable_until
from strata_cdc.pipeline.plan.pending import RunRequest
from strata_cdc.pipeline.plan.plan_slices import plan_run
from strata_cdc.pipeline.publish.publish_run import publish_run
from strata_cdc.position.executed import parse_executed
from strata_cdc.quality.check_step.own_at_versions import refuse_unknown_versions
from strata_cdc.quality.checks.own import read_own_checks
from strata_cdc.runs.run_folder import read_plan, run_folder
from strata_cdc.schema.live.engine import ReadingMoment
from strata_cdc.schema.model.patterns import matches
from strata_cdc.selection.wanted import folds_names
from strata_cdc.store.database import open_store
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.ticdc.land_settings import land_sink_source
from strata_cdc.tracking.notice_ddl import track_source
from strata_cdc.tracking.snapshot_schemas import snapshot_schemas
from strata_cdc.tracking.watch import notify_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Settings, Source
    from strata_cdc.landing.cut_segments import LandReport
    from strata_cdc.landing.land_state import LandProgress
    from strata_cdc.pipeline.plan.pending import WorkChoice
    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.runs.specs import PlanReport
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.tracking.snapshot_schemas import SnapshotReport
    from strata_cdc.tracking.watch.notices import VersionNotice

_LOG = logging.getLogger("strata.housekeep")


class LandStepReport(Struct, frozen=True):
    """What the landing step did."""

    source: str
    gtid_executed: str
    """What there was to land."""
    landing: LandReport | None
    """None where `strata land --follow` landed it, and the step waited."""
    deleted: tuple[str, ...]
    """Landed segments that the settings do not keep."""


def snapshot(source: str, *, settings: Settings) -> SnapshotReport:
    """Reads every table's schema at one GTID set, or position in the binlog, and stores it for the tracker.

    Raises:
        SourceDivergedError: The server lacks what has landed: its tables are not those of the stream.
    """
    configured = known_if_stored(settings.source(source))
    stream = LandedStream.open(configured.lake, source)
    check_history(configured.address, stream)
    # If landing continues by file, transactions without a GTID may still lie before the snapshot.
    moment = ReadingMoment.BY_FILE if stream.resume is Resume.FILE else ReadingMoment.BY_SERVER
    return snapshot_schemas(configured.address, open_store(configured.store_url), source, moment)


def land(source: str, *, settings: Settings, progress: Callable[[LandProgress], None] | None = None) -> LandStepReport:
    """Copies what the server has executed and we do not have, after the first snapshot (`first_snapshot`).

    If `strata land --follow` does the copying, this waits until it has come that far.

    Afterwards it deletes the landed segments that nothing needs any more and that the settings do not keep.

    Raises:
        SourceSettingsError: The server logs statements, so that its binlog holds no rows; what there is has landed.
    """
    first_snapshot(source, settings=settings)
    return land_binlogs(source, settings=settings, progress=progress)


def first_snapshot(source: str, *, settings: Settings) -> SnapshotReport | None:
    """The snapshot that comes before the very first landing; None if something has landed.

    A server's oldest binlog rarely is its first, and what was there before it is known from nowhere else. The landing
    that follows reaches the moment of the snapshot.
    """
    configured = known_if_stored(settings.source(source))
    if configured.is_sink or LandedStream.has_begun(configured.lake, source):
        return None
    return snapshot_schemas(configured.address, open_store(configured.store_url), source)


def land_binlogs(
    source: str, *, settings: Settings, progress: Callable[[LandProgress], None] | None = None
) -> LandStepReport:
    """`land` without the snapshot."""
    configured = settings.source(source)
    engine = known_store(configured)
    landing, executed = (
        (land_sink_source(configured, progress), "")
        if configured.is_sink
        else _land_server(configured, settings, progress)
    )
    deleted = retain_landed(configured, engine, now=now_micros()).segments if has_limits(configured) else ()
    return LandStepReport(source, executed, landing, tuple(segment.segment for segment in deleted))


def _land_server(
    configured: Source, settings: Settings, progress: Callable[[LandProgress], None] | None
) -> tuple[LandReport | None, str]:
    # What cuts through several servers depend on, and nothing else.
    is_in_group = any(configured.name in group.sources for group in settings.groups.values())
    with reading_clock(configured.address, configured.lake, configured.name) if is_in_group else nullcontext():
        landed = land_or_wait(configured, progress)
    refuse_statement_format(configured)
    return landed


def track(source: str, *, settings: Settings) -> TrackReport:
    """Turns the DDL of what has landed into schema versions; only reports it if the settings say so."""
    configured = settings.source(source)
    return track_source(configured, known_store(configured))


def unsent_versions(source: str, sent: int, *, settings: Settings) -> list[VersionNotice]:
    """The schema versions after the newest one that was sent to others."""
    configured = settings.source(source)
    return notify_versions.unsent_versions(open_store(configured.store_url), source, sent)


def plan(
    source: str,
    start: int | None,
    end: int | None,
    *,
    settings: Settings,
    tables: Sequence[str] | None = None,
    gtid_set: str | None = None,
    choice: WorkChoice | None = None,
    failed: bool = False,
) -> PlanReport:
    """Plans what is pending, or a span of commit time (microseconds UTC), or what owns some GTIDs.

    Where only one end of a span is given, the other is the stream's beginning, or now.

    Args:
        source: The source's name.
        start: Begin of the span.
        end: Its end, exclusive.
        settings: The settings.
        tables: Patterns on top of the settings'.
        gtid_set: Instead of a span.
        choice: What of the time span to process; by default a span is processed whole, and without one all that is
            pending.
        failed: Also rows that failed or are blocked (held).

    Raises:
        SettingsError: The folder of users' own expectations is not there, or a file has mistakes; or the settings want
            no table that there is.
        Usage: The request has no meaning.
    """
    configured = settings.source(source)
    if gtid_set and configured.is_sink:
        raise no_gtids(source, gtid_set)
    gtids = parse_executed(gtid_set) if gtid_set else None
    read_own_checks(configured.settings.checks)
    engine = known_store(configured)
    refuse_unknown_versions(engine, source, configured.settings.checks)
    request = RunRequest(start, end, gtids, tuple(tables or ()), choice, failed)
    stream = LandedStream.open(configured.lake, source)
    return plan_run(configured, engine, stream, request, now=closable_until(configured, engine, stream))


def publish(source: str, run: str, *, settings: Settings) -> PublishReport:
    """Commits what passed its checks, and stores the outcome of each table in the ledger, as soon as it is known.

    Afterwards it deletes the run's staged files, if all of it is published, and what older runs have left.

    Raises:
        Usage: The run was published and cleared, and something of it no longer counts as published.
    """
    configured = known_if_stored(settings.source(source))
    # A wrong name makes no store.
    read_plan(run_folder(configured.lake, source, run))
    engine = open_store(configured.store_url)
    report = publish_run(configured.lake, source, run, engine)
    _housekeep(configured, engine, report)
    return report


def housekeep(source: str, *, settings: Settings) -> None:
    """Deletes what older runs have left and nobody needs; a failure is only logged."""
    configured = settings.source(source)
    _housekeep(configured, known_store(configured))


def _housekeep(source: Source, engine: sa.Engine, report: PublishReport | None = None) -> None:
    try:
        if report and not report.withheld:
            clear_staged(run_folder(source.lake, source.name, report.run))
        delete_due(source, find_due(source, engine, now=now_micros()))
    except StrataError as error:
        # What is published is published; the next run tries again.
        _LOG.warning("files of earlier runs could not be deleted: %s", error)


def mirror(source: str, patterns: Sequence[str] = (), *, settings: Settings, tell: Tell = warn) -> MirrorReport:
    """Brings the mirrors that the settings name up to what is published.

    Args:
        source: The source's name.
        patterns: Only tables that match one of these; all if there is none.
        settings: The settings.
        tell: Called with the tables that wait for a dump since now.
    """
    configured = settings.source(source)
    if not configured.settings.mirrors:
        return MirrorReport(source, {})
    engine = known_store(configured)
    folded = folds_names(source, engine)

    def wanted(table: TableName) -> bool:
        return matches(table, configured.settings.mirrors, folded=folded) and (
            not patterns or matches(table, patterns, folded=folded)
        )

    locks = MirrorLocks(configured.lake, source, configured.lock_place)
    report = update_mirrors(
        configured.lake,
        source,
        engine,
        wanted,
        mode=Mode(configured.settings.mirror_mode),
        locks=locks,
        renames=renames_by(configured.settings.mirror_renames, folded=folded),
    )
    note_waiting(engine, report, now=now_micros(), tell=tell)
    return report


def report_left(source: str, run: str, *, settings: Settings) -> None:
    """The last step of a run: reports which of its rows are not published, and why, and which table has lost some.

    All others are published by then. What is left stays in the ledger and in the landed segments: what failed can be
    run again once its reason is gone; what a schema gap blocks is published automatically once the history knows more.

    Raises:
        ChecksFailedError: A check failed, or a slice cannot be decoded.
        SchemaGapError: The schema of rows is not known, or the binlog does not hold them.
        LostTableError: Somebody has deleted of a table.
    """
    configured = settings.source(source)
    folder = run_folder(configured.lake, source, run)
    plan = read_plan(folder)
    engine = open_store(configured.store_url)
    ledger = TableIntervalLedger(engine)
    mine = {(table.interval, table.database, table.table) for table in plan.tables}
    left = [
        (table_interval, table_interval.reason)
        for table_interval in ledger.select(source, (IntervalState.FAILED, IntervalState.BLOCKED))
        if (table_interval.start, table_interval.database, table_interval.table) in mine
        and table_interval.run == run
        and table_interval.reason is not None
    ]
    if not left:
        raise_if_lost(lost_tables_if_due(configured, engine))
        return
    worst, reason = min(left, key=lambda pair: (pair[0].state is not IntervalState.FAILED, pair[0].start))
    rows = sum(table_interval.rows - table_interval.published_rows for table_interval, _ in left)
    tables = sorted({table_interval.name for table_interval, _ in left})
    kind = ChecksFailedError if worst.state is IntervalState.FAILED else SchemaGapError
    raise kind(
        f"{counted(rows, 'row') if rows else 'rows'} of {', '.join(tables[:5])}"
        f"{' and others' if len(tables) > 5 else ''} not published; "
        f"{reason.message}",
        source=source,
        table=worst.name,
        gtid=reason.gtid,
        file=reason.file,
        offset=reason.offset,
        remedy=f"{reason.remedy or ''} `strata intervals --source {source} --failed --held` lists all; "
        "the other tables are published.".strip(),
    )
