"""What changed in a run's interval: the statements that were committed in it, and the rows of each table.
Not here: which interval a run has (Airflow knows the names; the plugin asks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.runs.run_name import RunName
from strata_cdc.schema.answers.search import FoundStatement, statements_between
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.serve.sources import Sources


_SECOND: Final = 1_000_000


class PlannedByAirflow(Struct, frozen=True):
    """What a run of Airflow's planned for one source."""

    source: str
    run: str
    """As `strata plan` names it."""


class SourceChanges(Struct, frozen=True):
    """What one source has in a run's span; both ends are to the second, as the run's name has them."""

    source: str
    run: RunName
    statements: tuple[FoundStatement, ...]
    tables: tuple[TableInterval, ...]


def run_changes(sources: Sources, planned: Sequence[PlannedByAirflow]) -> list[SourceChanges]:
    """What changed in the span of time of some runs.

    Raises:
        StoreUnavailableError: A store does not answer.
        UnknownSourceError: The settings do not have the source any more.
    """
    named = ((run.source, RunName.parse(run.run), sources.store(run.source)) for run in planned)
    return [_changes(engine, source, run) for source, run, engine in named if run is not None and engine is not None]


def _changes(engine: sa.Engine, source: str, run: RunName) -> SourceChanges:
    start, end = run.start, run.end + _SECOND
    intervals = TableIntervalLedger(engine).select(source, tuple(IntervalState), starts=(start, end))
    return SourceChanges(source, run, tuple(statements_between(engine, source, start, end)), tuple(intervals))
