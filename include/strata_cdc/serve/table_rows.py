"""What became of a table's rows: how many each version decoded, its newest intervals with the checks' results, and
what is withheld of it, and why.
Not here: the versions (`table_page.py`), all tables of one interval (`verdict_page.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.store.full_names import full_name
from strata_cdc.store.rows_by_version import rows_by_version
from strata_cdc.store.rows_in_time import newest_intervals
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.verdicts import VerdictLedger, VerdictOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    import sqlalchemy as sa

    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.rows_by_version import VersionSums
    from strata_cdc.store.rows_in_time import IntervalRows
    from strata_cdc.store.verdicts import FailedRule, StoredVerdict

_WITHHELD: Final = (IntervalState.FAILED, IntervalState.HELD)


class IntervalLine(Struct, frozen=True):
    """One interval that has rows of the table."""

    rows: IntervalRows
    verdict: StoredVerdict | None
    """What the checks found; None where nothing was judged."""

    @property
    def has_data_docs(self) -> bool:
        """Whether the run has made some for it: they are made of what did not pass."""
        return self.verdict is not None and self.verdict.outcome is not VerdictOutcome.PASSED


class WithheldRows(Struct, frozen=True):
    """Rows of one interval that readers do not have."""

    rows: IntervalRows
    failures: tuple[FailedRule, ...]
    """What did not hold, errors first."""

    @property
    def count(self) -> int:
        """Rows that are withheld."""
        return self.rows.rows - self.rows.published_rows


class RowsView(Struct, frozen=True):
    """All of it."""

    versions: VersionSums
    intervals: tuple[IntervalLine, ...]
    """The newest first."""
    withheld: tuple[WithheldRows, ...]
    """The newest first."""


def rows_view(engine: sa.Engine, source: str, name: TableName, names: Iterable[TableName]) -> RowsView:
    """What became of a table's rows.

    Args:
        engine: The store.
        source: The source's name.
        name: The table.
        names: It, and the names that it had before.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    pair = (name.database, name.table)
    newest = newest_intervals(engine, source, pair)
    waiting = newest_intervals(engine, source, pair, states=_WITHHELD)
    verdicts = {
        verdict.start: verdict
        for verdict in VerdictLedger(engine).of_table(
            source, full_name(*pair), {rows.start for rows in (*newest, *waiting)}
        )
    }
    return RowsView(
        versions=rows_by_version(engine, source, [full_name(one.database, one.table) for one in (name, *names)]),
        intervals=tuple(IntervalLine(rows, verdicts.get(rows.start)) for rows in newest),
        withheld=tuple(WithheldRows(rows, _failures(rows, verdicts.get(rows.start))) for rows in waiting),
    )


def _failures(rows: IntervalRows, verdict: StoredVerdict | None) -> tuple[FailedRule, ...]:
    """Of the run that withheld them; a verdict of another run is on other rows."""
    if verdict is None or verdict.details.run != rows.run:
        return ()
    return tuple(sorted(verdict.details.failures, key=lambda rule: rule.severity != "error"))
