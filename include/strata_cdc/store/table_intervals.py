"""The ledger of table intervals: for each table and closed interval, whether its rows are published, and if not, why.
Not here: closing intervals (`ledgers.py`), which intervals a run takes (`pipeline/plan/pending.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.errors import ErrorFacts
from strata_cdc.store.database import Ledger, reading, upsert, writing
from strata_cdc.store.full_names import full_name
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import closed_interval, table_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_COUNTED = "counted"
"""State of the row for an interval as a whole: without it, the interval's rows are not counted yet."""


class IntervalState(StrEnum):
    """The state of one table's rows in one interval. A table without a row in the ledger has no rows there."""

    PENDING = "owed"
    """Pending: they are not published yet, even if a run has begun to."""
    PUBLISHED = "published"
    """Readers see all of them."""
    FAILED = "failed"
    """A check failed, or a slice could not be decoded; they wait for a person."""
    BLOCKED = "held"
    """Blocked: some or all of them cannot be published now, because of a gap in the schema history, quarantine, or a
    statement."""
    UNWANTED = "unwanted"
    """The settings do not name the table. They become pending as soon as the settings do."""
    DISCARDED = "discarded"
    """A person has decided to discard those that are not published; the reason and the decision stay."""


UNPUBLISHED = (IntervalState.PENDING, IntervalState.FAILED, IntervalState.BLOCKED, IntervalState.UNWANTED)
"""Readers do not see all of the rows."""


class TableInterval(Struct, frozen=True):
    """One table's part of one closed interval."""

    source: str
    start: int
    """Start of the interval, microseconds UTC."""
    database: str
    table: str
    rows: int
    """Rows by the counts of the binlog's own events; an update counts once."""
    state: IntervalState
    reason: ErrorFacts | None = None
    """Why it failed or is blocked."""
    published_rows: int = 0
    run: str | None = None
    """The run that published it, or failed to."""
    history: int = 0
    """Newest schema version that the run's plan knew; 0 if it was not planned yet."""
    changed_at: int = 0

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def full_name(self) -> str:
        """The name in the verdicts and the published intervals."""
        return full_name(self.database, self.table)


class StateTotal(Struct, frozen=True):
    """The sums of one table's intervals in one state."""

    database: str
    table: str
    state: IntervalState
    intervals: int
    rows: int
    published_rows: int
    first_start: int
    """Start of the oldest interval, microseconds UTC."""
    last_start: int

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


class TableIntervalLedger(Ledger):
    """States of all tables in all closed intervals of a source."""

    def uncounted(self, source: str) -> list[int]:
        """Starts of closed intervals whose rows are not counted: those of a version without this ledger."""
        intervals, marks = table_interval.c, closed_interval.c
        with reading(self._engine) as connection:
            if _ends_are_counted(connection, source):
                return []
        counted = sa.select(intervals.start_at).where((intervals.source == source) & (intervals.state == _COUNTED))
        query = sa.select(marks.start_at).where((marks.source == source) & marks.start_at.not_in(counted))
        return [int(start) for (start,) in self._rows(query.order_by(marks.start_at))]

    def count(self, source: str, start: int, entries: Sequence[TableInterval], *, now: int) -> None:
        """Stores the rows of an interval that was closed without them; does nothing if another process has done it."""
        with writing(self._engine) as connection:
            columns = table_interval.c
            there = (columns.source == source) & (columns.start_at == start) & (columns.state == _COUNTED)
            if connection.execute(sa.select(columns.rows).where(there).with_for_update()).first() is None:
                insert_counted(connection, source, start, entries, now=now)

    def select(
        self,
        source: str,
        states: Collection[IntervalState],
        *,
        starts: tuple[int | None, int | None] = (None, None),
        table: tuple[str, str] | None = None,
    ) -> list[TableInterval]:
        """The table intervals in some states, in order of time and table.

        Args:
            states: These states.
            starts: Only intervals that start in this half-open span (microseconds UTC; None: no bound).
            table: Only this database and table.
        """
        columns = table_interval.c
        condition = (columns.source == source) & columns.state.in_([str(state) for state in states])
        first, end = starts
        if first is not None:
            condition &= columns.start_at >= first
        if end is not None:
            condition &= columns.start_at < end
        if table is not None:
            condition &= (columns.database_name == table[0]) & (columns.table_name == table[1])
        # In the order of the primary key, SQLite would rather read all intervals than sort the few in these states.
        start: sa.ColumnElement[int] = columns.start_at if starts != (None, None) or table else columns.start_at + 0
        query = sa.select(*columns).where(condition).order_by(start, columns.database_name, columns.table_name)
        return [_from_row(row) for row in self._rows(query)]

    def last_unpublished(self, source: str, before: int) -> dict[tuple[str, str], int]:
        """The last interval with rows that are not published, for each table that has one.

        Args:
            before: Only intervals that start before (microseconds UTC).
        """
        columns = table_interval.c
        query = (
            sa.select(columns.database_name, columns.table_name, sa.func.max(columns.start_at))
            .where((columns.source == source) & columns.state.in_([str(state) for state in UNPUBLISHED]))
            .where((columns.start_at < before) & (columns.rows > 0))
            .group_by(columns.database_name, columns.table_name)
        )
        return {(database, table): int(start) for database, table, start in self._rows(query)}

    def last_seq_published(self, source: str, table: tuple[str, str], before: int) -> int | None:
        """Ordinal of the last transaction of the newest interval in which a table is published; None if there is none.

        Args:
            table: Database and table.
            before: Only intervals that start before (microseconds UTC).
        """
        columns, marks = table_interval.c, closed_interval.c
        same = (marks.source == columns.source) & (marks.start_at == columns.start_at)
        query = (
            sa.select(marks.last_seq)
            .select_from(table_interval.join(closed_interval, same))
            .where((columns.source == source) & (columns.state == str(IntervalState.PUBLISHED)))
            .where((columns.database_name == table[0]) & (columns.table_name == table[1]))
            .where(columns.start_at < before)
            .order_by(columns.start_at.desc())
            .limit(1)
        )
        seq: int | None = self._value(query)
        return seq

    def get(self, source: str, start: int, database: str, table: str) -> TableInterval | None:
        """One table's part of one interval; None if it has no rows there, or they are not counted."""
        intervals = self.select(source, tuple(IntervalState), starts=(start, start + 1), table=(database, table))
        return intervals[0] if intervals else None

    def of_interval(self, source: str, start: int) -> list[TableInterval]:
        """All tables of one interval, by name."""
        return self.select(source, tuple(IntervalState), starts=(start, start + 1))

    def put(self, entries: Iterable[TableInterval]) -> None:
        """Replaces former states by new ones, all or none."""
        with writing(self._engine) as connection:
            for entry in entries:
                store_table_interval(connection, entry)

    def follow_settings(
        self,
        source: str,
        is_wanted: Callable[[str, str], bool],
        *,
        since: int | None = None,
        excluded: Mapping[tuple[str, str], Sequence[tuple[int, int]]] | None = None,
    ) -> None:
        """Makes pending what the settings want only now, and unwanted what they no longer want and is not published.

        Args:
            is_wanted: Whether the settings name a database and table.
            since: Intervals that start before this (microseconds UTC) are unwanted.
            excluded: By database and table, between which starts (both inclusive) intervals are unwanted too.
        """
        start = table_interval.c.start_at
        early = start < since if since is not None else sa.false()
        spans = {name: sa.or_(*(start.between(*span) for span in times)) for name, times in (excluded or {}).items()}

        def unwanted(name: tuple[str, str]) -> sa.ColumnElement[bool]:
            if not is_wanted(*name):
                return sa.true()
            return early | spans[name] if name in spans else early

        with writing(self._engine) as connection:
            for name in _names(connection, source, IntervalState.UNWANTED):
                _move(connection, source, name, IntervalState.UNWANTED, IntervalState.PENDING, sa.not_(unwanted(name)))
            for name in _names(connection, source, IntervalState.PENDING):
                _move(connection, source, name, IntervalState.PENDING, IntervalState.UNWANTED, unwanted(name))
            for name, inside in spans.items():
                # Those that failed or are blocked would wait for a person for ever.
                unpublished = inside & (table_interval.c.published_rows == 0)
                for state in (IntervalState.FAILED, IntervalState.BLOCKED):
                    _move(connection, source, name, state, IntervalState.UNWANTED, unpublished)

    def changed_at(self, source: str) -> int:
        """When a state was last stored, microseconds UTC; 0 if none is."""
        query = sa.select(sa.func.max(table_interval.c.changed_at)).where(table_interval.c.source == source)
        return int(self._value(query) or 0)

    def names(self, source: str) -> list[tuple[str, str]]:
        """Databases and tables that the ledger knows of a source."""
        columns = table_interval.c
        query = sa.select(columns.database_name, columns.table_name).where(
            (columns.source == source) & (columns.state != _COUNTED)
        )
        return [(database, table) for database, table in self._rows(query.distinct())]

    def totals(self, source: str) -> list[StateTotal]:
        """Sums by table and state, in the order of both."""
        columns = table_interval.c
        groups = (columns.database_name, columns.table_name, columns.state)
        sums = (sa.func.count(), sa.func.sum(columns.rows), sa.func.sum(columns.published_rows))
        query = (
            sa.select(*groups, *sums, sa.func.min(columns.start_at), sa.func.max(columns.start_at))
            .where((columns.source == source) & (columns.state != _COUNTED))
            .group_by(*groups)
            .order_by(*groups)
        )
        return [
            StateTotal(database, table, IntervalState(state), *map(int, numbers))
            for database, table, state, *numbers in self._rows(query)
        ]


_KEY = table_interval.primary_key.columns


def same_table_interval(connection: sa.Connection, entry: TableInterval) -> TableInterval | None:
    """The present state of the same table and interval, locked until the transaction ends."""
    values = _to_row(entry)
    same = sa.and_(*(column == values[column.name] for column in _KEY))
    row = connection.execute(sa.select(*table_interval.c).where(same).with_for_update()).first()
    return None if row is None else _from_row(row)


def store_table_interval(connection: sa.Connection, entry: TableInterval) -> None:
    """Replaces a state, in the transaction of the caller."""
    values = _to_row(entry)
    upsert(connection, table_interval, {column.name: values[column.name] for column in _KEY}, values)


def insert_counted(
    connection: sa.Connection, source: str, start: int, entries: Sequence[TableInterval], *, now: int
) -> None:
    """Stores the rows of one interval, in the transaction of the caller; from then on it is counted."""
    whole = TableInterval(
        source, start, "", "", sum(entry.rows for entry in entries), IntervalState.PUBLISHED, changed_at=now
    )
    rows = [{**_to_row(whole), "state": _COUNTED}, *map(_to_row, entries)]
    connection.execute(table_interval.insert(), rows)


def _ends_are_counted(connection: sa.Connection, source: str) -> bool:
    """Whether the first and the last closed interval are counted: then all are. Those of a version without the ledger
    are counted from one end to the other, before any other interval is closed."""
    intervals, marks = table_interval.c, closed_interval.c
    for order in (marks.start_at, marks.start_at.desc()):
        start = sa.select(marks.start_at).where(marks.source == source).order_by(order).limit(1)
        end = connection.execute(start).scalar_one_or_none()
        counted = (intervals.source == source) & (intervals.start_at == end) & (intervals.state == _COUNTED)
        if end is None or connection.execute(sa.select(intervals.rows).where(counted)).first() is None:
            return end is None
    return True


def _names(connection: sa.Connection, source: str, state: IntervalState) -> list[tuple[str, str]]:
    """Databases and tables that have an interval in a state."""
    columns = table_interval.c
    in_state = (columns.source == source) & (columns.state == str(state))
    query = sa.select(columns.database_name, columns.table_name).where(in_state).distinct()
    return [(database, table) for database, table in connection.execute(query)]


def _move(
    connection: sa.Connection,
    source: str,
    name: tuple[str, str],
    before: IntervalState,
    after: IntervalState,
    when: sa.ColumnElement[bool],
) -> None:
    if isinstance(when, sa.False_):
        return  # A source has thousands of tables, and most have nothing to move.
    columns = table_interval.c
    in_state = (columns.source == source) & (columns.state == str(before)) & when
    table = (columns.database_name == name[0]) & (columns.table_name == name[1])
    connection.execute(table_interval.update().where(in_state & table).values(state=str(after)))


def _to_row(entry: TableInterval) -> dict[str, Any]:
    return {
        "source": entry.source,
        "start_at": entry.start,
        "database_name": entry.database,
        "table_name": entry.table,
        "rows": entry.rows,
        "state": str(entry.state),
        "reason": to_column(entry.reason) if entry.reason else None,
        "published_rows": entry.published_rows,
        "run": entry.run,
        "history": entry.history,
        "changed_at": entry.changed_at,
    }


def _from_row(row: sa.Row[Any]) -> TableInterval:
    source, start, database, table, rows, state, reason, *rest = tuple(row)
    why = from_column(reason, ErrorFacts, "table_interval.reason") if reason else None
    return TableInterval(source, start, database, table, rows, IntervalState(state), why, *rest)
