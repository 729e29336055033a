"""Rows that are never published although the settings name their table: those of the copies of online schema changes.
Not here: what is a copy (`schema/history/copies.py`), patterns (`selection/wanted.py`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from strata_cdc.errors import StreamHoleError
from strata_cdc.landing.count_rows import count_rows
from strata_cdc.schema.history.copies import NamedCopies, find_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.runs.specs import Interval
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.model.definition import TableName

Ranges = list[tuple[int, int]]
"""Of starts of intervals, both ends inclusive, microseconds UTC."""


class ExcludedCopies:
    """Which tables that online schema changes of a source made are excluded, by its settings and its history."""

    def __init__(self, source: Source, store: SchemaStore, stream: LandedStream) -> None:
        self._stream = stream
        self._spelled = frozenset(source.settings.tables)
        is_default = source.settings.leave_out_copies == "swapped"
        self._copies = find_copies(store, source.name, self._is_empty) if is_default else NamedCopies({}, {})

    def has(self, table: TableName, interval: Interval) -> bool:
        """Whether all that a table was in an interval is a copy. A table that the settings name without a pattern is
        never a copy."""
        return str(table) not in self._spelled and self._copies.holds_all(table, interval.after_seq, interval.last_seq)

    def ranges(self, owning_after: Callable[[int], Sequence[Interval]]) -> dict[tuple[str, str], Ranges]:
        """By database and table: in which intervals the table is excluded.

        Args:
            owning_after: From an ordinal to the intervals that own something after it, in order of time.
        """
        begins = [lifetime.first_seq for lifetimes in self._copies.copies.values() for lifetime in lifetimes]
        if not begins:
            return {}
        intervals = owning_after(min(begins) - 1)
        firsts = [interval.after_seq for interval in intervals]
        lasts = [interval.last_seq for interval in intervals]
        ranges: dict[tuple[str, str], Ranges] = {}
        for table, lifetimes in self._copies.copies.items():
            numbers: set[int] = set()
            for lifetime in lifetimes:
                begin = bisect_left(lasts, lifetime.first_seq)
                end = len(intervals) if lifetime.end is None else bisect_right(firsts, lifetime.end.seq)
                numbers |= {number for number in range(begin, end) if self.has(table, intervals[number])}
            if numbers:
                ranges[table.database, table.table] = _joined(sorted(numbers), intervals)
        return ranges

    def _is_empty(self, table: TableName, after_seq: int, last_seq: int) -> bool:
        try:
            return not count_rows(self._stream, after_seq, last_seq).get(table)
        except StreamHoleError:
            # What was there is gone, so it is not pending; what is still there may be wanted.
            return False


def _joined(numbers: Sequence[int], intervals: Sequence[Interval]) -> Ranges:
    """Neighbours as one range."""
    ranges: Ranges = []
    before = None
    for number in numbers:
        start = intervals[number].start
        ranges[-1:] = [(ranges[-1][0], start)] if before == number - 1 and ranges else [*ranges[-1:], (start, start)]
        before = number
    return ranges
