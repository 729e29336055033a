"""What a run has of each of its tables, looked up by name: with thousands of tables, a search through all files and
verdicts for each of them would take longer than publishing.
Not here: publishing (`publication.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.runs.verdict import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.runs.run_folder import DecodedRun
    from strata_cdc.runs.specs import PlannedTable
    from strata_cdc.runs.verdict import Failure, IntervalVerdict, TableVerdict
    from strata_cdc.tables.write import StagedFile

_Key = tuple[int, str, str]
"""Start of an interval, database and table."""


class FilesOfTables:
    """The staged files of a run by interval and table, those that are judged and published and those put aside."""

    def __init__(self, decoded: DecodedRun, intervals: Iterable[int]) -> None:
        """Args:
        decoded: What was decoded.
        intervals: Starts of the run's intervals.
        """
        starts = tuple(intervals)
        self._judged = _by_table(file for start in starts for file in decoded.publishable(start))
        self._aside = _by_table(file for start in starts for file in decoded.unreadable(start))

    def for_table(self, planned: PlannedTable) -> tuple[list[StagedFile], list[StagedFile]]:
        """Of one table: those that are judged and published, those put aside."""
        key = (planned.interval, planned.database, planned.table)
        return self._judged.get(key, []), self._aside.get(key, [])


class FindingsOfTables:
    """What the checks of one interval found, by table (`store/full_names.py`)."""

    def __init__(self, verdict: IntervalVerdict) -> None:
        """Reads the verdict once."""
        self._tables = {table.table: table for table in reversed(verdict.tables)}
        self._failures: dict[str, list[tuple[int, Failure]]] = {}
        for number, failure in enumerate(verdict.failures):
            self._failures.setdefault(failure.table, []).append((number, failure))

    def for_table(self, table: str) -> TableVerdict | None:
        """The table's verdict; None if it was not checked."""
        return self._tables.get(table)

    def failures(self, table: str) -> list[Failure]:
        """The table's failed checks, in the verdict's order."""
        return [failure for _, failure in self._failures.get(table, ())]

    def errors(self, table: str) -> list[Failure]:
        """What prevents publishing the table: its own errors, and those of the stream, in the verdict's order."""
        failures = sorted({**dict(self._failures.get("", ())), **dict(self._failures.get(table, ()))}.items())
        return [failure for _, failure in failures if failure.severity is Severity.ERROR]


def _by_table(files: Iterable[StagedFile]) -> dict[_Key, list[StagedFile]]:
    by_table: dict[_Key, list[StagedFile]] = {}
    for file in files:
        by_table.setdefault((file.interval, file.database, file.table), []).append(file)
    return by_table
