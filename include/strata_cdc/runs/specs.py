"""What steps hand to each other: small frozen values that go through XCom and JSON files.
Not here: the steps themselves; anything heavy (Airflow parses what it imports)."""

from __future__ import annotations

from msgspec import Struct, field

from strata_cdc.clock import from_micros
from strata_cdc.config.engines import EngineChoice  # noqa: TC001  likewise
from strata_cdc.errors import ErrorFacts  # noqa: TC001  msgspec asks for it when it decodes
from strata_cdc.store.full_names import full_name


class TimeSpan(Struct, frozen=True, order=True):
    """A half-open span [start, end) of commit time, microseconds UTC."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"[{from_micros(self.start):%Y-%m-%d %H:%M:%S.%f}, {from_micros(self.end):%Y-%m-%d %H:%M:%S.%f}) UTC"


class Interval(Struct, frozen=True):
    """A span that owns transactions: those with after_seq < seq <= last_seq."""

    start: int
    end: int
    after_seq: int = field(name="first_seq")
    """Ordinal of the last transaction before the interval."""
    last_seq: int
    gtid_executed: str
    """GTID set that the stream had executed at the interval's end."""


class PlannedTable(Struct, frozen=True):
    """One table's part of one interval that a run is to publish."""

    interval: int
    """Start of the interval (microseconds UTC)."""
    database: str
    table: str
    counted: int
    """Rows by the counts of the binlog's own events."""
    rows: int
    """Rows that the run decodes; the others are refused."""
    held: ErrorFacts | None = None
    """Why none of them may be published now; None if they may."""

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def full_name(self) -> str:
        """The name in the store's verdicts and published intervals."""
        return full_name(self.database, self.table)


class RefusedRows(Struct, frozen=True):
    """Rows of a table that cannot be decoded, and why."""

    interval: int
    """Start of the interval that owns them (microseconds UTC)."""
    table: str
    rows: int
    error: ErrorFacts


class RowsRemoved(Struct, frozen=True):
    """Rows of a table that a DDL removed without row events."""

    interval: int
    """Start of the interval that owns it (microseconds UTC)."""
    table: str
    gtid: str | None
    statement: str


class StatementLogged(Struct, frozen=True):
    """A change of rows that was logged as a statement: the binlog does not hold the rows."""

    interval: int
    """Start of the interval that owns it (microseconds UTC)."""
    database: str
    """Empty if the statement does not name its tables."""
    table: str
    gtid: str | None
    binlog_file: str
    binlog_pos: int
    statement: str

    @property
    def table_name(self) -> str | None:
        """`database.table`; None if the statement does not name its tables."""
        return f"{self.database}.{self.table}" if self.database else None


class DecodeReport(Struct, frozen=True):
    """The result of decoding a run."""

    run: str
    slices: int
    files: int
    rows: int
    failed_slices: int
    """Slices that cannot be decoded, even if they are tried again."""
    quarantined: int = 0
    """Rows in quarantine, of `rows`."""
    quarantined_because: tuple[str, ...] = ()
    """How many rows of which table, and why; the largest number first."""
    engine: EngineChoice | None = None
    """What decoded it; None where there was nothing to decode."""


class RunRemainder(Struct, frozen=True):
    """What a run leaves unpublished before its end, of the wanted tables."""

    owed: int
    """Tables' parts of intervals that are pending: there was more than one run processes, and a later run takes
    them."""
    failed: int
    """Those whose checks or decoding failed; they wait for a person."""
    held: int
    """Those that a gap, quarantine or a statement blocks."""
    transactions: int
    """Landed transactions that no interval owns yet."""


class PlanReport(Struct, frozen=True):
    """The result of planning, small enough for XCom."""

    source: str
    run: str
    run_url: str
    intervals: int
    slices: int
    rows: int
    refused: int
    """Rows that cannot be decoded."""
    reason: str | None
    """Why the first of them cannot be decoded."""
    left: RunRemainder
    """What is pending, failed or blocked and not part of this run."""
    tables: int = 0
    """Tables that have rows, or a statement that changed or removed rows; if there are none, there is nothing to do."""
    unmatched: tuple[str, ...] = ()
    """Messages about patterns that match no table, or no wanted table."""
