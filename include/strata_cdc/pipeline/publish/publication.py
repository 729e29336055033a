"""Publishes what a run has staged, each table if and only if the stored verdict allows it.
Not here: reaching the verdict (`quality/check_step/check_interval.py`), the commits (`tables/commit.py`), the ledgers
(`publish_run.py`)."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import ChecksFailedError
from strata_cdc.pipeline.publish.of_tables import FilesOfTables, FindingsOfTables
from strata_cdc.pipeline.publish.report import PublishedTable, PublishReport, TableOutcome, WithheldTable
from strata_cdc.quality.check_step.check_interval import unlogged_changes
from strata_cdc.runs.run_folder import (
    DECODED,
    DecodedRun,
    lacks_files,
    read_decoded,
    read_plan,
    read_verdicts,
    refuse_other_plan,
    run_folder,
    write_verdicts,
)
from strata_cdc.runs.verdict import IntervalVerdict, Severity, staged_digest
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.ledgers import VersionRows
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.verdicts import VerdictOutcome
from strata_cdc.tables.commit import publish
from strata_cdc.tables.quarantine import quarantine_folder
from strata_cdc.unforeseen import as_strata_error, may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.errors import ErrorFacts
    from strata_cdc.files.storage import Folder
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import Interval, PlannedTable
    from strata_cdc.runs.verdict import Failure
    from strata_cdc.tables.write import StagedFile


_MANY_TABLES: Final = 16
"""From so many tables of an interval on they are committed side by side."""
_SIDE_BY_SIDE: Final = 8
"""Commits at once."""


def in_quarantine(lake: str, source: str, run: str, interval: int) -> str:
    """Where the rows of a failed check are, and how to publish them: a sentence to put before others."""
    return (
        f"The rows are in quarantine, in {quarantine_folder(lake, source, interval, run)}. Once the check holds, or is "
        f"corrected, `strata run --source {source} --failed` takes them from the binlog again; `strata quarantine show "
        f"--source {source}` shows the other choices. "
    )


class RunPublication:
    """The publication of one run."""

    def __init__(
        self,
        lake: str,
        source: str,
        run: str,
        *,
        is_published: Callable[[PlannedTable, int], bool],
        known: Mapping[TableName, int],
    ) -> None:
        """Reads what the run has left.

        Args:
            lake: Folder or URL of the lake.
            source: The source's name.
            run: The run's key.
            is_published: Whether readers see all rows of a table and interval already, or more than so many, which this
                run has; this run's rows then do not replace them.
            known: The newest commit of each table that is known to have been made.

        Raises:
            ChecksFailedError: An interval with rows has no verdict, or one on other files.
            Usage: There is no such run, or it has not been decoded.
            LakeUnavailableError: The storage does not answer.
            DamagedFileError: A file of the run is not whole, or the plan is not the plan that was decoded.
        """
        self._folder = run_folder(lake, source, run)
        self._is_published = is_published
        self._known = dict(known)
        self.plan = read_plan(self._folder)
        # Without slices there is nothing to decode or to judge, and the steps between were skipped.
        is_decoded = bool(self.plan.slices) or self._folder.exists(DECODED)
        self._decoded = read_decoded(self._folder) if is_decoded else DecodedRun(())
        refuse_other_plan(self._folder, self._decoded)
        self.verdicts = read_verdicts(self._folder) or _verdicts_without_rows(self._folder, self.plan)
        self._files = FilesOfTables(self._decoded, (interval.start for interval in self.plan.intervals))
        self._findings = {start: FindingsOfTables(verdict) for start, verdict in self.verdicts.items()}
        self._refused = {(rows.interval, rows.table): rows.error for rows in reversed(self.plan.refused)}
        for interval in self.plan.intervals:
            self._refuse_unjudged(interval)

    def commit_tables(self) -> Iterator[TableOutcome]:
        """Commits what may be published, in order of interval and table, and yields the outcome of each, which may be
        repeated after a kill.

        Tables of one interval are committed side by side if there are many: a commit waits for the disk, or the object
        store, most of its time. They have nothing in common but the interval.
        """
        for interval in self.plan.intervals:
            tables = self.plan.of_interval(interval)
            if len(tables) < _MANY_TABLES:
                for planned in tables:
                    yield self._without_commit(planned) or self._publish(interval, planned)
                continue
            # Before the threads: the ledger is asked here.
            known = [self._without_commit(planned) for planned in tables]
            with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
                left = [planned for planned, outcome in zip(tables, known, strict=True) if outcome is None]
                commits = pool.map(partial(self._publish, interval), left)
                try:
                    yield from (outcome or next(commits) for outcome in known)
                finally:
                    pool.shutdown(cancel_futures=True)

    def _without_commit(self, planned: PlannedTable) -> TableOutcome | None:
        """The outcome of a table of which nothing is to be committed; None if something is."""
        if planned.held is not None:
            return TableOutcome(planned, IntervalState.BLOCKED, reason=planned.held)
        findings, (files, _) = self._findings.get(planned.interval), self._files.for_table(planned)
        failures = findings.errors(planned.full_name) if findings else ()
        if failures:
            return TableOutcome(planned, IntervalState.FAILED, reason=self._failed(planned, failures, files))
        if self._left_out(planned) and self._is_published(planned, sum(file.rows for file in files)):
            return TableOutcome(planned, IntervalState.PUBLISHED)
        return None

    def _publish(self, interval: Interval, planned: PlannedTable) -> TableOutcome:
        findings, (files, _) = self._findings.get(planned.interval), self._files.for_table(planned)
        warned = findings is not None and bool(findings.failures(planned.full_name))
        outcome = VerdictOutcome.WARNED if warned else VerdictOutcome.PASSED
        reason = self._left_out(planned)
        # A statement whose tables are not known has a warning, and nothing to commit.
        try:
            committed = self._commit(interval, planned, files, outcome) if planned.database else ()
        except Exception as error:
            if may_pass(error):
                raise
            return TableOutcome(planned, IntervalState.FAILED, reason=as_strata_error(error, planned.name).facts())
        return TableOutcome(planned, IntervalState.BLOCKED if reason else IntervalState.PUBLISHED, committed, reason)

    def _commit(
        self, interval: Interval, planned: PlannedTable, files: Sequence[StagedFile], outcome: VerdictOutcome
    ) -> tuple[PublishedTable, ...]:
        """Commits a table's files, and no others: what was published of the interval and is not among them goes."""
        name = TableName(planned.database, planned.table)
        known = self._known.get(name)
        commit = publish(self.plan.lake, self.plan.source, name, interval.start, files, known=known, span=interval)
        if commit is None:
            return ()
        self._known[name] = commit.version
        return (
            PublishedTable(
                table=planned.name,
                interval=interval.start,
                delta_version=commit.version,
                rows=commit.rows,
                schema_versions=tuple(sorted({file.version_id for file in files})),
                gtid_executed=interval.gtid_executed,
                changed=commit.added_files + commit.removed_files,
                verdict=outcome,
                by_version=rows_by_version(files),
            ),
        )

    def _failed(self, planned: PlannedTable, failures: Sequence[Failure], files: Sequence[StagedFile]) -> ErrorFacts:
        plan = self.plan
        others = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
        first = failures[0]
        column = f"column {first.column}: " if first.column else ""
        return ChecksFailedError(
            f"{column}{first.message}{others}",
            source=plan.source,
            table=planned.name,
            remedy=(in_quarantine(plan.lake, plan.source, plan.run, planned.interval) if files else "")
            + f"`strata check {plan.run} --source {plan.source}` shows all.",
        ).facts()

    def _left_out(self, planned: PlannedTable) -> ErrorFacts | None:
        """Why some rows of a table that is published are not: their schema is not known, or they are in quarantine."""
        refused = self._refused.get((planned.interval, planned.name))
        if refused is not None:
            return refused
        _, aside = self._files.for_table(planned)
        return aside[0].why if aside else None

    def _refuse_unjudged(self, interval: Interval) -> None:
        files = self._decoded.publishable(interval.start)
        if not files and not any(table.rows for table in self.plan.of_interval(interval)):
            return
        check = f"`strata check {self.plan.run} --source {self.plan.source}`"
        verdict = self.verdicts.get(interval.start)
        if verdict is None:
            message = "there is no verdict on the decoded files"
        elif verdict.staged != staged_digest((str(file.name), file.digest) for file in files):
            message = "the verdict is on other files than those that were decoded last"
        else:
            return
        raise ChecksFailedError(message, source=self.plan.source, remedy=f"Run {check}, then publish again.")

    def files_of(self, planned: PlannedTable) -> tuple[list[StagedFile], list[StagedFile]]:
        """The staged files of a table and interval: those that are judged and published, those put aside."""
        return self._files.for_table(planned)

    def lacks_files(self) -> bool:
        """Whether a staged file is gone."""
        return lacks_files(self._folder, self._decoded)

    @property
    def is_cleared(self) -> bool:
        """Whether all of the run was published and its staged files were deleted then."""
        return self._decoded.cleared

    def report(self, outcomes: Sequence[TableOutcome], *, is_done_before: bool = False) -> PublishReport:
        """What the outcomes amount to."""
        published = tuple(table for outcome in outcomes for table in outcome.published)
        failures = [failure for verdict in self.verdicts.values() for failure in verdict.failures]
        return PublishReport(
            source=self.plan.source,
            run=self.plan.run,
            intervals=len(self.plan.intervals),
            rows=sum(table.rows for table in published),
            warnings=sum(failure.severity is Severity.WARNING for failure in failures),
            tables=published,
            withheld=tuple(
                WithheldTable(
                    table=of_table.planned.name,
                    interval=of_table.planned.interval,
                    state=of_table.state,
                    rows=of_table.planned.counted - of_table.published_rows,
                    reason=of_table.reason,
                )
                for of_table in outcomes
                if of_table.reason is not None
            ),
            cleared=is_done_before,
        )


def _verdicts_without_rows(folder: Folder, plan: RunPlan) -> dict[int, IntervalVerdict]:
    """The failure of a run without rows, which nobody checked: a change that has no row event."""
    if plan.slices or not (plan.removed or plan.statements):
        return {}
    digest = staged_digest(())
    verdicts = [
        IntervalVerdict(plan.source, interval.start, digest, (), tuple(unlogged_changes(plan, interval)))
        for interval in plan.intervals
    ]
    write_verdicts(folder, verdicts)
    return {verdict.interval: verdict for verdict in verdicts}


def rows_by_version(files: Iterable[StagedFile]) -> tuple[VersionRows, ...]:
    """The rows and bytes of some files, by the schema version that decoded them."""
    rows, sizes = Counter[int](), Counter[int]()
    for file in files:
        rows[file.version_id] += file.rows
        sizes[file.version_id] += file.size_bytes
    return tuple(VersionRows(version, rows[version], sizes[version]) for version in sorted(rows))
