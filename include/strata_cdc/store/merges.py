"""Intervals that lie next to each other become one interval; and which tables still have files of the shorter ones.
Not here: which intervals (`pipeline/housekeep/merge_intervals.py`), merging files (`tables/merge_files.py`)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import astuple, replace

from strata_cdc.store.database import Ledger, reading, writing
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.ledgers import ClosedInterval, PublishedDetails, VersionRows
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.tables import (
    closed_interval,
    file_merge,
    published_interval,
    quarantine_decision,
    table_interval,
    tracked_position,
    verdict,
)
from strata_cdc.store.verdicts import VerdictDetails, VerdictOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SETTLED = frozenset({str(IntervalState.PUBLISHED), str(IntervalState.UNWANTED)})
_COUNTED = "counted"
_MOST_FAILURES = 100
"""Failed rules that the verdict of a merged interval keeps of each table."""


class FileMerge(Struct, frozen=True):
    """A table's part of a merged interval, with files of the shorter intervals."""

    source: str
    start_at: int
    """Start of the merged interval, microseconds UTC."""
    database_name: str
    table_name: str
    end_at: int
    """End of the merged interval."""
    merged_at: int | None = None
    """When the files were merged: the former ones are still to be deleted. None: they are to be merged."""


class MergeCandidate(Struct, frozen=True):
    """A closed interval that may become part of a longer one."""

    interval: ClosedInterval
    rows: int
    """Of all tables."""
    states: dict[tuple[str, str], str]
    """The state of each database and table that has something in it."""
    is_settled: bool
    """Whether everything in it is published or unwanted, its rows are counted, and nobody has decided on any of it."""


class MergeLedger(Ledger):
    """Merged intervals of a source. An interval only ever becomes part of a longer one."""

    def crowded(self, source: str, span: int, before: int, *, most: int, since: int = 0) -> list[int]:
        """The spans of time in which more than so many short intervals begin, in order of time.

        Args:
            span: Length of each (microseconds); they begin at whole multiples of it. An interval is short if it is
                shorter.
            before: Only spans, and intervals, that end at this time or before (microseconds UTC).
            most: How many intervals may stay.
            since: Only intervals that start at this time or later.

        Returns:
            Their starts, microseconds UTC.
        """
        columns = closed_interval.c
        begin = columns.start_at - columns.start_at % span
        query = (
            sa.select(begin.label("span_start"))
            .where((columns.source == source) & (columns.start_at < before - before % span))
            .where(columns.start_at >= since)
            .where((columns.end_at <= before) & (columns.end_at - columns.start_at < span))
            .group_by("span_start")
            .having(sa.func.count() > most)
            .order_by("span_start")
        )
        return [int(start) for (start,) in self._rows(query)]

    def candidates(self, source: str, begin: int, end: int) -> list[MergeCandidate]:
        """The intervals that start in a span of time (microseconds UTC, half-open), in order."""
        with reading(self._engine) as connection:
            # The marks last: what is read before may be of shorter intervals, and then counts as not settled.
            entries = _started(connection, table_interval, source, begin, end)
            decisions = {row.start_at for row in _started(connection, quarantine_decision, source, begin, end)}
            intervals = [
                ClosedInterval(*tuple(row)) for row in _started(connection, closed_interval, source, begin, end)
            ]
        states: dict[int, dict[tuple[str, str], str]] = {}
        rows: dict[int, int] = {}
        for entry in entries:
            if entry.state == _COUNTED:
                rows[entry.start_at] = entry.rows
            else:
                states.setdefault(entry.start_at, {})[entry.database_name, entry.table_name] = entry.state
        return [
            MergeCandidate(
                interval,
                rows.get(interval.start, 0),
                states.get(interval.start, {}),
                interval.start in rows
                and interval.start not in decisions
                and set(states.get(interval.start, {}).values()) <= _SETTLED,
            )
            for interval in intervals
        ]

    def merge(self, intervals: Sequence[ClosedInterval], is_wanted: Callable[[str, str], bool]) -> bool:
        """Makes one interval of some that follow each other, in one transaction: it owns what they own, and everything
        that is stored of them becomes part of what is stored of it.

        Args:
            intervals: At least two, in order; each begins where the one before ends.
            is_wanted: Whether the rows of a database and table in the merged interval would be published.

        Returns:
            False if nothing was changed: one of them is no longer as given; something in it is not published although
            it is wanted, or was decided on by a person; or a table is published in some of them and unwanted in others.
        """
        first, last = intervals[0], intervals[-1]
        with writing(self._engine) as connection:
            # As where intervals are closed: all that change a source's intervals wait for each other.
            lock = sa.select(tracked_position.c.seq).where(tracked_position.c.source == first.source)
            connection.execute(lock.with_for_update()).all()
            stored = _rows(connection, closed_interval, first, last)
            if [tuple(row) for row in stored] != [astuple(interval) for interval in intervals]:
                return False
            entries = _rows(connection, table_interval, first, last)
            if _rows(connection, quarantine_decision, first, last) or not _are_settled(entries, len(stored), is_wanted):
                return False
            marks = replace(
                last, start=first.start, after_seq=first.after_seq, closed_at=max(row.closed_at for row in stored)
            )
            columns = dict(zip(closed_interval.c.keys(), astuple(marks), strict=True))
            _replace(connection, closed_interval, first, last, [columns])
            _replace(
                connection, table_interval, first, last, _merged(first.start, entries, _TABLE_KEY, _merged_entries)
            )
            notes = _merged(
                first.start, _rows(connection, published_interval, first, last), ("table_name",), _merged_notes
            )
            _replace(connection, published_interval, first, last, notes)
            judged = _merged(first.start, _rows(connection, verdict, first, last), ("table_name",), _merged_verdicts)
            _replace(connection, verdict, first, last, judged)
            published = {(row.database_name, row.table_name) for row in entries if row.published_rows}
            waiting = [FileMerge(first.source, first.start, *name, last.end) for name in sorted(published)]
            names = FileMerge.__struct_fields__
            rows = [dict(zip(names, astuple(file_merge_), strict=True)) for file_merge_ in waiting]
            _replace(connection, file_merge, first, last, rows)
        return True

    def pending(self, source: str) -> list[FileMerge]:
        """The tables whose files are to be merged, in order of time."""
        return self._select((file_merge.c.source == source) & file_merge.c.merged_at.is_(None))

    def merged(self, source: str, before: int) -> list[FileMerge]:
        """The tables whose files were merged before a time (microseconds UTC), and whose former files are there."""
        return self._select((file_merge.c.source == source) & (file_merge.c.merged_at < before))

    def note_merged(self, done: FileMerge, table: str, delta_version: int | None, *, now: int) -> None:
        """Stores that the files of a table's part of an interval are merged.

        Args:
            done: What was pending.
            table: The table (`full_names.py`).
            delta_version: The version of the change table that has the merged files; None if there were none to merge.
        """
        notes = published_interval.c
        of_table = (notes.source == done.source) & (notes.start_at == done.start_at) & (notes.table_name == table)
        with writing(self._engine) as connection:
            connection.execute(file_merge.update().where(_is_same(done)).values(merged_at=now))
            if delta_version is not None:
                is_older = of_table & (notes.delta_version < delta_version)
                connection.execute(published_interval.update().where(is_older).values(delta_version=delta_version))

    def forget(self, done: FileMerge) -> None:
        """Stores that the former files were deleted."""
        with writing(self._engine) as connection:
            connection.execute(file_merge.delete().where(_is_same(done) & (file_merge.c.merged_at == done.merged_at)))

    def _select(self, condition: sa.ColumnElement[bool]) -> list[FileMerge]:
        order = [file_merge.c[name] for name in ("start_at", "database_name", "table_name")]
        columns = [file_merge.c[name] for name in FileMerge.__struct_fields__]
        query = sa.select(*columns).where(condition).order_by(*order)
        return [FileMerge(*row) for row in self._rows(query)]


_TABLE_KEY = ("database_name", "table_name")


def _is_same(given: FileMerge) -> sa.ColumnElement[bool]:
    # With the end: the interval may have become part of a longer one.
    names = ("source", "start_at", "database_name", "table_name", "end_at")
    return sa.and_(*(file_merge.c[name] == getattr(given, name) for name in names))


def _between(table: sa.Table, first: ClosedInterval, last: ClosedInterval) -> sa.ColumnElement[bool]:
    return (table.c.source == first.source) & table.c.start_at.between(first.start, last.start)


def _rows(connection: sa.Connection, table: sa.Table, first: ClosedInterval, last: ClosedInterval) -> list[sa.Row[Any]]:
    """All that a table of the store has of the intervals, in order of time; locked."""
    query = sa.select(*table.c).where(_between(table, first, last)).order_by(table.c.start_at).with_for_update()
    return list(connection.execute(query))


def _replace(
    connection: sa.Connection,
    table: sa.Table,
    first: ClosedInterval,
    last: ClosedInterval,
    rows: Sequence[dict[str, Any]],
) -> None:
    connection.execute(table.delete().where(_between(table, first, last)))
    if rows:
        connection.execute(table.insert(), list(rows))


def _are_settled(entries: Iterable[sa.Row[Any]], intervals: int, is_wanted: Callable[[str, str], bool]) -> bool:
    states: dict[tuple[str, str], set[str]] = {}
    counted = 0
    for entry in entries:
        if entry.state == _COUNTED:
            counted += 1
        else:
            states.setdefault((entry.database_name, entry.table_name), set()).add(entry.state)
    if counted != intervals or any(
        len(table_states) > 1 or not table_states <= _SETTLED for table_states in states.values()
    ):
        return False
    # The settings may want it by now, or may want the whole where they do not want a part.
    return not any(
        str(IntervalState.UNWANTED) in table_states and is_wanted(*name) for name, table_states in states.items()
    )


def _merged(
    start: int,
    rows: Iterable[sa.Row[Any]],
    key: tuple[str, ...],
    merge: Callable[[list[sa.Row[Any]]], dict[str, Any]],
) -> list[dict[str, Any]]:
    """One row for each key, at the start of the merged interval."""
    groups: dict[tuple[Any, ...], list[sa.Row[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in key), []).append(row)
    return [{**group[-1]._mapping, **merge(group), "start_at": start} for group in groups.values()]  # noqa: SLF001  public, in spite of its name


def _started(connection: sa.Connection, table: sa.Table, source: str, begin: int, end: int) -> Sequence[sa.Row[Any]]:
    """All that a table of the store has of the intervals that start in a span of time, in order of time."""
    inside = (table.c.source == source) & (table.c.start_at >= begin) & (table.c.start_at < end)
    return connection.execute(sa.select(*table.c).where(inside).order_by(table.c.start_at)).all()


def _merged_entries(rows: list[sa.Row[Any]]) -> dict[str, Any]:
    return {
        "rows": sum(row.rows for row in rows),
        "published_rows": sum(row.published_rows for row in rows),
        "history": min(row.history for row in rows),
    }


def _merged_notes(rows: list[sa.Row[Any]]) -> dict[str, Any]:
    details = [from_column(row.details, PublishedDetails, "published_interval.details") for row in rows]
    counts: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for note in details:
        for version in note.by_version:
            counts[version.version_id] += version.rows
            sizes[version.version_id] += version.bytes
    # If it is not known of one of them how many rows each version decoded, it is not known of all of them together.
    is_known = all(note.by_version or not row.rows for note, row in zip(details, rows, strict=True))
    by_version = tuple(VersionRows(version, counts[version], sizes[version]) for version in sorted(counts))
    merged = replace(
        details[-1],
        schema_versions=tuple(sorted({version for note in details for version in note.schema_versions})),
        by_version=by_version if is_known else (),
    )
    return {
        "rows": sum(row.rows for row in rows),
        "delta_version": max(row.delta_version for row in rows),
        "published_at": max(row.published_at for row in rows),
        "details": to_column(merged),
    }


_RANK = tuple(map(str, VerdictOutcome))


def _merged_verdicts(rows: list[sa.Row[Any]]) -> dict[str, Any]:
    details = [from_column(row.details, VerdictDetails, "verdict.details") for row in rows]
    failures = tuple(failure for verdict in details for failure in verdict.failures)
    merged = replace(
        details[-1],
        versions=tuple(sorted({version for verdict in details for version in verdict.versions})),
        rows=sum(verdict.rows for verdict in details),
        checks=max(verdict.checks for verdict in details),
        failures=failures[:_MOST_FAILURES],
        # Of files: those that were checked are not those that are published now.
        staged="",
        aside="",
    )
    return {
        "outcome": max((row.outcome for row in rows), key=_RANK.index),
        "judged_at": max(row.judged_at for row in rows),
        "details": to_column(merged),
    }
