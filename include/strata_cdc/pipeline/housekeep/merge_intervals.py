"""Merges many short intervals of the past into one, first in the store, then the files of each change table.
Not here: the two merges (`store/merges.py`, `tables/merge_files.py`), when it is done (`pipeline/keep_changes.py`).

A file belongs to the interval whose span of time has the start of the file's partition. So a merged interval is right
before its files are merged, while they are, and after it: a process that dies in between leaves nothing to repair.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.clock import moment_key, now_micros
from strata_cdc.counted import counted
from strata_cdc.errors import StrataError
from strata_cdc.files.storage import list_folders
from strata_cdc.lake.lost_tables import lost_tables
from strata_cdc.landing.landed import LandedStream
from strata_cdc.mirrors.table import Mirror
from strata_cdc.pipeline.housekeep.clean_runs import delete_run
from strata_cdc.pipeline.plan.excluded import ExcludedCopies
from strata_cdc.runs.run_folder import DECODED, PLAN, read_decoded, run_folder, runs_url
from strata_cdc.runs.run_name import RunName
from strata_cdc.runs.specs import Interval
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.definition import TableName
from strata_cdc.selection.wanted import wanted_tables
from strata_cdc.store.full_names import full_name
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.merges import MergeLedger
from strata_cdc.tables.lost import newest_commits, open_changes
from strata_cdc.tables.merge_files import MergeLimits, delete_merged, merge_files
from strata_cdc.tables.port import CommitConflictError, OutputError
from strata_cdc.unforeseen import as_strata_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.files.storage import Folder
    from strata_cdc.store.ledgers import ClosedInterval
    from strata_cdc.store.merges import FileMerge, MergeCandidate

_LOG: Final = logging.getLogger(__name__)
_SECOND: Final = 1_000_000
_HOUR: Final = 3600 * _SECOND
_DAY: Final = 24 * _HOUR
_RUNS_AT_ONCE: Final = 100


@dataclass(frozen=True)
class IntervalMergeLimits:
    """Which intervals become one."""

    most: int = 4
    """So many short intervals may stay in a span of `merge_minutes`."""
    age_seconds: int = 300
    """How long ago the span must have ended: who is informed of a new interval reads it before it is merged."""
    rows: int = 1_000_000
    """Of a merged interval, of all tables: more rows stay in several intervals."""
    run_hours: int = 24
    """A run that was not published is taken for one that is at work as long as its folder changed in these hours."""
    log_hours: int = 1
    """How long the commits of a table stay in its log, and those that its mirror has not followed: who has read the log
    must find what follows. So long the folders of the runs of merged intervals stay, too: a task may still need them.
    """
    files: MergeLimits = field(default_factory=MergeLimits)
    """Of the merge of one table's files."""


class MergeScope(Enum):
    """Which intervals upkeep looks at."""

    SHORT = "short"
    """The short ones of `merge_minutes`: after each run, and between runs."""
    RECENT = "recent"
    """Also those that have become `merge_days` old in the last week: every hour. Intervals that stay as they are, since
    they have too many rows, are not looked at for ever."""
    ALL = "all"
    """Also all older ones: a person asks for it."""


class MergeStep(Struct, frozen=True):
    """One step of upkeep: what was merged or deleted."""

    line: str
    """In words."""
    fault: StrataError | None = None
    """Why it could not be done; it is tried again with the next upkeep."""


def merge_steps(
    source: Source,
    engine: sa.Engine,
    *,
    limits: IntervalMergeLimits = IntervalMergeLimits(),
    now: Callable[[], int] = now_micros,
    scope: MergeScope = MergeScope.SHORT,
) -> Iterator[MergeStep]:
    """Does the upkeep of a source's change tables, in steps of about a second at most. It may end after any of them.

    Args:
        source: The source.
        engine: Its store.
        limits: Which intervals become one.
        now: The time, microseconds UTC.
        scope: Which intervals are looked at.
    """
    for merger in _mergers(source, engine, limits, now(), scope=scope):
        yield from merger.merge_intervals()
    yield from _delete_runs(source, engine, now() - limits.log_hours * _HOUR)
    ledger = MergeLedger(engine)
    pending = ledger.pending(source.name)
    known = newest_commits(source.name, engine) if pending else {}
    for waiting in pending:
        yield _merge_files(source, ledger, waiting, known, limits, now)
    for done in ledger.merged(source.name, now() - source.settings.keep_merged_hours * _HOUR):
        yield _delete_merged(source, ledger, done, limits.log_hours)


def planned_merges(source: Source, engine: sa.Engine, *, scope: MergeScope = MergeScope.SHORT) -> Iterator[MergeStep]:
    """What `merge_steps` would merge; nothing is changed."""
    for merger in _mergers(source, engine, IntervalMergeLimits(), now_micros(), scope=scope):
        yield from merger.planned()


def _mergers(
    source: Source, engine: sa.Engine, limits: IntervalMergeLimits, now: int, *, scope: MergeScope
) -> Iterator[_Merger]:
    """The mergers of short intervals, and of old ones."""
    yield _Merger(source, engine, limits, now, source.settings.merge_minutes * 60 * _SECOND)
    if source.settings.merge_days and scope is not MergeScope.SHORT:
        age = source.settings.merge_days * _DAY
        old = replace(limits, most=1, age_seconds=age // _SECOND)
        yield _Merger(source, engine, old, now, _DAY, max(0, now - age - 7 * _DAY) if scope is MergeScope.RECENT else 0)


def _named(intervals: Sequence[ClosedInterval]) -> str:
    return f"{counted(len(intervals), 'interval')} from {moment_key(intervals[0].start)} on"


class _Merger:
    """Merges intervals in the store."""

    def __init__(
        self, source: Source, engine: sa.Engine, limits: IntervalMergeLimits, now: int, span: int, since: int = 0
    ) -> None:
        self._source, self._engine, self._limits, self._now = source, engine, limits, now
        self._ledger = MergeLedger(engine)
        self._span, self._since = span, since

    def merge_intervals(self) -> Iterator[MergeStep]:
        """Merges what there is to merge, a group at a time."""
        for group in self._found():
            intervals = [candidate.interval for candidate in group]
            if self._ledger.merge(intervals, self._is_wanted(group)):
                yield MergeStep(f"{_named(intervals)} became one")

    def planned(self) -> Iterator[MergeStep]:
        """What `merge_intervals` would do; nothing is changed."""
        for group in self._found():
            yield MergeStep(f"{_named([candidate.interval for candidate in group])} would become one")

    def _found(self) -> Iterator[list[MergeCandidate]]:
        before = self._now - self._limits.age_seconds * _SECOND
        name, most, span = self._source.name, self._limits.most, self._span
        crowded = self._ledger.crowded(name, span, before, most=most, since=self._since) if span else []
        # Rows of a table that lost something come again interval by interval.
        if not crowded or lost_tables(self._source, self._engine):
            return
        for begin in crowded:
            runs = self._runs_of(begin)
            groups = self._groups(self._ledger.candidates(name, begin, begin + span), runs, before)
            yield from (group for group in groups if len(group) > 1)

    def _groups(
        self, candidates: Sequence[MergeCandidate], runs: Sequence[_RunFolder], before: int
    ) -> list[list[MergeCandidate]]:
        """Intervals that can become one, in order."""
        groups: list[list[MergeCandidate]] = [[]]
        rows, states = 0, dict[tuple[str, str], str]()
        for candidate in candidates:
            interval, last = candidate.interval, groups[-1][-1].interval if groups[-1] else None
            is_short = interval.end - interval.start < self._span
            if not (candidate.is_settled and is_short) or self._is_needed(interval, runs, before):
                groups.append([])
                continue
            follows = last is None or (last.end, last.last_seq) == (interval.start, interval.after_seq)
            is_alike = all(states.get(name, state) == state for name, state in candidate.states.items())
            if groups[-1] and not (follows and is_alike and rows + candidate.rows <= self._limits.rows):
                groups.append([])
            if not groups[-1]:
                rows, states = 0, {}
            groups[-1].append(candidate)
            rows += candidate.rows
            states |= candidate.states
        return groups

    @staticmethod
    def _is_needed(interval: ClosedInterval, runs: Sequence[_RunFolder], before: int) -> bool:
        return interval.end > before or any(run.needs(interval) for run in runs)

    def _is_wanted(self, group: Sequence[MergeCandidate]) -> Callable[[str, str], bool]:
        """Whether a table would be published in the interval that a group becomes."""
        first, last = group[0].interval, group[-1].interval
        whole = Interval(first.start, last.end, first.after_seq, last.last_seq, last.gtid_executed)
        since = self._source.settings.owed_since_micros
        wanted, excluded = self._wanted

        def is_wanted(database: str, table: str) -> bool:
            name = TableName(database, table)
            return (since is None or whole.start >= since) and wanted(name) and not excluded.has(name, whole)

        return is_wanted

    @cached_property
    def _wanted(self) -> tuple[Callable[[TableName], bool], ExcludedCopies]:
        stream = LandedStream.open(self._source.lake, self._source.name)
        excluded = ExcludedCopies(self._source, SchemaStore(self._engine), stream)
        return wanted_tables(self._source, self._engine, stream), excluded

    # Runs ---------------------------------------------------------------------------------------------

    def _runs_of(self, begin: int) -> list[_RunFolder]:
        """The runs that may have something to do with the intervals of a span."""
        lake, source = self._source.lake, self._source.name
        runs = []
        for name in list_folders(runs_url(lake, source)):
            parsed = RunName.parse(name)
            # Names have whole seconds.
            if parsed and parsed.start < begin + 2 * self._span and parsed.end + _SECOND > begin:
                runs.append(self._run(name, parsed))
        return runs

    def _run(self, name: str, parsed: RunName) -> _RunFolder:
        folder = run_folder(self._source.lake, self._source.name, name)
        recent = self._now - self._limits.run_hours * _HOUR
        is_open = not _is_done(folder) and any(changed // 1000 > recent for _, changed in folder.stamps().values())
        return _RunFolder(parsed.start, parsed.end + _SECOND, is_open)


def _is_done(folder: Folder) -> bool:
    """Whether all of a run is published."""
    try:
        return not folder.exists(PLAN) or (folder.exists(DECODED) and read_decoded(folder).cleared)
    except StrataError:
        if folder.exists(DECODED):
            raise
        # Another process has deleted the folder meanwhile, or is about to.
        return not folder.exists(PLAN)


class _RunFolder(Struct, frozen=True):
    """A run folder."""

    start: int
    """Of its first interval, microseconds UTC; up to a second less."""
    end: int
    """Of its last one; up to a second more."""
    is_open: bool
    """Whether somebody may be at work on it."""

    def needs(self, interval: ClosedInterval) -> bool:
        """Whether an interval must stay as it is for the run."""
        return self.is_open and self.start < interval.end and interval.start < self.end


def _delete_runs(source: Source, engine: sa.Engine, before: int) -> Iterator[MergeStep]:
    """Deletes the folders of published runs from before a time (microseconds UTC) whose intervals are part of longer
    ones. Those whose checks have something to show stay."""
    named = ((name, RunName.parse(name)) for name in list_folders(runs_url(source.lake, source.name)))
    runs = [(name, run) for name, run in named if run is not None and run.end < before]
    if not runs:
        return
    first, last = min(run.start for _, run in runs), max(run.end for _, run in runs)
    marks = IntervalLedger(engine).overlapping(source.name, first, last + _SECOND)
    starts = [interval.start for interval in marks]
    count = 0
    for name, run in runs:
        # Names have whole seconds.
        at = bisect_right(starts, run.start + _SECOND) - 1
        is_part = (
            at >= 0 and run.end <= marks[at].end and run.end - run.start + 2 * _SECOND < marks[at].end - starts[at]
        )
        folder = run_folder(source.lake, source.name, name)
        if is_part and not list_folders(folder.url) and _is_done(folder) and not _is_younger(folder, before):
            delete_run(folder)
            count += 1
            if count % _RUNS_AT_ONCE == 0:
                yield MergeStep(f"deleted {_RUNS_AT_ONCE} folders of runs whose intervals became part of longer ones")
    if count % _RUNS_AT_ONCE:
        made = counted(count % _RUNS_AT_ONCE, "folder")
        yield MergeStep(f"deleted {made} of runs whose intervals became part of longer ones")


def _is_younger(folder: Folder, before: int) -> bool:
    return any(changed // 1000 >= before for _, changed in folder.stamps().values())


def _merge_files(
    source: Source,
    ledger: MergeLedger,
    waiting: FileMerge,
    known: dict[TableName, int],
    limits: IntervalMergeLimits,
    now: Callable[[], int],
) -> MergeStep:
    """Merges the files of one table's part of an interval."""
    name = TableName(waiting.database_name, waiting.table_name)
    where = f"{name} in the interval {moment_key(waiting.start_at)}"
    span = waiting.start_at, waiting.end_at
    try:
        done = merge_files(source.lake, source.name, name, *span, known=known.get(name), limits=limits.files)
    except Exception as error:  # noqa: BLE001  one table's error must stop no other
        reported = as_strata_error(error, str(name))
        _LOG.warning("files of %s could not be merged: %s", where, reported)
        return MergeStep(f"{where}: files stay as they are: {reported}", fault=reported)
    version = None if done is None else done.version
    ledger.note_merged(waiting, full_name(name.database, name.table), version, now=now())
    if done is None:
        return MergeStep(f"{where}: one file")
    return MergeStep(f"{where}: {counted(done.files_before, 'file')} made {done.files_after}")


def _delete_merged(source: Source, ledger: MergeLedger, done: FileMerge, log_hours: int) -> MergeStep:
    """Deletes what the merge of one table's files has replaced, and old commits of the table."""
    name = TableName(done.database_name, done.table_name)
    count = delete_merged(source.lake, source.name, name, done.start_at, done.end_at, before=done.merged_at or 0)
    ledger.forget(done)
    commits = _trim(source, name, log_hours)
    return MergeStep(f"{name}: deleted {counted(count, 'file')} that were merged, {commits} of the log")


def _trim(source: Source, name: TableName, log_hours: int) -> int:
    try:
        table, needed = open_changes(source.lake, source.name, name), _followed(source, name)
        if table is None:
            return 0
        return table.trim(log_hours=log_hours, removed_hours=max(1, source.settings.keep_merged_hours), needed=needed)
    except (StrataError, CommitConflictError, OutputError) as error:
        _LOG.info("the log of %s stays as it is until the next upkeep: %s", name, error)
        return 0


def _followed(source: Source, name: TableName) -> int | None:
    """The version of the change table that its mirror has followed; None if it has none."""
    mirror = Mirror.open(source.lake, source.name, name)
    applied = None if mirror is None else mirror.applied_files
    return None if applied is None else applied.version
