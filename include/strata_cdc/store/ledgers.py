"""Ledgers of the jobs: marks of closed intervals, published intervals.
Not here: what an interval owns (`pipeline/plan/intervals.py`), schema versions (`schema/history/sql_store.py`)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.store.database import Ledger, reading, upsert, writing
from strata_cdc.store.full_names import full_name
from strata_cdc.store.json_columns import from_column, to_column
from strata_cdc.store.table_intervals import TableIntervalLedger, insert_counted
from strata_cdc.store.tables import closed_interval, published_interval, tracked_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strata_cdc.store.table_intervals import TableInterval


class ClosedInterval(Struct, frozen=True):
    """The marks of one interval: it owns the transactions with after_seq < seq <= last_seq, or is part of a longer one
    that does."""

    source: str
    start: int
    """Microseconds UTC."""
    end: int
    after_seq: int
    last_seq: int
    gtid_executed: str
    """What the stream had executed at the interval's end."""
    closed_at: int


class OwnedRun(Struct, frozen=True):
    """Intervals that follow each other: each begins where the one before ends, in time and in transactions."""

    start: int
    """Microseconds UTC."""
    end: int
    """Exclusive."""
    after_seq: int
    """The last transaction before them."""
    last_seq: int


class VersionRows(Struct, frozen=True, array_like=True):
    """The part of a commit that one schema version decoded."""

    version_id: int
    rows: int
    bytes: int
    """Bytes of the files that hold them, as they are stored."""


class PublishedDetails(Struct, frozen=True, omit_defaults=True):
    """What a commit was made from; fields that older versions did not store are empty."""

    gtid_executed: str = ""
    """What the stream had executed at the interval's end."""
    run: str = ""
    schema_versions: tuple[int, ...] = ()
    """Those that decoded the rows."""
    by_version: tuple[VersionRows, ...] = ()
    """How many rows each of them decoded."""


class PublishedInterval(Struct, frozen=True):
    """One table's part of an interval, as it was last committed."""

    source: str
    interval_start: int
    table: str
    delta_version: int
    rows: int
    published_at: int
    details: PublishedDetails


class IntervalLedger(Ledger):
    """Marks of closed intervals; those of one source are disjoint. They are never changed, but several may become one
    (`merges.py`)."""

    def overlapping(self, source: str, start: int, end: int) -> list[ClosedInterval]:
        """Intervals that share time with [start, end), and those that touch it at an end; in order of time."""
        columns = closed_interval.c
        within = (columns.source == source) & (columns.start_at <= end) & (columns.end_at >= start)
        return self._select(within)

    def all(self, source: str) -> list[ClosedInterval]:
        """Every interval of a source, in order of time."""
        return self._select(closed_interval.c.source == source)

    def runs(self, source: str) -> list[OwnedRun]:
        """The time that intervals own, in order; those that follow each other without a hole are one: a year has a
        hundred thousand of them, and hardly any hole."""
        with reading(self._engine) as connection:
            whole = _one_run(connection, source)
            begins = [whole] if whole else _begins(connection, source)
            owned: list[OwnedRun] = []
            for begin, following in pairwise([*begins, None]):
                if begin is not None:
                    end = begin if whole else _last_before(connection, source, following.start if following else None)
                    owned.append(replace(begin, end=end.end, last_seq=end.last_seq))
        return owned

    def after(self, source: str, seq: int) -> list[ClosedInterval]:
        """The intervals that own something after the transaction `seq`, in order of time."""
        return self._select((closed_interval.c.source == source) & (closed_interval.c.last_seq > seq))

    def starting(self, source: str, starts: Sequence[int]) -> list[ClosedInterval]:
        """The intervals that begin exactly then, in order of time; a few hundred at most."""
        return self._select((closed_interval.c.source == source) & closed_interval.c.start_at.in_(starts))

    def last(self, source: str) -> ClosedInterval | None:
        """The interval that reaches furthest, None if there is none."""
        newest = sa.select(sa.func.max(closed_interval.c.start_at)).where(closed_interval.c.source == source)
        intervals = self._select(
            (closed_interval.c.source == source) & (closed_interval.c.start_at == newest.scalar_subquery())
        )
        return intervals[0] if intervals else None

    def get(self, source: str, start: int) -> ClosedInterval | None:
        """The interval that begins exactly then."""
        intervals = self._select((closed_interval.c.source == source) & (closed_interval.c.start_at == start))
        return intervals[0] if intervals else None

    def at(self, source: str, time: int) -> ClosedInterval | None:
        """The interval that has a commit time (microseconds UTC); None if there is none."""
        columns = closed_interval.c
        intervals = self._select((columns.source == source) & (columns.start_at <= time) & (columns.end_at > time))
        return intervals[0] if intervals else None

    def close(self, interval: ClosedInterval, tables: Sequence[TableInterval] = ()) -> ClosedInterval:
        """Stores the marks, and what is pending between them, unless the interval's time is owned already.

        Args:
            interval: The marks.
            tables: Every table that has rows in the interval.

        Returns:
            The stored marks: if two processes close the same interval, those of the first; also if its end differs, or
            if another interval covers the start. A caller that gets other bounds than it gave has lost a race, and
            cuts its request again.
        """
        columns = closed_interval.c
        of_source = columns.source == interval.source
        overlap = sa.select(*closed_interval.c).where(
            of_source & (columns.start_at < interval.end) & (columns.end_at > interval.start)
        )
        with writing(self._engine) as connection:
            # All processes that close intervals of this source wait for each other here, so no two intervals overlap.
            connection.execute(
                sa.select(tracked_position.c.seq).where(tracked_position.c.source == interval.source).with_for_update()
            ).all()
            stored = connection.execute(overlap.order_by(columns.start_at).limit(1).with_for_update()).one_or_none()
            if stored is not None:
                return ClosedInterval(*stored)
            connection.execute(
                closed_interval.insert().values(
                    source=interval.source,
                    start_at=interval.start,
                    end_at=interval.end,
                    first_seq=interval.after_seq,
                    last_seq=interval.last_seq,
                    gtid_executed=interval.gtid_executed,
                    closed_at=interval.closed_at,
                )
            )
            insert_counted(connection, interval.source, interval.start, tables, now=interval.closed_at)
        return interval

    def _select(self, condition: sa.ColumnElement[bool]) -> list[ClosedInterval]:
        query = sa.select(*closed_interval.c).where(condition).order_by(closed_interval.c.start_at)
        return [ClosedInterval(*row) for row in self._rows(query)]


def _one_run(connection: sa.Connection, source: str) -> OwnedRun | None:
    """All intervals as one, if they are: then their lengths add up to the time from the first to the last, and so do
    their transactions. It is one pass in the database, and holes are rare."""
    columns = closed_interval.c
    query = sa.select(
        sa.func.min(columns.start_at),
        sa.func.max(columns.end_at),
        sa.func.min(columns.first_seq),
        sa.func.max(columns.last_seq),
        sa.func.sum(columns.end_at - columns.start_at),
        sa.func.sum(columns.last_seq - columns.first_seq),
    ).where(columns.source == source)
    start, end, first_seq, last_seq, time, owned = connection.execute(query).one()
    if start is None or (end - start, last_seq - first_seq) != (time, owned):
        return None
    return OwnedRun(start, end, first_seq, last_seq)


def _begins(connection: sa.Connection, source: str) -> list[OwnedRun]:
    """The intervals that do not follow another one, in order of time."""
    columns = closed_interval.c
    before = closed_interval.alias().c
    follows = (before.end_at == columns.start_at) & (before.last_seq == columns.first_seq)
    is_first = ~sa.exists().where((before.source == source) & follows)
    query = sa.select(columns.start_at, columns.end_at, columns.first_seq, columns.last_seq)
    query = query.where((columns.source == source) & is_first).order_by(columns.start_at)
    return [OwnedRun(*row) for row in connection.execute(query)]


def _last_before(connection: sa.Connection, source: str, time: int | None) -> OwnedRun:
    """The last interval that starts before a time, or of all."""
    columns = closed_interval.c
    mine = columns.source == source if time is None else (columns.source == source) & (columns.start_at < time)
    query = sa.select(columns.start_at, columns.end_at, columns.first_seq, columns.last_seq).where(mine)
    return OwnedRun(*connection.execute(query.order_by(columns.start_at.desc()).limit(1)).one())


class PublishedLedger(Ledger):
    """What has been committed, by interval and table."""

    def put(self, given: PublishedInterval) -> None:
        """Stores a note of a commit; publishing an interval again replaces its note."""
        with writing(self._engine) as connection:
            store_note(connection, given)

    def get(self, source: str, interval_start: int, table: str) -> PublishedInterval | None:
        """The note of one table (`full_names.py`) in one interval."""
        columns = published_interval.c
        rows = self._select(
            (columns.source == source) & (columns.start_at == interval_start) & (columns.table_name == table)
        )
        return rows[0] if rows else None

    def list(self, source: str, table: str | None = None) -> Sequence[PublishedInterval]:
        """All notes of a source or of one of its tables, by time and table."""
        condition = published_interval.c.source == source
        if table is not None:
            condition &= published_interval.c.table_name == table
        return self._select(condition)

    def of_table(self, source: str, database: str, table: str) -> Sequence[PublishedInterval]:
        """All notes of one table, by time.

        If a database has a dot in its name, a note of an older version of Strata counts for its table as long as the
        ledger knows no other table that the note could mean.
        """
        name, plain = full_name(database, table), f"{database}.{table}"
        notes = {note.interval_start: note for note in self.list(source, name)}
        first, _, rest = plain.partition(".")
        if name != plain and (first, rest) not in TableIntervalLedger(self._engine).names(source):
            notes = {**{note.interval_start: note for note in self.list(source, plain)}, **notes}
        return [notes[start] for start in sorted(notes)]

    def newest(self, source: str) -> dict[str, int]:
        """The newest version of each change table that is known to have been committed."""
        columns = published_interval.c
        query = sa.select(columns.table_name, sa.func.max(columns.delta_version)).where(columns.source == source)
        # By the source, too: MySQL reads one entry of `published_interval_version` for each table only then.
        query = query.group_by(columns.source, columns.table_name)
        return {name: int(version) for name, version in self._rows(query)}

    def _select(self, condition: sa.ColumnElement[bool]) -> Sequence[PublishedInterval]:
        order = (published_interval.c.start_at, published_interval.c.table_name)
        query = sa.select(*published_interval.c).where(condition).order_by(*order)
        return [_published(row) for row in self._rows(query)]


def store_note(connection: sa.Connection, given: PublishedInterval) -> None:
    """Stores a note of a commit, in the transaction of the caller."""
    key = {"source": given.source, "start_at": given.interval_start, "table_name": given.table}
    values = {
        "delta_version": given.delta_version,
        "rows": given.rows,
        "published_at": given.published_at,
        "details": to_column(given.details),
    }
    upsert(connection, published_interval, key, values)


def _published(row: sa.Row[Any]) -> PublishedInterval:
    *fields, text = tuple(row)
    details = from_column(text, PublishedDetails, "published_interval.details")
    return PublishedInterval(**dict(zip(PublishedInterval.__struct_fields__, (*fields, details), strict=True)))
