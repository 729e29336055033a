"""Rows that are not published, table by table and interval by interval, with every reason that is known.
Not here: the states (`table_intervals.py`), the verdicts (`verdicts.py`), their files (`tables/quarantine.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.errors import ErrorFacts
from strata_cdc.store.table_intervals import IntervalState, TableInterval, TableIntervalLedger
from strata_cdc.store.verdicts import FailedRule, StoredVerdict, VerdictLedger

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa


ASIDE: Final = "rows_can_be_decoded"
"""The check that fails because of rows that the decoder put into quarantine; its example is the error, as JSON."""


def _error_of(rule: FailedRule) -> ErrorFacts:
    return msgspec.json.decode(rule.examples[0], type=ErrorFacts)


class WithheldInterval(Struct, frozen=True):
    """One table's part of one interval with rows that are withheld."""

    table_interval: TableInterval
    """Its state is FAILED or HELD."""
    failures: tuple[FailedRule, ...]
    """The failed rules in the verdict of its run, errors first; none if nothing was checked."""
    verdict: StoredVerdict | None
    """The verdict of its run; None if there is none."""

    @property
    def rows(self) -> int:
        """Rows that are not published."""
        return self.table_interval.rows - self.table_interval.published_rows

    def aside(self) -> list[tuple[ErrorFacts, int]]:
        """Why the decoder put rows into quarantine, and how many."""
        return [(_error_of(rule), rule.rows or 0) for rule in self.failures if rule.check == ASIDE]

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons, each a name: of a check that failed, or of an error."""
        checks = [rule.check for rule in self.failures if rule.severity == "error"]
        if self.table_interval.state is IntervalState.FAILED and checks:
            return tuple(dict.fromkeys(checks))
        known = [self.table_interval.reason.error] if self.table_interval.reason else []
        aside = [error.error for error, _ in self.aside()]
        return tuple(sorted({*known, *aside})) or ("unknown",)


def withheld(engine: sa.Engine, source: str) -> list[WithheldInterval]:
    """All table intervals of a source that wait for a person, in order of time and table."""
    table_intervals = TableIntervalLedger(engine).select(source, (IntervalState.FAILED, IntervalState.BLOCKED))
    stored = (
        VerdictLedger(engine).select(source, {table_interval.start for table_interval in table_intervals})
        if table_intervals
        else []
    )
    verdicts = {(stored_verdict.start, stored_verdict.table): stored_verdict for stored_verdict in stored}
    return [
        _withheld(
            table_interval,
            verdicts.get((table_interval.start, table_interval.full_name)),
            verdicts.get((table_interval.start, "")),
        )
        for table_interval in table_intervals
    ]


def _withheld(
    table_interval: TableInterval, own: StoredVerdict | None, whole: StoredVerdict | None
) -> WithheldInterval:
    of_run: Sequence[StoredVerdict] = [
        verdict for verdict in (own, whole) if verdict is not None and verdict.details.run == table_interval.run
    ]
    failures = sorted(
        (rule for verdict in of_run for rule in verdict.details.failures), key=lambda rule: rule.severity != "error"
    )
    return WithheldInterval(table_interval, tuple(failures), own if own in of_run else None)
