"""What the checks found: the newest intervals of a source, and one of them table by table.
Not here: reaching a verdict (`quality/checks/`), Great Expectations' own pages (`quality/check_step/data_docs.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.errors import Usage
from strata_cdc.store.decisions import Decision, DecisionLedger
from strata_cdc.store.full_names import full_name
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.verdicts import IntervalOutcome, StoredVerdict, VerdictLedger

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.store.ledgers import ClosedInterval

INTERVALS_ON_A_PAGE: Final = 50
TABLES_ON_A_PAGE: Final = 100


class VerdictsView(Struct, frozen=True):
    """A page of the list of intervals."""

    intervals: tuple[IntervalOutcome, ...]
    """The newest first."""
    next_before: int | None
    """Where the next page continues; None after the last page."""


class TableFindings(Struct, frozen=True):
    """One table in one interval."""

    verdict: StoredVerdict
    table_interval: TableInterval | None
    """What became of its rows; None for the interval as a whole, and for what the ledger does not have."""
    decisions: tuple[Decision, ...] = ()
    """What people decided on rows of it that were withheld."""

    @property
    def is_withheld(self) -> bool:
        """Whether rows of it wait for somebody."""
        return self.table_interval is not None and self.table_interval.state in {
            IntervalState.FAILED,
            IntervalState.BLOCKED,
        }


class VerdictView(Struct, frozen=True):
    """One interval."""

    interval: ClosedInterval
    tables: tuple[TableFindings, ...]
    """What failed first."""
    next_offset: int | None


def verdicts_view(engine: sa.Engine, source: str, before: int | None, *, unsound: bool) -> VerdictsView:
    """A page of the intervals that were judged."""
    outcomes = VerdictLedger(engine).outcomes(source, before=before, unsound=unsound, limit=INTERVALS_ON_A_PAGE + 1)
    page = tuple(outcomes[:INTERVALS_ON_A_PAGE])
    return VerdictsView(page, page[-1].start if len(outcomes) > len(page) else None)


def verdict_view(engine: sa.Engine, source: str, start: int, offset: int = 0) -> VerdictView:
    """What was found in one interval.

    Args:
        start: Of the interval, or of one that is part of it by now, microseconds UTC.
        offset: How many tables to skip.

    Raises:
        Usage: No interval has this time.
        StoreUnavailableError: The database does not answer.
    """
    interval = IntervalLedger(engine).at(source, start)
    if interval is None:
        raise Usage("no closed interval has this time", source=source)
    start = interval.start
    verdicts = VerdictLedger(engine).of_interval(source, start, offset=offset, limit=TABLES_ON_A_PAGE + 1)
    intervals = {interval.full_name: interval for interval in TableIntervalLedger(engine).of_interval(source, start)}
    decisions = DecisionLedger(engine).select(source, start)
    tables = tuple(
        TableFindings(
            verdict,
            intervals.get(verdict.table),
            tuple(
                decision
                for decision in decisions
                if full_name(decision.database_name, decision.table_name) == verdict.table
            ),
        )
        for verdict in verdicts[:TABLES_ON_A_PAGE]
        if verdict.table or verdict.details.failures
    )
    return VerdictView(interval, tables, offset + TABLES_ON_A_PAGE if len(verdicts) > TABLES_ON_A_PAGE else None)
