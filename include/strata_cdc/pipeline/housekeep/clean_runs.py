"""Deletes what runs have left and nobody needs any more: staged files, run folders, quarantine.
Not here: landed segments (`retain_landed.py`), data files that a commit replaced (Delta's `vacuum`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import moment_key
from strata_cdc.errors import DamagedFileError, StoreFormatError
from strata_cdc.files.storage import delete_folder, list_folders
from strata_cdc.runs.run_folder import (
    DECODED,
    PLAN,
    STAGED,
    note_cleared,
    read_plan,
    run_folder,
    runs_url,
)
from strata_cdc.runs.run_name import RunName
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.owned import owners
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger
from strata_cdc.tables.quarantine import in_quarantine

if TYPE_CHECKING:
    from collections.abc import Callable

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.files.storage import Folder
    from strata_cdc.runs.run_plan import RunPlan
    from strata_cdc.store.table_intervals import TableInterval

_DAY_MICROS = 86_400 * 1_000_000
_SETTLED = frozenset({IntervalState.PUBLISHED, IntervalState.DISCARDED})


class KeptRun(Struct, frozen=True):
    """A run folder that is old and still needed."""

    run: str
    reason: str


class ExpiredRuns(Struct, frozen=True):
    """What of a source is older than `keep_runs_days` and no longer needed."""

    source: str
    runs: tuple[str, ...]
    """URLs of run folders."""
    quarantine: tuple[str, ...]
    """URLs of folders in quarantine."""
    kept: tuple[KeptRun, ...]
    """What is as old and stays."""


class _OwnedIntervals:
    """What is stored of a source's intervals, by the starts that plans have: an interval of a plan may be part of a
    longer one by now."""

    def __init__(self, engine: sa.Engine, source: str) -> None:
        self._engine, self._source = engine, source

    @cached_property
    def owner(self) -> Callable[[int], int]:
        """Start of the interval that has the start of another."""
        return owners(IntervalLedger(self._engine).all(self._source))

    def between(self, first: int, last: int) -> list[TableInterval]:
        """All tables of the intervals from one to another, both inclusive."""
        span = self.owner(first), self.owner(last) + 1
        return TableIntervalLedger(self._engine).select(self._source, tuple(IntervalState), starts=span)


def clear_staged(folder: Folder) -> None:
    """Deletes the staged files of a run of which everything is published; plan, verdict and Data Docs stay.

    Safe to repeat, and to be killed: that they are cleared is stored first.

    Raises:
        LakeUnavailableError: The storage refuses.
        DamagedFileError: `decoded.json` is not whole.
    """
    if not folder.exists(DECODED):
        return
    note_cleared(folder)
    delete_folder(folder.join(STAGED))
    # Another process may have decoded the run meanwhile.
    note_cleared(folder)


def find_due(source: Source, engine: sa.Engine, *, now: int) -> ExpiredRuns:
    """Lists what `delete_due` may delete, and why the rest stays.

    A run folder stays while the ledger has a table of the run's plan as pending, or has one as failed or held by this
    very run: its verdict and Data Docs say why. Quarantine stays until all of its tables are published or discarded.

    Args:
        source: The source; `keep_runs_days` of its settings has the age.
        engine: Its store.
        now: Microseconds UTC.
    """
    before = now - source.settings.keep_runs_days * _DAY_MICROS
    ledger = _OwnedIntervals(engine, source.name)
    runs, kept = [], []
    for run in list_folders(runs_url(source.lake, source.name)):
        folder = run_folder(source.lake, source.name, run)
        if _may_be_older(run, before) and _is_older(folder, before):
            reason = _needed_for(folder, run, ledger)
            if reason is None:
                runs.append(folder.url)
            else:
                kept.append(KeptRun(run, reason))
    return ExpiredRuns(source.name, tuple(runs), _due_quarantine(source, ledger, before), tuple(kept))


def delete_due(source: Source, due: ExpiredRuns) -> None:
    """Deletes what `find_due` has found. Safe to repeat, and to be killed.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    for url in due.runs:
        delete_run(run_folder(source.lake, source.name, url.rpartition("/")[2]))
    for url in due.quarantine:
        delete_folder(url)


def _may_be_older(run: str, before: int) -> bool:
    """By the run's name: nobody plans a span that has not ended. It saves a look at each of thousands of folders."""
    name = RunName.parse(run)
    return name is None or name.end < before


def _is_older(folder: Folder, before: int) -> bool:
    """Whether no step has written for so long. What has no files is what a deletion left that died."""
    changed = [nanoseconds // 1000 for _, nanoseconds in folder.stamps().values()]
    return 0 not in changed and max(changed, default=0) < before


def _needed_for(folder: Folder, run: str, ledger: _OwnedIntervals) -> str | None:
    if not folder.exists(PLAN):
        # A deletion died, or the run before it had a plan.
        return None
    try:
        plan = read_plan(folder)
    except (DamagedFileError, StoreFormatError) as error:
        return error.message
    return _unsettled(plan, run, ledger)


def _unsettled(plan: RunPlan, run: str, ledger: _OwnedIntervals) -> str | None:
    """Why a plan is not settled; None if it is."""
    starts = [planned.interval for planned in plan.tables]
    if not starts:
        return None
    known = {(entry.start, entry.database, entry.table): entry for entry in ledger.between(min(starts), max(starts))}
    for planned in plan.tables:
        entry = known.get((ledger.owner(planned.interval), planned.database, planned.table))
        where = f"{planned.name} in the interval of {moment_key(planned.interval)}"
        if entry is None:
            # A store that was made anew has nothing pending, and has published nothing.
            return f"the ledger does not have {where}"
        if entry.state is IntervalState.PENDING or (
            entry.state in {IntervalState.FAILED, IntervalState.BLOCKED} and entry.run == run
        ):
            return f"{where} is {entry.state}"
    return None


def _due_quarantine(source: Source, ledger: _OwnedIntervals, before: int) -> tuple[str, ...]:
    due = []
    for kept in in_quarantine(source.lake, source.name):
        if 0 < kept.changed_at < before:
            entries = ledger.between(kept.interval, kept.interval)
            settled = {(entry.database, entry.table) for entry in entries if entry.state in _SETTLED}
            if kept.tables <= settled:
                due.append(kept.folder)
    return tuple(due)


def delete_run(folder: Folder) -> None:
    """Deletes a run folder. Safe to repeat, and to be killed.

    Raises:
        LakeUnavailableError: The storage refuses.
    """
    # The plan is deleted last: as long as anything else is here, it shows which run this was.
    for name in list_folders(folder.url):
        delete_folder(folder.join(name))
    for name in folder.stamps():
        if name != PLAN:
            folder.delete(name)
    delete_folder(folder.url)
