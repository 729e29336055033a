"""What each step of a run has done, in a line: for the terminal, and for the logs of Airflow's tasks.
Not here: the steps, their reports (each job has its own)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.counted import counted
from strata_cdc.runs.verdict import Severity
from strata_cdc.schema.tracker.notices import NoticeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.mirrors.dump.dump_tables import DumpReport
    from strata_cdc.mirrors.follow.update_mirrors import MirrorSums
    from strata_cdc.pipeline.ingest import LandStepReport
    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.runs.specs import DecodeReport, PlanReport
    from strata_cdc.runs.verdict import IntervalVerdict
    from strata_cdc.schema.tracker.stream import TrackReport
    from strata_cdc.tracking.snapshot_schemas import SnapshotReport


def snapshot_line(report: SnapshotReport | None) -> str:
    """What the server's schema is known as of."""
    if report is None:
        return "it was taken before"
    return f"{counted(report.tables, 'table')} as of {report.gtid_executed or report.binlog_position or 'now'}"


def landed_line(report: LandStepReport) -> str:
    """What has landed."""
    landing = report.landing
    if landing is None:
        return "`strata land --follow` has landed all there is"
    if not landing.transactions:
        return "nothing new"
    size = f"{landing.bytes / 1e6:,.1f} MB"
    return f"{counted(landing.transactions, 'transaction')}, {size} in {counted(landing.segments, 'segment')}"


def planned_line(report: PlanReport) -> str:
    """What a run does, and what cannot be decoded."""
    lost = report.refused
    refused = f"; {counted(lost, 'row')} cannot be decoded: {report.reason}" if lost else ""
    if not report.tables:
        return f"nothing is pending{refused}"
    return (
        f"{report.run}: {counted(report.rows, 'row')} of {counted(report.tables, 'table')} "
        f"in {counted(report.slices, 'slice')}{refused}"
    )


def checked_line(verdicts: Sequence[IntervalVerdict]) -> str:
    """What the checks have found, in a line: how many, and the table and column of the first failure."""
    checks, errors = sum(verdict.checks for verdict in verdicts), sum(len(verdict.errors) for verdict in verdicts)
    failures = [failure for verdict in verdicts for failure in verdict.failures]
    warnings = len(failures) - errors
    summary = f"{counted(checks, 'check')}, {errors:,} failed, {counted(warnings, 'warning')}"
    first = min(failures, key=lambda failure: failure.severity is not Severity.ERROR, default=None)
    if first is None:
        return summary
    where = ".".join(filter(None, (first.table, first.column)))
    others = f"; and {counted(len(failures) - 1, 'other')}, in the Data Docs" if len(failures) > 1 else ""
    return f"{summary}: {where and f'{where}: '}{first.message}{others}"


def published_line(report: PublishReport) -> str:
    """What was published, in a line."""
    tables = len({table.table for table in report.tables})
    withheld = sum(rows.rows for rows in report.withheld)
    names = sorted({rows.table for rows in report.withheld})
    left = f"; not published: {counted(withheld, 'row')} of {', '.join(names[:3])}" if names else ""
    others = f" and {counted(len(names) - 3, 'other')}" if len(names) > 3 else ""
    return f"{counted(report.rows, 'row')} of {counted(tables, 'table')}{left}{others}"


def tracked_line(report: TrackReport) -> str:
    """What the history has learned."""
    gaps = f"; {counted(report.gaps, 'table became unknown', 'tables became unknown')}" if report.gaps else ""
    first = next((f"; {notice}" for notice in report.notices if notice.kind is NoticeKind.DRIFT), "")
    more = f" (and {counted(report.drifts - 1, 'table')} more)" if first and report.drifts > 1 else ""
    done = f"{counted(report.statements, 'DDL statement')}, {counted(report.versions, 'schema version')}"
    return f"{done}{gaps}{first}{more}"


def decoded_line(report: DecodeReport) -> str:
    """What was decoded."""
    engine = "" if report.engine is None else f", {report.engine}"
    return f"{counted(report.rows, 'row')} from {counted(report.slices, 'slice')}{engine}"


def mirrored_line(sums: MirrorSums) -> str:
    """How far the mirrors are, and which are late."""
    if not sums.mirrors:
        return "none: no table that `mirrors` names has a mirror, or waits for one"
    late = f"; {counted(len(sums.behind), 'table')} late: {sums.behind[0]}" if sums.behind else ""
    return f"{counted(sums.mirrors, 'table')}, {counted(sums.commits, 'commit')}{late}"


def read_again_line(report: DumpReport) -> str:
    """What was dumped."""
    failed = f"; {report.failed[0].table}: {report.failed[0].message}" if report.failed else ""
    rows = sum(table.rows for table in report.tables)
    return f"{counted(rows, 'row')} of {', '.join(table.table for table in report.tables) or 'no table'}{failed}"
