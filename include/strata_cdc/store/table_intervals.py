"""The ledger of what is owed: for each table and closed interval, whether its rows are published, and if not, why.
Not here: closing intervals (`ledgers.py`), which of it a run takes (`pipeline/plan/pending.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.errors import ErrorFacts
from strata_cdc.store.database import reading, writing
from strata_cdc.store.full_names import full_name
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.tables import closed_interval, table_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_COUNTED = "counted"
"""State of the row that stands for an interval as a whole: without it nobody has counted the interval's rows."""


class IntervalState(StrEnum):
    """What became of one table's rows in one interval. A table without a row in the ledger has no rows there."""

    OWED = "owed"
    """Nobody has published them yet, whoever began to."""
    PUBLISHED = "published"
    """Readers see all of them."""
    FAILED = "failed"
    """A check failed, or a slice could not be decoded; they wait for somebody to look."""
    HELD = "held"
    """Some or all of them cannot be published as things are: a gap in the schema history, quarantine, a statement."""
    UNWANTED = "unwanted"
    """The settings do not name the table. They are owed as soon as the settings do."""
    DISCARDED = "discarded"
    """Somebody has decided to do without those that are not published; the reason stays, and the decision."""


UNPUBLISHED = (IntervalState.OWED, IntervalState.FAILED, IntervalState.HELD, IntervalState.UNWANTED)
"""Readers do not see all of the rows."""


class TableInterval(Struct, frozen=True):
    """One table's part of one closed interval."""

    source: str
    start: int
    """Of the interval, microseconds UTC."""
    database: str
    table: str
    rows: int
    """By the counts of the binlog's own events; an update counts once."""
    state: IntervalState
    reason: ErrorFacts | None = None
    """Why it failed or is held."""
    published_rows: int = 0
    run: str | None = None
    """The run that published it, or failed to."""
    history: int = 0
    """Newest schema version that the run's plan knew; 0 if nobody has planned it."""
    changed_at: int = 0

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def full_name(self) -> str:
        """As the verdicts and the published intervals call it."""
        return full_name(self.database, self.table)


class StateTotal(Struct, frozen=True):
    """What a source has of one table in one state."""

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


class TableIntervalLedger:
    """States of all tables in all closed intervals of a source."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def uncounted(self, source: str) -> list[int]:
        """Starts of closed intervals whose rows nobody has counted: those of a version without this ledger."""
        mine, marks = table_interval.c, closed_interval.c
        counted = sa.select(mine.start_at).where((mine.source == source) & (mine.state == _COUNTED))
        query = sa.select(marks.start_at).where((marks.source == source) & marks.start_at.not_in(counted))
        with reading(self._engine) as connection:
            return [int(start) for (start,) in connection.execute(query.order_by(marks.start_at))]

    def count(self, source: str, start: int, pieces: Sequence[TableInterval], *, now: int) -> None:
        """Notes the rows of an interval that was closed without; does nothing if somebody else just has."""
        with writing(self._engine) as connection:
            found = table_interval.c
            there = (found.source == source) & (found.start_at == start) & (found.state == _COUNTED)
            if connection.execute(sa.select(found.rows).where(there).with_for_update()).first() is None:
                insert_counted(connection, source, start, pieces, now=now)

    def select(
        self,
        source: str,
        states: Collection[IntervalState],
        *,
        starts: tuple[int | None, int | None] = (None, None),
        table: tuple[str, str] | None = None,
    ) -> list[TableInterval]:
        """What is in one of some states, in order of time and table.

        Args:
            source: The source.
            states: Any of them.
            starts: Only intervals that start in this half-open span (microseconds UTC; None: no bound).
            table: Only this database and table.
        """
        found = table_interval.c
        condition = (found.source == source) & found.state.in_([str(state) for state in states])
        first, end = starts
        if first is not None:
            condition &= found.start_at >= first
        if end is not None:
            condition &= found.start_at < end
        if table is not None:
            condition &= (found.database_name == table[0]) & (found.table_name == table[1])
        query = sa.select(*found).where(condition).order_by(found.start_at, found.database_name, found.table_name)
        with reading(self._engine) as connection:
            return [_from_row(row) for row in connection.execute(query)]

    def last_unpublished(self, source: str, before: int) -> dict[tuple[str, str], int]:
        """Of each table that has any, the last interval with rows that are not published.

        Args:
            source: The source.
            before: Only intervals that start before (microseconds UTC).
        """
        found = table_interval.c
        query = (
            sa.select(found.database_name, found.table_name, sa.func.max(found.start_at))
            .where((found.source == source) & found.state.in_([str(state) for state in UNPUBLISHED]))
            .where((found.start_at < before) & (found.rows > 0))
            .group_by(found.database_name, found.table_name)
        )
        with reading(self._engine) as connection:
            return {(database, table): int(start) for database, table, start in connection.execute(query)}

    def get(self, source: str, start: int, database: str, table: str) -> TableInterval | None:
        """One table's part of one interval; None if it has no rows there, or nobody has counted them."""
        found = self.select(source, tuple(IntervalState), starts=(start, start + 1), table=(database, table))
        return found[0] if found else None

    def of_interval(self, source: str, start: int) -> list[TableInterval]:
        """Everything of one interval, by table."""
        return self.select(source, tuple(IntervalState), starts=(start, start + 1))

    def put(self, pieces: Iterable[TableInterval]) -> None:
        """Stores new states in the place of former ones, all or none."""
        with writing(self._engine) as connection:
            for piece in pieces:
                store_piece(connection, piece)

    def follow_settings(
        self,
        source: str,
        is_wanted: Callable[[str, str], bool],
        *,
        since: int | None = None,
        left_out: Mapping[tuple[str, str], Sequence[tuple[int, int]]] | None = None,
    ) -> None:
        """Makes owed what the settings want only now, and unwanted what they no longer want and nobody has published.

        Args:
            source: The source.
            is_wanted: Whether the settings name a database and table.
            since: Intervals that start before (microseconds UTC) are unwanted.
            left_out: By database and table, between which starts (both inclusive) intervals are unwanted, too.
        """
        start = table_interval.c.start_at
        early = start < since if since is not None else sa.false()
        spans = {name: sa.or_(*(start.between(*span) for span in found)) for name, found in (left_out or {}).items()}

        def unwanted(name: tuple[str, str]) -> sa.ColumnElement[bool]:
            if not is_wanted(*name):
                return sa.true()
            return early | spans[name] if name in spans else early

        with writing(self._engine) as connection:
            for name in _names(connection, source, IntervalState.UNWANTED):
                _move(connection, source, name, IntervalState.UNWANTED, IntervalState.OWED, sa.not_(unwanted(name)))
            for name in _names(connection, source, IntervalState.OWED):
                _move(connection, source, name, IntervalState.OWED, IntervalState.UNWANTED, unwanted(name))
            for name, inside in spans.items():
                # What failed or is held of them would wait for ever for somebody to look.
                unpublished = inside & (table_interval.c.published_rows == 0)
                for state in (IntervalState.FAILED, IntervalState.HELD):
                    _move(connection, source, name, state, IntervalState.UNWANTED, unpublished)

    def changed_at(self, source: str) -> int:
        """When a state was last stored, microseconds UTC; 0 if none is."""
        query = sa.select(sa.func.max(table_interval.c.changed_at)).where(table_interval.c.source == source)
        with reading(self._engine) as connection:
            return int(connection.execute(query).scalar_one_or_none() or 0)

    def names(self, source: str) -> list[tuple[str, str]]:
        """Databases and tables that the ledger knows of a source."""
        found = table_interval.c
        query = sa.select(found.database_name, found.table_name).where(
            (found.source == source) & (found.state != _COUNTED)
        )
        with reading(self._engine) as connection:
            return [(database, table) for database, table in connection.execute(query.distinct())]

    def totals(self, source: str) -> list[StateTotal]:
        """Sums by table and state, in the order of both."""
        found = table_interval.c
        groups = (found.database_name, found.table_name, found.state)
        sums = (sa.func.count(), sa.func.sum(found.rows), sa.func.sum(found.published_rows))
        query = (
            sa.select(*groups, *sums, sa.func.min(found.start_at), sa.func.max(found.start_at))
            .where((found.source == source) & (found.state != _COUNTED))
            .group_by(*groups)
            .order_by(*groups)
        )
        with reading(self._engine) as connection:
            return [
                StateTotal(database, table, IntervalState(state), *map(int, numbers))
                for database, table, state, *numbers in connection.execute(query)
            ]


def same_piece(connection: sa.Connection, piece: TableInterval) -> TableInterval | None:
    """What the ledger has of the same table and interval now, which nobody changes before the transaction ends."""
    row = connection.execute(sa.select(*table_interval.c).where(_is_same(piece)).with_for_update()).first()
    return None if row is None else _from_row(row)


def store_piece(connection: sa.Connection, piece: TableInterval) -> None:
    """Stores a state in the place of the former one, in the transaction of the caller."""
    there = sa.select(table_interval.c.rows).where(_is_same(piece)).with_for_update()
    if connection.execute(there).first() is not None:
        connection.execute(table_interval.update().where(_is_same(piece)).values(_to_row(piece)))
    else:
        connection.execute(table_interval.insert().values(_to_row(piece)))


def _is_same(piece: TableInterval) -> sa.ColumnElement[bool]:
    values = _to_row(piece)
    return sa.and_(*(column == values[column.name] for column in table_interval.primary_key.columns))


def insert_counted(
    connection: sa.Connection, source: str, start: int, pieces: Sequence[TableInterval], *, now: int
) -> None:
    """Notes the rows of one interval, in the transaction of the caller; from here on it is counted."""
    whole = TableInterval(
        source, start, "", "", sum(piece.rows for piece in pieces), IntervalState.PUBLISHED, changed_at=now
    )
    rows = [{**_to_row(whole), "state": _COUNTED}, *map(_to_row, pieces)]
    connection.execute(table_interval.insert(), rows)


def _names(connection: sa.Connection, source: str, state: IntervalState) -> list[tuple[str, str]]:
    """Databases and tables that have something in a state."""
    found = table_interval.c
    mine = (found.source == source) & (found.state == str(state))
    query = sa.select(found.database_name, found.table_name).where(mine).distinct()
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
        return  # A source has thousands of tables, and of most there is nothing to move.
    found = table_interval.c
    mine = (found.source == source) & (found.state == str(before)) & when
    table = (found.database_name == name[0]) & (found.table_name == name[1])
    connection.execute(table_interval.update().where(mine & table).values(state=str(after)))


def _to_row(piece: TableInterval) -> dict[str, Any]:
    return {
        "source": piece.source,
        "start_at": piece.start,
        "database_name": piece.database,
        "table_name": piece.table,
        "rows": piece.rows,
        "state": str(piece.state),
        "reason": to_column(piece.reason) if piece.reason else None,
        "published_rows": piece.published_rows,
        "run": piece.run,
        "history": piece.history,
        "changed_at": piece.changed_at,
    }


def _from_row(row: sa.Row[Any]) -> TableInterval:
    source, start, database, table, rows, state, reason, *rest = tuple(row)
    why = from_column(reason, ErrorFacts, "table_interval.reason") if reason else None
    return TableInterval(source, start, database, table, rows, IntervalState(state), why, *rest)
