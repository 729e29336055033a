"""Rows of one table over time, from the ledger of table intervals: a page at a time, and sums for a picture.
Not here: their states (`table_intervals.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.errors import ErrorFacts
from strata_cdc.store.database import reading
from strata_cdc.store.json_columns import from_column
from strata_cdc.store.table_intervals import IntervalState
from strata_cdc.store.tables import table_interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class IntervalRows(Struct, frozen=True):
    """One table's rows of one interval, and their state."""

    start: int
    """Start of the interval, microseconds UTC."""
    rows: int
    published_rows: int
    state: IntervalState
    reason: ErrorFacts | None
    run: str | None


class UnpublishedRows(Struct, frozen=True):
    """Unpublished rows of a source, by state."""

    state: IntervalState
    intervals: int
    rows: int
    first_start: int
    """Of the oldest interval, microseconds UTC."""
    table: str
    """The first of their tables by name, `database.table`."""
    tables: int


def waiting_rows(engine: sa.Engine, source: str) -> list[UnpublishedRows]:
    """The pending, failed and blocked rows of a source."""
    columns = table_interval.c
    states = [str(state) for state in (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED)]
    name = columns.database_name + "." + columns.table_name
    query = (
        sa.select(
            columns.state,
            sa.func.count(),
            sa.func.sum(columns.rows - columns.published_rows),
            sa.func.min(columns.start_at),
            sa.func.min(name),
            sa.func.count(name.distinct()),
        )
        .where(columns.source == source, columns.state.in_(states))
        .group_by(columns.state)
        .order_by(columns.state)
    )
    with reading(engine) as connection:
        return [
            UnpublishedRows(IntervalState(state), int(intervals), int(rows), int(first), table, int(tables))
            for state, intervals, rows, first, table, tables in connection.execute(query)
        ]


def newest_intervals(
    engine: sa.Engine,
    source: str,
    name: tuple[str, str],
    *,
    states: Collection[IntervalState] = tuple(IntervalState),
    limit: int = 20,
) -> list[IntervalRows]:
    """The newest intervals that have rows of a table, the newest first.

    Args:
        name: Database and table.
        states: Only intervals in one of these states.
        limit: How many at most.
    """
    fields = table_interval.c
    columns = (
        fields.start_at,
        fields.rows,
        fields.published_rows,
        fields.state,
        fields.reason,
        fields.run,
    )
    # The index has the intervals of each state in order of time: `limit` of each state are enough.
    newest = [
        sa.select(*columns).where(_of_table(source, name, [wanted_state])).order_by(fields.start_at.desc()).limit(limit)
        for wanted_state in states
    ]
    query = sa.union_all(*(sa.select(wanted_state.subquery()) for wanted_state in newest))
    with reading(engine) as connection:
        rows = sorted(connection.execute(query).all(), key=lambda row: -row.start_at)
    return [
        IntervalRows(start, count, published, IntervalState(state), _reason(reason), run)
        for start, count, published, state, reason, run in rows[:limit]
    ]


def _of_table(
    source: str, name: tuple[str, str], states: Iterable[IntervalState] = IntervalState
) -> sa.ColumnElement[bool]:
    """The intervals of one table; with the states, because the index has them before the names."""
    columns = table_interval.c
    return sa.and_(
        columns.source == source,
        columns.state.in_([str(state) for state in states]),
        columns.database_name == name[0],
        columns.table_name == name[1],
    )


def first_rows(engine: sa.Engine, source: str, name: tuple[str, str]) -> int | None:
    """Start of the oldest interval that has rows of a table (microseconds UTC); None if there is none."""
    columns = table_interval.c
    query = sa.select(sa.func.min(columns.start_at)).where(_of_table(source, name))
    with reading(engine) as connection:
        start = connection.execute(query).scalar_one_or_none()
    return None if start is None else int(start)


def rows_by_bucket(
    engine: sa.Engine, source: str, name: tuple[str, str], span: tuple[int, int], buckets: int
) -> Sequence[int]:
    """How many rows of a table each part of a time span has; an interval counts in the part in which it starts.

    Args:
        name: Database and table.
        span: Half-open, microseconds UTC.
        buckets: Number of parts of equal length.

    Returns:
        As many numbers as there are buckets.
    """
    start, end = span
    width = max(-(-(end - start) // buckets), 1)
    columns = table_interval.c
    # A whole number divided by a whole number: the remainder is subtracted first, so that no database rounds.
    offset = columns.start_at - start
    bucket = (offset - offset % width) / width
    query = (
        sa.select(sa.cast(bucket, sa.Integer).label("bucket"), sa.func.sum(columns.rows))
        .where(_of_table(source, name), columns.start_at >= start, columns.start_at < end)
        .group_by("bucket")
    )
    sums = [0] * buckets
    with reading(engine) as connection:
        for at, rows in connection.execute(query):
            sums[min(int(at), buckets - 1)] += int(rows)
    return sums


def _reason(stored: str | None) -> ErrorFacts | None:
    return from_column(stored, ErrorFacts, "table_interval.reason") if stored else None
