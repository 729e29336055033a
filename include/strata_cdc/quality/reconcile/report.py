"""The report of a comparison of tables with their server.
Not here: comparing (`compare.py`), showing it (`cli/reconcile.py`)."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from strata_cdc.counted import counted
from strata_cdc.errors import DamagedFileError, DifferentRowsError, StrataError
from strata_cdc.schema.history.shell_words import pattern_word

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 14
_MOST_OF_VALUE = 200
"""Characters of a value that are shown to people."""
_MOST_OF_KEY = 10_000
"""Characters of a value of the key, which has to name the row: more than InnoDB's 3,072 bytes in hexadecimal."""


class ComparisonOutcome(StrEnum):
    """What is known of a table after a comparison."""

    MATCH = "match"
    """Every row that could be compared is the same on both sides, and there was one, or the table is empty on both."""
    MISMATCH = "mismatch"
    INCONCLUSIVE = "inconclusive"
    """Nothing could be compared; the reason is given."""


class Against(StrEnum):
    """What was compared: unless another value is given, with the server's rows."""

    CHANGES = "changes"
    """The change tables, replayed."""
    MIRROR = "mirror"
    ITSELF = "itself"
    """No server was queried: each change was compared with those before it."""


_SPOKEN = {
    Against.CHANGES: "change tables and server",
    Against.MIRROR: "mirror and server",
    Against.ITSELF: "change tables alone",
}


class Side(StrEnum):
    """Where a row that has no equal is."""

    DIFFERS = "differs"
    """On both sides, with other values."""
    ONLY_LAKE = "only in the lake"
    ONLY_SERVER = "only on the server"
    DOUBLED = "doubled in the lake"
    BROKEN = "does not follow from what the changes before it left:"


class RowDifference(Struct, frozen=True, omit_defaults=True):
    """One row that is not the same."""

    side: Side
    key: dict[str, Any]
    """Column -> value; the whole row where the table has no key. A sensitive column has `***`."""
    lake: dict[str, Any] | None = None
    """The columns that differ as the lake has them; all of them where the server has no such row."""
    server: dict[str, Any] | None = None
    left: dict[str, Any] | None = None
    """Where a change does not follow: what the one before it left, of the columns that differ."""
    found: dict[str, Any] | None = None
    """The image before that the change itself has."""
    gtid: str | None = None
    """Of that change."""

    def __str__(self) -> str:
        text = f"{self.side} {_values(self.key, {}, _MOST_OF_KEY)}"
        for side, values, others in (
            ("lake", self.lake, self.server),
            ("server", self.server, self.lake),
            ("left", self.left, self.found),
            ("found", self.found, self.left),
        ):
            text += f"; {side}: {_values(values, others or {}, _MOST_OF_VALUE)}" if values else ""
        return f"{text} ({self.gtid})" if self.gtid else text


def _values(values: dict[str, Any], others: dict[str, Any], most: int) -> str:
    return ", ".join(f"{name} = {_shown(value, others.get(name), most)}" for name, value in values.items())


def _shown(value: Any, other: Any, most: int) -> str:
    """A value; of a long one the part in which it begins to differ from the other side's."""
    text = "NULL" if value is None else repr(value)
    if len(text) <= most:
        return text
    at = 0 if other is None else _equal_length(text, repr(other))
    first = max(0, min(at - most // 2, len(text) - most))
    dots = "..." if first else ""
    more = "..." if first + most < len(text) else ""
    return f"{dots}{text[first : first + most]}{more} ({len(value if isinstance(value, str) else text):,} characters)"


def _equal_length(text: str, other: str) -> int:
    """How many characters at their beginning are the same: by halves, for a value may have millions."""
    sizes = range(1, min(len(text), len(other)) + 1)
    return bisect_left(sizes, x=True, key=lambda size: not other.startswith(text[:size]))


class TableReport(Struct, frozen=True):
    """What was found of one table."""

    table: str
    outcome: ComparisonOutcome
    against: Against = Against.CHANGES
    reasons: tuple[str, ...] = ()
    """Why nothing could be compared, or what limits the answer."""
    gtid_executed: str = ""
    """What the server had executed when the reading began: rows changed later are not compared."""
    lake_rows: int = 0
    server_rows: int = 0
    """Rows that were read."""
    compared: int = 0
    """Rows that were compared."""
    different: int = 0
    changed: int = 0
    """Rows that changed while they were read, or after what is published: not compared."""
    not_covered: int = 0
    """Rows of the server that no change has touched: they were there before the stream, and are not in the lake."""
    definition: tuple[str, ...] = ()
    """What differs in the table's definition, a line each."""
    differences: tuple[RowDifference, ...] = ()
    """The first of them."""
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """All of it, for people."""
        numbers = [
            (self.different, "different"),
            (self.changed, "changed meanwhile"),
            (self.not_covered, "not covered"),
        ]
        counts = [f"{self.compared:,} compared", *(f"{number:,} {what}" for number, what in numbers if number)]
        what = f"{self.table} ({_SPOKEN[self.against]})"
        yield f"{self.outcome:<{_WIDTH}}{what}: {', '.join(counts)} ({self.seconds:.1f} s)"
        for line in (*self.reasons, *self.definition, *map(str, self.differences)):
            yield f"{'':<{_WIDTH}}{line}"
        left = self.different - len(self.differences)
        if left > 0 and self.differences:
            yield f"{'':<{_WIDTH}}and {counted(left, 'row')} more"


class SourceSums(Struct, frozen=True):
    """Of a source in brief."""

    source: str
    match: int
    """Tables."""
    mismatch: int
    inconclusive: int
    compared: int
    """Rows of all tables."""
    changed: int
    not_covered: int
    reasons: tuple[str, ...]
    """Why tables are inconclusive."""


class SourceReport(Struct, frozen=True):
    """What was found of a source."""

    source: str
    tables: tuple[TableReport, ...]

    @property
    def outcome(self) -> ComparisonOutcome:
        """The worst of the tables'."""
        outcomes = {table.outcome for table in self.tables}
        worst = (ComparisonOutcome.MISMATCH, ComparisonOutcome.INCONCLUSIVE, ComparisonOutcome.MATCH)
        return next(outcome for outcome in worst if outcome in outcomes or outcome is ComparisonOutcome.MATCH)

    def sums(self) -> SourceSums:
        """The numbers."""
        tables = self.tables
        outcomes = [table.outcome for table in tables]
        return SourceSums(
            source=self.source,
            match=outcomes.count(ComparisonOutcome.MATCH),
            mismatch=outcomes.count(ComparisonOutcome.MISMATCH),
            inconclusive=outcomes.count(ComparisonOutcome.INCONCLUSIVE),
            compared=sum(table.compared for table in tables),
            changed=sum(table.changed for table in tables),
            not_covered=sum(table.not_covered for table in tables),
            reasons=tuple(
                f"{table.table}: {'; '.join(table.reasons)}"
                for table in tables
                if table.outcome is ComparisonOutcome.INCONCLUSIVE
            ),
        )

    def raise_if_different(self) -> None:
        """Fails if a table differs.

        Raises:
            DifferentRowsError: Rows or definitions differ.
        """
        wrong = [table for table in self.tables if table.outcome is ComparisonOutcome.MISMATCH]
        if wrong:
            rows = sum(table.different for table in wrong)
            raise DifferentRowsError(
                f"{', '.join(table.table for table in wrong[:5])}{' and others' if len(wrong) > 5 else ''}: "
                f"the lake and the server differ in {counted(rows, 'row')}",
                source=self.source,
                table=wrong[0].table,
                remedy=f"`strata reconcile --source {self.source} --table {pattern_word(wrong[0].table)}` shows them.",
            )


def failed(table: str, error: StrataError, against: Against = Against.CHANGES) -> TableReport:
    """Of a table that an error kept from being compared; what is not whole is not what the server has."""
    text = f"{error.message}. {error.remedy}" if error.remedy else error.message
    if isinstance(error, DamagedFileError):
        return TableReport(table, ComparisonOutcome.MISMATCH, against, (text,), different=1)
    return TableReport(table, ComparisonOutcome.INCONCLUSIVE, against, (text,))
