"""Decisions on rows that were withheld: release publishes them as they are, discard gives them up.
Not here: finding them (`find.py`), what is kept of a decision (`store/decisions.py`). Either may die anywhere and be
done again. A release first stores that it begins, then commits the rows, then stores the state: if it dies in
between, the rows are still withheld, by the ledger, which has that it was begun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.clock import moment_key
from strata_cdc.errors import (
    AlreadyRunningError,
    DamagedFileError,
    SchemaMismatchError,
    UndecodableTextError,
    UnreadableValueError,
    Usage,
)
from strata_cdc.pipeline.publish.publication import rows_by_version
from strata_cdc.pipeline.publish.stored_verdicts import digest_of
from strata_cdc.quality.checks.run import OF_FILES
from strata_cdc.runs.run_folder import read_decoded, read_plan, run_folder
from strata_cdc.schema.history.shell_words import pattern_word
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.decisions import Decision, DecisionLedger, Verb
from strata_cdc.store.ledgers import IntervalLedger, PublishedDetails, PublishedInterval, PublishedLedger
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.tables.commit import publish
from strata_cdc.tables.lost import newest_commits
from strata_cdc.tables.pinned import find_damage

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.errors import ErrorFacts
    from strata_cdc.pipeline.quarantine.find import InQuarantine
    from strata_cdc.store.table_intervals import TableInterval
    from strata_cdc.tables.write import StagedFile


class Decider(Struct, frozen=True):
    """Who decides, and why."""

    because: str
    by: str
    at: int
    """Microseconds UTC."""


class DecisionOutcome(Struct, frozen=True):
    """What became of one table's part of one interval."""

    table: str
    interval: int
    """Start (microseconds UTC)."""
    rows: int
    """That were released, or discarded."""
    state: IntervalState
    left: int = 0
    """Rows that a release has left withheld: their columns are not known."""
    delta_version: int | None = None


def release(source: Source, engine: sa.Engine, quarantined: InQuarantine, decided: Decider) -> DecisionOutcome:
    """Publishes the rows of a table and interval that are in quarantine, as they are.

    They are those that were checked, byte for byte, or nothing is published.

    Args:
        source: The source.
        engine: Its store.
        quarantined: What is released.
        decided: By whom, and why.

    Raises:
        Usage: None of its rows are in quarantine.
        SchemaMismatchError: The columns of the rows are not known.
        DamagedFileError: They are not those that were checked; nothing is published.
        LostTableError: Of the change table something was deleted; nothing is published.
        AlreadyRunningError: A run has changed the table's part of the interval meanwhile; its rows are pending.
        LakeUnavailableError: The storage does not answer.
        StoreUnavailableError: The store does not answer.
    """
    entry = quarantined.withheld.table_interval
    rest = [file for file in quarantined.aside if not _is_releasable(file)]
    files = [*_judged(source, quarantined), *(file for file in quarantined.aside if _is_releasable(file))]
    _refuse_others(source, quarantined, files)
    decision = _decision(quarantined, Verb.RELEASE, decided)
    DecisionLedger(engine).begin(decision)
    name = TableName(entry.database, entry.table)
    known = newest_commits(source.name, engine).get(name)
    interval = IntervalLedger(engine).get(source.name, entry.start)
    commit = publish(source.lake, source.name, name, entry.start, files, known=known, span=interval)
    rows, version = (commit.rows, commit.version) if commit else (0, 0)
    _note(engine, quarantined, files, rows, version, decided.at)
    reason = _left(source, quarantined, rest)
    after = replace(
        entry,
        state=IntervalState.BLOCKED if reason else IntervalState.PUBLISHED,
        reason=reason,
        published_rows=rows,
        changed_at=decided.at,
    )
    done = replace(decision, rows=_released(entry, rows), done_at=decided.at)
    if not DecisionLedger(engine).settle(done, entry, after):
        raise _changed(source, entry, "its rows are pending: the next run publishes them again")
    return DecisionOutcome(entry.name, entry.start, done.rows, after.state, max(0, entry.rows - rows), version)


def discard(source: Source, engine: sa.Engine, quarantined: InQuarantine, decided: Decider) -> DecisionOutcome:
    """Gives up the rows of a table and interval that are not published: they are no longer pending.

    The ledger keeps that they were discarded, by whom, why, and what had blocked them; the files stay as long as
    other quarantine that is settled.

    Args:
        source: The source.
        engine: Its store.
        quarantined: What is discarded.
        decided: By whom, and why.

    Raises:
        AlreadyRunningError: A run has changed the table's part of the interval meanwhile; nothing is discarded.
        StoreUnavailableError: The store does not answer.
    """
    entry = quarantined.withheld.table_interval
    done = replace(_decision(quarantined, Verb.DISCARD, decided), done_at=decided.at)
    after = replace(entry, state=IntervalState.DISCARDED, changed_at=decided.at)
    if not DecisionLedger(engine).settle(done, entry, after):
        raise _changed(source, entry, "nothing was discarded")
    return DecisionOutcome(entry.name, entry.start, quarantined.withheld.rows, after.state)


def _released(entry: TableInterval, rows: int) -> int:
    """What is new to readers: all of what failed, and of what is blocked (held), what was not published."""
    return rows if entry.state is IntervalState.FAILED else rows - entry.published_rows


def _is_releasable(file: StagedFile) -> bool:
    """Rows that a TABLE_MAP alone has decoded have no names: to publish them would be a guess."""
    return file.why.error in {UndecodableTextError.__name__, UnreadableValueError.__name__}


def _judged(source: Source, quarantined: InQuarantine) -> Sequence[StagedFile]:
    """The files that the verdict is on: of what failed in quarantine; of what is blocked (held) in part, those
    published."""
    entry = quarantined.withheld.table_interval
    if entry.state is IntervalState.FAILED:
        return quarantined.judged
    if not quarantined.aside:
        return ()
    decoded = read_decoded(run_folder(source.lake, source.name, entry.run or ""))
    return [
        file
        for file in decoded.publishable(entry.start)
        if (file.database, file.table) == (entry.database, entry.table)
    ]


def _refuse_others(source: Source, quarantined: InQuarantine, files: Sequence[StagedFile]) -> None:
    entry, verdict = quarantined.withheld.table_interval, quarantined.withheld.verdict
    judged = [file for file in files if file.is_publishable]
    again = f"`strata run --source {source.name} --failed --table {pattern_word(entry.name)}` decodes the rows again"
    without = (
        f"`strata quarantine discard --source {source.name} --table {pattern_word(entry.name)} --because '...'` does "
        "without"
    )
    is_nothing = not judged if entry.state is IntervalState.FAILED else len(judged) == len(files)
    if is_nothing and not (quarantined.judged or quarantined.aside):
        raise Usage(
            f"none of the rows are in quarantine: {entry.reason.message if entry.reason else 'nobody decoded them'}",
            source=source.name,
            table=entry.name,
            remedy=f"{again}; {without} them.",
        )
    if is_nothing:
        raise SchemaMismatchError(
            "nobody knows the columns of the rows in quarantine, and no column is guessed: "
            + (quarantined.aside[0].why.message if quarantined.aside else "they are not all that there are"),
            source=source.name,
            table=entry.name,
            remedy=f"Fix the schema history, then {again}; {without} them.",
        )
    unusable = next((failure for failure in quarantined.withheld.failures if failure.check in OF_FILES), None)
    if unusable is not None:
        raise _not_checked(source, entry, unusable.message, again)
    if (
        verdict is None
        or digest_of(judged) != verdict.details.staged
        or digest_of(quarantined.aside) != verdict.details.aside
    ):
        raise _not_checked(source, entry, "the files are not all of those that the verdict is on", again)
    for url, damage in find_damage(files).items():
        raise _not_checked(source, entry, f"a file {damage}", again, url)


def _not_checked(
    source: Source, entry: TableInterval, why: str, again: str, file: str | None = None
) -> DamagedFileError:
    return DamagedFileError(
        f"the rows in quarantine of {moment_key(entry.start)} are not the rows that were checked: {why}",
        source=source.name,
        table=entry.name,
        file=file,
        remedy=f"{again}.",
    )


def _left(source: Source, quarantined: InQuarantine, rest: Sequence[StagedFile]) -> ErrorFacts | None:
    """Why some rows stay withheld after a release: their columns or their schema are not known."""
    if rest:
        return rest[0].why
    entry = quarantined.withheld.table_interval
    plan = read_plan(run_folder(source.lake, source.name, entry.run or ""))
    mine = (rows.error for rows in plan.refused if (rows.interval, rows.table) == (entry.start, entry.name))
    return next(mine, None)


def _note(
    engine: sa.Engine, quarantined: InQuarantine, files: Sequence[StagedFile], rows: int, version: int, now: int
) -> None:
    entry = quarantined.withheld.table_interval
    interval = IntervalLedger(engine).get(entry.source, entry.start)
    versions = tuple(sorted({file.version_id for file in files}))
    executed = interval.gtid_executed if interval else ""
    details = PublishedDetails(executed, entry.run or "", versions, rows_by_version(files))
    PublishedLedger(engine).put(
        PublishedInterval(entry.source, entry.start, entry.full_name, version, rows, now, details)
    )


def _decision(quarantined: InQuarantine, verb: Verb, decided: Decider) -> Decision:
    entry = quarantined.withheld.table_interval
    return Decision(
        source=entry.source,
        start_at=entry.start,
        database_name=entry.database,
        table_name=entry.table,
        run=entry.run or "",
        verb=verb,
        because=decided.because,
        decided_by=decided.by,
        decided_at=decided.at,
        rows=quarantined.withheld.rows,
    )


def _changed(source: Source, entry: TableInterval, outcome: str) -> AlreadyRunningError:
    return AlreadyRunningError(
        f"a run has changed the interval {moment_key(entry.start)} meanwhile: {outcome}",
        source=source.name,
        table=entry.name,
        remedy=f"`strata quarantine list --source {source.name}` shows what is withheld now.",
    )
