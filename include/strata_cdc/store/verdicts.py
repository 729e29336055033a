"""Verdicts of the checks, one for each table and interval, and one for an interval as a whole.
Not here: reaching them (`quality/checks/`), the files of a run that they come from (`runs/run_folder.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.store.database import reading, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable


class VerdictOutcome(StrEnum):
    """What a verdict comes to."""

    PASSED = "passed"
    WARNED = "warned"
    """Published, and the verdict says what did not hold."""
    FAILED = "failed"
    """Withheld."""


class FailedRule(Struct, frozen=True):
    """A rule that did not hold."""

    check: str
    column: str | None
    severity: str
    """`error` or `warning`."""
    message: str
    observed: str | None = None
    """What was found, where that is one value; of rules about rows, `rows` says it."""
    rows: int | None = None
    """That break it; None where it is not known."""
    examples: tuple[str, ...] = ()
    """The first of them, as JSON: position in the stream, primary key, value."""


class VerdictDetails(Struct, frozen=True):
    """What the checks of one table in one interval found. Values of sensitive columns are nowhere in it."""

    run: str
    versions: tuple[int, ...] = ()
    """Schema versions that decoded the rows."""
    rows: int = 0
    checks: int = 0
    failures: tuple[FailedRule, ...] = ()
    staged: str = ""
    """Digest of the files that were judged."""
    aside: str = ""
    """Digest of the files that the decoder put aside; empty if there are none."""


class StoredVerdict(Struct, frozen=True):
    """The outcome of all checks of one table in one interval."""

    source: str
    start: int
    """Of the interval, microseconds UTC."""
    table: str
    """As `full_names.py` has it; empty for the interval as a whole."""
    outcome: VerdictOutcome
    judged_at: int
    details: VerdictDetails


class IntervalOutcome(Struct, frozen=True):
    """What the checks of all tables of one interval came to, in numbers of tables; the interval as a whole counts as
    one more where it did not pass."""

    start: int
    """Of the interval, microseconds UTC."""
    judged_at: int
    passed: int
    warned: int
    failed: int


class VerdictLedger:
    """The newest verdict on each table and interval."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def put(self, verdicts: Iterable[StoredVerdict]) -> None:
        """Stores verdicts in the place of former ones, all or none."""
        with writing(self._engine) as connection:
            for one in verdicts:
                key = {"source": one.source, "start_at": one.start, "table_name": one.table}
                values: dict[str, Any] = {
                    "outcome": str(one.outcome),
                    "judged_at": one.judged_at,
                    "details": to_column(one.details),
                }
                same = sa.and_(*(verdict.c[name] == value for name, value in key.items()))
                if connection.execute(sa.select(verdict.c.outcome).where(same).with_for_update()).first() is None:
                    connection.execute(verdict.insert().values({**key, **values}))
                else:
                    connection.execute(verdict.update().where(same).values(values))

    def select(self, source: str, starts: Iterable[int]) -> list[StoredVerdict]:
        """All verdicts on some intervals, by time and table."""
        found = verdict.c
        condition = (found.source == source) & found.start_at.in_(sorted(set(starts)))
        query = sa.select(*found).where(condition).order_by(found.start_at, found.table_name)
        with reading(self._engine) as connection:
            return [_from_row(row) for row in connection.execute(query)]

    def of_table(self, source: str, table: str, starts: Iterable[int]) -> list[StoredVerdict]:
        """Verdicts on one table (`full_names.py`) in some intervals, in order of time."""
        found = verdict.c
        condition = (found.source == source) & (found.table_name == table) & found.start_at.in_(sorted(set(starts)))
        with reading(self._engine) as connection:
            rows = connection.execute(sa.select(*found).where(condition).order_by(found.start_at)).all()
        return [_from_row(row) for row in rows]

    def outcomes(
        self, source: str, *, before: int | None = None, unsound: bool = False, limit: int = 50
    ) -> list[IntervalOutcome]:
        """The newest judged intervals, the newest first.

        Args:
            source: The source.
            before: Only intervals that start before (microseconds UTC).
            unsound: Only those in which something did not pass.
            limit: How many at most.
        """
        found = verdict.c
        condition = found.source == source
        if before is not None:
            condition &= found.start_at < before
        if unsound:
            condition &= found.outcome != str(VerdictOutcome.PASSED)
        starts = sa.select(found.start_at).where(condition).distinct().order_by(found.start_at.desc()).limit(limit)
        with reading(self._engine) as connection:
            chosen = [start for (start,) in connection.execute(starts)]
            # A verdict on the interval as a whole is stored for each, and says something where it did not pass.
            noteworthy = (found.table_name != "") | (found.outcome != str(VerdictOutcome.PASSED))
            query = (
                sa.select(found.start_at, found.outcome, sa.func.count(), sa.func.max(found.judged_at))
                .where((found.source == source) & found.start_at.in_(chosen) & noteworthy)
                .group_by(found.start_at, found.outcome)
            )
            counts: dict[int, dict[str, tuple[int, int]]] = {start: {} for start in chosen}
            for start, outcome, count, judged_at in connection.execute(query):
                counts[start][outcome] = (int(count), int(judged_at))
        return [_outcome_of(start, found) for start, found in counts.items()]

    def of_interval(self, source: str, start: int, *, offset: int, limit: int) -> list[StoredVerdict]:
        """Verdicts on one interval: what failed first, then what was warned of, then by table."""
        found = verdict.c
        rank = sa.case(
            (found.outcome == str(VerdictOutcome.FAILED), 0), (found.outcome == str(VerdictOutcome.WARNED), 1), else_=2
        )
        query = (
            sa.select(*found)
            .where((found.source == source) & (found.start_at == start))
            .order_by(rank, found.table_name)
            .offset(offset)
            .limit(limit)
        )
        with reading(self._engine) as connection:
            return [_from_row(row) for row in connection.execute(query)]


def _outcome_of(start: int, counts: dict[str, tuple[int, int]]) -> IntervalOutcome:
    passed, warned, failed = (counts.get(str(one), (0, 0))[0] for one in VerdictOutcome)
    return IntervalOutcome(start, max((at for _, at in counts.values()), default=0), passed, warned, failed)


def _from_row(row: sa.Row[Any]) -> StoredVerdict:
    source, start, table, outcome, judged_at, text = tuple(row)
    details = from_column(text, VerdictDetails, "verdict.details")
    return StoredVerdict(source, start, table, VerdictOutcome(outcome), judged_at, details)
