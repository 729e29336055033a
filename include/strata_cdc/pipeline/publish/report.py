"""What a run has published and what not, by table and in sums: what the steps, the commands and Airflow read of it.
Not here: publishing (`publish_run.py`, `publication.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import ChecksFailedError, ErrorFacts
from strata_cdc.store.verdicts import VerdictOutcome

if TYPE_CHECKING:
    from strata_cdc.runs.specs import PlannedTable
    from strata_cdc.store.ledgers import VersionRows
    from strata_cdc.store.table_intervals import IntervalState


class PublishedTable(Struct, frozen=True):
    """One table's part of an interval, as readers have it now."""

    table: str
    """`database.table`."""
    interval: int
    """Start (microseconds UTC)."""
    delta_version: int
    rows: int
    schema_versions: tuple[int, ...]
    gtid_executed: str
    """What the stream had executed at the interval's end."""
    changed: int
    """Files that came or went; 0 if it was published just so before."""
    verdict: VerdictOutcome = VerdictOutcome.PASSED
    """Of its checks."""
    by_version: tuple[VersionRows, ...] = ()
    """Rows and bytes of each of the versions."""


class WithheldTable(Struct, frozen=True):
    """One table's part of an interval of which rows are not published, and why."""

    table: str
    interval: int
    """Start (microseconds UTC)."""
    state: IntervalState
    """FAILED or HELD."""
    rows: int
    """That are not published."""
    reason: ErrorFacts


class TableOutcome(Struct, frozen=True):
    """What became of one table's part of an interval."""

    planned: PlannedTable
    state: IntervalState
    published: tuple[PublishedTable, ...] = ()
    reason: ErrorFacts | None = None
    """Why not all of it is published."""

    @property
    def published_rows(self) -> int:
        """Rows that readers see."""
        return sum(table.rows for table in self.published)


class PublishSums(Struct, frozen=True):
    """The numbers of a `PublishReport`, small enough for XCom: of what is withheld the ledger has the reasons."""

    source: str
    run: str
    intervals: int
    rows: int
    warnings: int
    withheld: int
    cleared: bool


class PublishReport(Struct, frozen=True):
    """What a run has published, and what not."""

    source: str
    run: str
    intervals: int
    rows: int
    warnings: int
    """Checks of severity warning that failed."""
    tables: tuple[PublishedTable, ...]
    withheld: tuple[WithheldTable, ...]
    cleared: bool = False
    """Whether it was published before and its staged files are gone: nothing was done."""

    def sums(self) -> PublishSums:
        """All but the tables."""
        numbers = (self.intervals, self.rows, self.warnings, len(self.withheld))
        return PublishSums(self.source, self.run, *numbers, self.cleared)

    def raise_if_withheld(self) -> None:
        """Fails unless everything was published, so that a part is not taken for the whole.

        Raises:
            ChecksFailedError: Rows are not published.
        """
        if self.withheld:
            first = self.withheld[0]
            names = sorted({table.table for table in self.withheld})
            others = f" and of {counted(len(names) - 1, 'other table')}" if len(names) > 1 else ""
            withheld = sum(table.rows for table in self.withheld)
            are = "is" if withheld == 1 else "are"
            raise ChecksFailedError(
                f"{counted(withheld, 'row')} of {first.table}{others} {are} not published: {first.reason.message}",
                source=self.source,
                table=first.table,
                remedy=f"`strata intervals --source {self.source} --failed --held` lists them; "
                "all others are published.",
            )
