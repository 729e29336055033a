"""Publishes what a run has staged, if and only if its stored verdict says so.
Not here: reaching the verdict (`check_interval.py`), the commits (`tables/commit.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata.checks.verdict import IntervalVerdict, Severity, staged_digest
from strata.errors import ChecksFailedError
from strata.jobs.check_interval import read_staged, read_verdicts, rows_removed, write_verdicts
from strata.jobs.run_folder import DECODED, read_plan, run_folder
from strata.schema.model import TableName
from strata.tables.commit import publish
from strata.values import to_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata.jobs.specs import Interval, RunPlan
    from strata.tables.write import StagedFile
    from strata.wire.storage import Folder


class PublishedTable(Struct, frozen=True):
    """One table's part of an interval, as readers have it now."""

    table: str
    """`database.table`."""
    interval: int
    """Start (microseconds UTC)."""
    generation: int
    delta_version: int
    rows: int
    schema_versions: tuple[int, ...]
    gtid_executed: str
    """What the stream had executed at the interval's end."""
    changed: int
    """Files that came or went; 0 if it was published just so before."""


class PublishReport(Struct, frozen=True):
    """What a run has published."""

    source: str
    run: str
    intervals: int
    rows: int
    warnings: int
    """Checks of severity warning that failed."""
    tables: tuple[PublishedTable, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return to_plain(self)


def publish_interval(lake: str, source: str, run: str) -> PublishReport:
    """Makes the rows of a run's intervals what readers see; nothing of any interval unless all verdicts allow it.

    Safe to repeat, and to run again after it was killed: what is published already stays as it is.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        run: The run's key; its folder has the plan, what was decoded and the verdicts.

    Raises:
        ChecksFailedError: An interval with rows has no verdict, a failing one, or one on other files.
        LakeUnavailableError: The storage does not answer, or the run has not been decoded.
    """
    folder = run_folder(lake, source, run)
    plan = read_plan(folder)
    # Without slices there is nothing to decode or to judge, and the steps between were left out.
    staged = read_staged(folder) if plan.slices or folder.exists(DECODED) else ()
    verdicts = read_verdicts(folder) or _verdicts_without_rows(folder, plan)
    publishable = [file for file in staged if file.is_publishable]
    work = [
        (interval, [file for file in publishable if file.interval == interval.start]) for interval in plan.intervals
    ]
    for interval, files in work:
        _refuse_unless_passed(plan, interval, files, verdicts.get(interval.start))
    published = [entry for interval, files in work for entry in _publish(plan, interval, files)]
    return PublishReport(
        source=source,
        run=run,
        intervals=len(plan.intervals),
        rows=sum(entry.rows for entry in published),
        warnings=sum(failure.severity is Severity.WARNING for one in verdicts.values() for failure in one.failures),
        tables=tuple(published),
    )


def _verdicts_without_rows(folder: Folder, plan: RunPlan) -> dict[int, IntervalVerdict]:
    """What is to be said of a run without rows, which nobody checked: rows that DDL removed."""
    if plan.slices or not plan.removed:
        return {}
    digest = staged_digest(())
    verdicts = [
        IntervalVerdict(plan.source, interval.start, digest, (), tuple(rows_removed(plan, interval)))
        for interval in plan.intervals
    ]
    write_verdicts(folder, verdicts)
    return {verdict.interval: verdict for verdict in verdicts}


def _refuse_unless_passed(
    plan: RunPlan, interval: Interval, files: Sequence[StagedFile], verdict: IntervalVerdict | None
) -> None:
    if not files and not any(_expected(plan, interval).values()):
        return
    check = f"`strata check {plan.run} --source {plan.source}`"
    if verdict is None:
        raise ChecksFailedError(
            "there is no verdict on what was decoded", source=plan.source, remedy=f"Run {check}, then publish again."
        )
    if not verdict.passed:
        first = verdict.errors[0]
        raise ChecksFailedError(
            f"{len(verdict.errors)} checks failed, the first: {first.message}",
            source=plan.source,
            table=first.table or None,
            remedy=f"{check} shows all of them; the rows are in quarantine.",
        )
    if verdict.staged != staged_digest((str(file.name), file.file_name) for file in files):
        raise ChecksFailedError(
            "the verdict is on other files than those that were decoded last",
            source=plan.source,
            remedy=f"Run {check}, then publish again.",
        )


def _publish(plan: RunPlan, interval: Interval, files: Sequence[StagedFile]) -> list[PublishedTable]:
    tables = {file.name for file in files}
    # A table that the plan looked at and that has no rows (any more) is emptied; others are not this run's business.
    tables |= {TableName(*name.split(".", 1)) for name, rows in _expected(plan, interval).items() if not rows}
    return [entry for table in sorted(tables) for entry in _publish_table(plan, interval, table, files)]


def _publish_table(
    plan: RunPlan, interval: Interval, table: TableName, files: Sequence[StagedFile]
) -> list[PublishedTable]:
    of_table = [file for file in files if file.name == table]
    versions = tuple(sorted({file.version_id for file in of_table}))
    return [
        PublishedTable(
            table=str(table),
            interval=interval.start,
            generation=commit.generation,
            delta_version=commit.version,
            rows=commit.rows,
            schema_versions=versions,
            gtid_executed=interval.gtid_executed,
            changed=commit.added_files + commit.removed_files,
        )
        for commit in publish(plan.lake, plan.source, table, interval.start, of_table)
    ]


def _expected(plan: RunPlan, interval: Interval) -> dict[str, int]:
    return plan.expected_rows.get(str(interval.start), {})
