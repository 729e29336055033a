"""Verdicts: the results of the checks of an interval, as values that are stored.
Not here: the checks (`quality/checks/run.py`), acting on it (`pipeline/publish/publish_run.py`)."""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """What a failure of a check means."""

    ERROR = "error"
    """The interval is not published."""
    WARNING = "warning"
    """The interval is published, and the verdict has the warning."""


class Failure(Struct, frozen=True):
    """One check that did not hold, or could not be run."""

    table: str
    """As `store/full_names.py` has it; empty for a check of the stream."""
    check: str
    """Name of the expectation, as Great Expectations writes it, or of a check of the stream."""
    column: str | None
    severity: Severity
    message: str
    """What was expected and what is there, in one sentence."""
    unexpected_rows: int | None = None
    """None where it is not known."""
    examples: tuple[str, ...] = ()
    """The first offending rows as JSON: position in the stream, primary key and value."""
    observed: str | None = None
    """The observed value if it is a single value, such as a number of rows."""

    @classmethod
    def error(
        cls, table: str, check: str, message: str, rows: int | None = None, examples: tuple[str, ...] = ()
    ) -> Self:
        """A failure that withholds a table, or an interval, and is about no single column."""
        return cls(table, check, None, Severity.ERROR, message, rows, examples)

    @classmethod
    def warning(
        cls, table: str, check: str, message: str, rows: int | None = None, examples: tuple[str, ...] = ()
    ) -> Self:
        """A failure that withholds nothing, and is about no single column."""
        return cls(table, check, None, Severity.WARNING, message, rows, examples)


class TableVerdict(Struct, frozen=True):
    """The outcome of all checks of one table in one interval."""

    table: str
    """As `store/full_names.py` has it."""
    rows: int
    versions: tuple[int, ...]
    """Schema versions that decoded the rows, in order."""
    checks: int
    """How many checks were run."""
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing prevents publishing the table."""
        return all(failure.severity is not Severity.ERROR for failure in self.failures)

    @property
    def warnings(self) -> int:
        """How many checks of severity warning failed."""
        return sum(failure.severity is Severity.WARNING for failure in self.failures)


class IntervalVerdict(Struct, frozen=True):
    """The outcome of all checks of one interval; publishing requires it."""

    source: str
    interval: int
    """Start of the interval (microseconds UTC)."""
    staged: str
    """`staged_digest` of the checked files: the verdict is about these files and no others."""
    tables: tuple[TableVerdict, ...]
    stream: tuple[Failure, ...] = ()
    """What is wrong with the interval as a whole: missing transactions, tables without their rows."""
    engine: str = ""
    """What decoded the run, and why that; empty in a run of an older version."""
    passed: bool = True
    """Whether the interval may be published. It follows from the other fields, and is stored for readers of the
    file."""

    def __post_init__(self) -> None:
        """Computes `passed`; the value given, or stored in a file, is ignored."""
        force_setattr(self, "passed", not self.errors)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """All failed checks, those of the stream first."""
        return (*self.stream, *(failure for table in self.tables for failure in table.failures))

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The failures that block publication."""
        return tuple(failure for failure in self.failures if failure.severity is Severity.ERROR)

    @property
    def checks(self) -> int:
        """How many checks were run."""
        return sum(table.checks for table in self.tables)

    def failures_of(self, table: str) -> tuple[Failure, ...]:
        """What prevents publishing one table (`store/full_names.py`): its own errors, and those of the stream."""
        return tuple(failure for failure in self.errors if failure.table in {"", table})


def staged_digest(files: Iterable[tuple[str, str]]) -> str:
    """Identity of a set of staged files, given as (table, digest of the bytes that were decoded)."""
    return hashlib.blake2b(json.dumps(sorted(files)).encode(), digest_size=16).hexdigest()
