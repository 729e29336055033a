"""Publishes a run: its tables one after the other, the outcome of each in the ledger as soon as it is known.
Not here: the commits (`publication.py`), the staged files (`pipeline/housekeep/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.clock import now_micros
from strata_cdc.errors import Usage
from strata_cdc.lake.newest_published import note_published
from strata_cdc.pipeline.publish.publication import RunPublication
from strata_cdc.pipeline.publish.report import PublishedTable, TableOutcome
from strata_cdc.pipeline.publish.stored_verdicts import stored_verdicts
from strata_cdc.store.database import writing
from strata_cdc.store.decisions import DecisionLedger
from strata_cdc.store.ledgers import IntervalLedger, PublishedDetails, PublishedInterval, PublishedLedger, store_note
from strata_cdc.store.owned import owners, require_closed
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger, store_table_interval
from strata_cdc.store.verdicts import VerdictLedger, VerdictOutcome, store_verdicts
from strata_cdc.tables.lost import newest_commits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import sqlalchemy as sa

    from strata_cdc.pipeline.publish.report import PublishReport
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.runs.specs import PlannedTable

_WITHHELD = (IntervalState.FAILED, IntervalState.BLOCKED)


def publish_run(lake: str, source: str, run: str, engine: sa.Engine) -> PublishReport:
    """Commits what passed its checks, and stores the outcome of each table in the ledgers.

    Safe to repeat, and to run again after it was killed: what is published already stays as it is.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        run: The run's key; its folder has the plan, what was decoded and the verdicts.
        engine: The source's store.

    Raises:
        ChecksFailedError: An interval with rows has no verdict, or one on other files.
        Usage: There is no such run, or it has not been decoded; or it was published and cleared, and something of it no
            longer counts as published.
        LakeUnavailableError: The storage does not answer.
        DamagedFileError: A file of the run is not whole.
    """
    ledger, decisions = TableIntervalLedger(engine), DecisionLedger(engine)

    def is_published(planned: PlannedTable, rows: int) -> bool:
        stored = ledger.get(source, planned.interval, planned.database, planned.table)
        if stored is None or stored.state not in {IntervalState.BLOCKED, IntervalState.DISCARDED}:
            return stored is not None and stored.state is IntervalState.PUBLISHED
        # What was released is more than a run may publish without a decision, also if the rest was discarded since.
        is_less = stored.run == run or rows <= stored.published_rows
        return is_less and decisions.is_decided(stored)

    publication = RunPublication(lake, source, run, is_published=is_published, known=newest_commits(source, engine))
    outcomes = _published_now(lake, engine, publication)
    if outcomes is None:
        return publication.report(list(_published_before(engine, publication.plan)), is_done_before=True)
    return publication.report(outcomes)


def _published_now(lake: str, engine: sa.Engine, publication: RunPublication) -> list[TableOutcome] | None:
    """The outcomes; None if all of the run is published, by this process before or by another process, and its staged
    files were deleted."""
    if _is_done_elsewhere(engine, publication):
        return None
    plan = publication.plan
    # Before anything follows from them.
    with writing(engine) as connection:
        for interval in plan.intervals:
            require_closed(connection, plan.source, interval)
        store_verdicts(connection, stored_verdicts(publication, judged_at=now_micros()))
    if plan.intervals:
        note_published(lake, plan.source, max(interval.start for interval in plan.intervals), plan.run)
    outcomes = []
    for outcome in publication.commit_tables():
        decided = _decided(engine, plan, outcome)
        if decided is None:
            if outcome.state is IntervalState.FAILED and _is_done_elsewhere(engine, publication):
                return None
            _note(engine, plan, outcome)
        outcomes.append(decided or outcome)
    return outcomes


def _is_done_elsewhere(engine: sa.Engine, publication: RunPublication) -> bool:
    """Two processes may do the same run; one deletes the staged files while the other has not published them yet."""
    if publication.is_cleared:
        return True
    plan, table_intervals = publication.plan, TableIntervalLedger(engine)
    published = (IntervalState.PUBLISHED, plan.run, plan.history)
    for planned in plan.tables:
        table_interval = table_intervals.get(plan.source, planned.interval, planned.database, planned.table)
        if table_interval is None or (table_interval.state, table_interval.run, table_interval.history) != published:
            return False
    return publication.lacks_files()


def _decided(engine: sa.Engine, plan: RunPlan, outcome: TableOutcome) -> TableOutcome | None:
    """What somebody has decided on these rows, whichever run decoded them: an interval has the same ones for ever. None
    where nobody has, or the run publishes more by now."""
    if outcome.published and outcome.state not in _WITHHELD:
        return None
    planned = outcome.planned
    stored = TableIntervalLedger(engine).get(plan.source, planned.interval, planned.database, planned.table)
    if stored is None or (outcome.published and stored.run != plan.run):
        return None
    if not DecisionLedger(engine).is_decided(stored):
        return None
    return TableOutcome(planned, stored.state, reason=stored.reason if stored.state is IntervalState.BLOCKED else None)


def _published_before(engine: sa.Engine, plan: RunPlan) -> Iterator[TableOutcome]:
    """The outcome of a run that is published and cleared: the same that publishing it again would return."""
    table_intervals, published = TableIntervalLedger(engine), PublishedLedger(engine)
    ends = {interval.start: interval.gtid_executed for interval in plan.intervals}
    verdicts = {
        (verdict.start, verdict.table): verdict.outcome
        for verdict in VerdictLedger(engine).select(plan.source, set(ends))
    }
    owner = owners(IntervalLedger(engine).all(plan.source))
    for planned in plan.tables:
        table_interval = table_intervals.get(plan.source, owner(planned.interval), planned.database, planned.table)
        if table_interval is None or table_interval.state is not IntervalState.PUBLISHED:
            raise Usage(
                f"the run was published and its staged files were cleared; {planned.name} is "
                f"{table_interval.state if table_interval else 'not in the ledger'} since",
                source=plan.source,
                table=planned.name,
                remedy=f"`strata plan --source {plan.source} --failed` takes what is not published.",
            )
        entry = published.get(plan.source, table_interval.start, planned.full_name)
        tables = () if entry is None else (_table_of(planned.name, entry, ends, verdicts),)
        yield TableOutcome(planned, IntervalState.PUBLISHED, tables)


def _table_of(
    name: str, entry: PublishedInterval, ends: Mapping[int, str], verdicts: Mapping[tuple[int, str], VerdictOutcome]
) -> PublishedTable:
    return PublishedTable(
        table=name,
        interval=entry.interval_start,
        delta_version=entry.delta_version,
        rows=entry.rows,
        schema_versions=entry.details.schema_versions,
        gtid_executed=ends.get(entry.interval_start, entry.details.gtid_executed),
        changed=0,
        verdict=verdicts.get((entry.interval_start, entry.table), VerdictOutcome.PASSED),
        by_version=entry.details.by_version,
    )


def _note(engine: sa.Engine, plan: RunPlan, outcome: TableOutcome) -> None:
    """Stores an outcome in the ledgers. If the process dies before this, the rows stay pending, and are published
    again."""
    planned, now = outcome.planned, now_micros()
    before = TableIntervalLedger(engine).get(plan.source, planned.interval, planned.database, planned.table)
    # Tables without a new commit are as they were.
    rows = outcome.published_rows if outcome.published or before is None else before.published_rows
    table_interval = TableInterval(
        source=plan.source,
        start=planned.interval,
        database=planned.database,
        table=planned.table,
        rows=planned.counted,
        state=outcome.state,
        reason=outcome.reason,
        published_rows=rows,
        run=plan.run,
        history=plan.history,
        changed_at=now,
    )
    with writing(engine) as connection:
        require_closed(connection, plan.source, plan.interval(planned.interval))
        for table in outcome.published:
            details = PublishedDetails(table.gtid_executed, plan.run, table.schema_versions, table.by_version)
            version = (planned.full_name, table.delta_version, table.rows)
            store_note(connection, PublishedInterval(plan.source, table.interval, *version, now, details))
        store_table_interval(connection, table_interval)
