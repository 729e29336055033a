"""Verdicts of the checks, one for each table and interval, and one for an interval as a whole.
Not here: reaching them (`checks/`), the files of a run that they come from (`jobs/run/run_folder.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata.store.database import reading, writing
from strata.store.json_columns import from_column, to_column
from strata.store.tables import verdict

if TYPE_CHECKING:
    from collections.abc import Iterable


class Outcome(StrEnum):
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
    """`database.table`; empty for the interval as a whole."""
    outcome: Outcome
    judged_at: int
    details: VerdictDetails


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


def _from_row(row: sa.Row[Any]) -> StoredVerdict:
    source, start, table, outcome, judged_at, text = tuple(row)
    details = from_column(text, VerdictDetails, "verdict.details")
    return StoredVerdict(source, start, table, Outcome(outcome), judged_at, details)
