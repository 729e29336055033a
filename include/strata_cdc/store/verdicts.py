"""Verdicts of the checks, one for each table and interval, and one for an interval as a whole.
Not here: making them (`quality/checks/`), the files of a run that they come from (`runs/run_folder.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.store.database import Ledger, reading, upsert, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable


class VerdictOutcome(StrEnum):
    """The outcome of a verdict."""

    PASSED = "passed"
    WARNED = "warned"
    """Published, and the verdict names the checks that failed."""
    FAILED = "failed"
    """Withheld."""


class FailedRule(Struct, frozen=True):
    """A rule that failed."""

    check: str
    column: str | None
    severity: str
    """`error` or `warning`."""
    message: str
    observed: str | None = None
    """The observed value if it is a single value; for rules about rows, see `rows`."""
    rows: int | None = None
    """Rows that break it; None if it is not known."""
    examples: tuple[str, ...] = ()
    """The first of these rows, as JSON: position in the stream, primary key, value."""


class VerdictDetails(Struct, frozen=True):
    """The results of the checks of one table in one interval. It has no values of sensitive columns."""

    run: str
    versions: tuple[int, ...] = ()
    """Schema versions that decoded the rows."""
    rows: int = 0
    checks: int = 0
    failures: tuple[FailedRule, ...] = ()
    staged: str = ""
    """Digest of the files that were checked."""
    aside: str = ""
    """Digest of the files that the decoder put into quarantine; empty if there are none."""
    engine: str = ""
    """What decoded the run, and why that; empty in verdicts of older versions."""


class StoredVerdict(Struct, frozen=True):
    """The outcome of all checks of one table in one interval."""

    source: str
    start: int
    """Start of the interval, microseconds UTC."""
    table: str
    """Name as in `full_names.py`; empty for the interval as a whole."""
    outcome: VerdictOutcome
    judged_at: int
    details: VerdictDetails


class IntervalOutcome(Struct, frozen=True):
    """The outcome of the checks of one interval, in numbers of tables; the interval as a whole counts as one more if it
    did not pass."""

    start: int
    """Start of the interval, microseconds UTC."""
    judged_at: int
    passed: int
    warned: int
    failed: int


class VerdictLedger(Ledger):
    """The newest verdict on each table and interval."""

    def put(self, verdicts: Iterable[StoredVerdict]) -> None:
        """Replaces former verdicts by new ones, all or none."""
        with writing(self._engine) as connection:
            store_verdicts(connection, verdicts)

    def select(self, source: str, starts: Iterable[int]) -> list[StoredVerdict]:
        """All verdicts on some intervals, by time and table."""
        columns = verdict.c
        condition = (columns.source == source) & columns.start_at.in_(sorted(set(starts)))
        query = sa.select(*columns).where(condition).order_by(columns.start_at, columns.table_name)
        return [_from_row(row) for row in self._rows(query)]

    def of_table(self, source: str, table: str, starts: Iterable[int]) -> list[StoredVerdict]:
        """Verdicts on one table (`full_names.py`) in some intervals, in order of time."""
        columns = verdict.c
        condition = (
            (columns.source == source) & (columns.table_name == table) & columns.start_at.in_(sorted(set(starts)))
        )
        return [_from_row(row) for row in self._rows(sa.select(*columns).where(condition).order_by(columns.start_at))]

    def outcomes(
        self, source: str, *, before: int | None = None, unsound: bool = False, limit: int = 50
    ) -> list[IntervalOutcome]:
        """The newest checked intervals, the newest first.

        Args:
            before: Only intervals that start before this (microseconds UTC).
            unsound: Only intervals in which a check failed.
            limit: How many at most.
        """
        columns = verdict.c
        condition = columns.source == source
        if before is not None:
            condition &= columns.start_at < before
        if unsound:
            condition &= columns.outcome != str(VerdictOutcome.PASSED)
        starts = sa.select(columns.start_at).where(condition).distinct().order_by(columns.start_at.desc()).limit(limit)
        with reading(self._engine) as connection:
            chosen = [start for (start,) in connection.execute(starts)]
            # A verdict on the interval as a whole is stored for each interval; it counts only if it did not pass.
            noteworthy = (columns.table_name != "") | (columns.outcome != str(VerdictOutcome.PASSED))
            query = (
                sa.select(columns.start_at, columns.outcome, sa.func.count(), sa.func.max(columns.judged_at))
                .where((columns.source == source) & columns.start_at.in_(chosen) & noteworthy)
                .group_by(columns.start_at, columns.outcome)
            )
            counts: dict[int, dict[str, tuple[int, int]]] = {start: {} for start in chosen}
            for start, outcome, count, judged_at in connection.execute(query):
                counts[start][outcome] = (int(count), int(judged_at))
        return [_outcome_of(start, states) for start, states in counts.items()]

    def of_interval(self, source: str, start: int, *, offset: int, limit: int) -> list[StoredVerdict]:
        """Verdicts on one interval: failures first, then warnings, then by table."""
        columns = verdict.c
        rank = sa.case(
            (columns.outcome == str(VerdictOutcome.FAILED), 0),
            (columns.outcome == str(VerdictOutcome.WARNED), 1),
            else_=2,
        )
        query = (
            sa.select(*columns)
            .where((columns.source == source) & (columns.start_at == start))
            .order_by(rank, columns.table_name)
            .offset(offset)
            .limit(limit)
        )
        return [_from_row(row) for row in self._rows(query)]


def store_verdicts(connection: sa.Connection, verdicts: Iterable[StoredVerdict]) -> None:
    """Replaces former verdicts by new ones, in the transaction of the caller."""
    for stored in verdicts:
        key = {"source": stored.source, "start_at": stored.start, "table_name": stored.table}
        values: dict[str, Any] = {
            "outcome": str(stored.outcome),
            "judged_at": stored.judged_at,
            "details": to_column(stored.details),
        }
        upsert(connection, verdict, key, values)


def _outcome_of(start: int, counts: dict[str, tuple[int, int]]) -> IntervalOutcome:
    passed, warned, failed = (counts.get(str(outcome), (0, 0))[0] for outcome in VerdictOutcome)
    return IntervalOutcome(start, max((at for _, at in counts.values()), default=0), passed, warned, failed)


def _from_row(row: sa.Row[Any]) -> StoredVerdict:
    source, start, table, outcome, judged_at, text = tuple(row)
    details = from_column(text, VerdictDetails, "verdict.details")
    return StoredVerdict(source, start, table, VerdictOutcome(outcome), judged_at, details)
