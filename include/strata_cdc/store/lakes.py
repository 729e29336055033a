"""Which lake a source's rows are in: one row for each source.
Not here: the lake's own file, and comparing both (`lake/known_lake.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.store.database import Ledger, insert_if_absent, reading, writing
from strata_cdc.store.table_intervals import store_table_interval
from strata_cdc.store.tables import closed_interval, published_interval, source_lake, tracked_file, tracked_position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.store.table_intervals import TableInterval


class KnownLake(Struct, frozen=True):
    """What the store has of a source's lake."""

    lake: str
    is_written: bool
    """Whether the lake's own file is known to have the same id."""


class KnownPosition(Struct, frozen=True):
    """What had been executed up to and including a transaction."""

    seq: int
    gtid_executed: str
    clock: int
    """No later transaction was committed before this time, microseconds UTC."""


class LakeLedger(Ledger):
    """The lakes of all sources."""

    def get(self, source: str) -> KnownLake | None:
        """The lake of a source; None if both have not been used together yet."""
        columns = source_lake.c
        query = sa.select(columns.lake, columns.written).where(columns.source == source)
        return next((KnownLake(lake, bool(written)) for lake, written in self._rows(query)), None)

    def begin(self, source: str, lake: str, *, now: int) -> KnownLake | None:
        """Stores a source's lake, unless another process has; returns what is stored then."""
        values = {"source": source, "lake": lake, "noticed_at": now, "written": 0}
        with writing(self._engine) as connection:
            connection.execute(insert_if_absent(source_lake).values(values))
        return self.get(source)

    def note_written(self, source: str, lake: str) -> None:
        """Stores that the lake's own file has the same id."""
        same_lake = (source_lake.c.source == source) & (source_lake.c.lake == lake)
        with writing(self._engine) as connection:
            connection.execute(source_lake.update().where(same_lake).values(written=1))

    def replace(
        self, source: str, lake: str, lost: Iterable[tuple[int, str]], intervals: Iterable[TableInterval], *, now: int
    ) -> None:
        """Replaces a source's lake by another lake, whose file has to be written, and stores what that lake does not
        have.

        Args:
            lake: The id of the other lake.
            lost: Start of the interval and table (`full_names.py`) of published notes that are no longer true.
            intervals: The new states.
        """
        notes, same = published_interval.c, source_lake.c.source == source
        with writing(self._engine) as connection:
            for start, table in lost:
                same_note = (notes.source == source) & (notes.start_at == start) & (notes.table_name == table)
                connection.execute(published_interval.delete().where(same_note))
            for interval in intervals:
                store_table_interval(connection, interval)
            connection.execute(source_lake.delete().where(same))
            connection.execute(source_lake.insert().values(source=source, lake=lake, noticed_at=now, written=0))

    def reached_seq(self, source: str) -> int:
        """Ordinal of the last transaction that was tracked or that a closed interval owns; 0 if there is none."""
        owned, tracked = closed_interval.c, tracked_position.c
        last = sa.select(sa.func.max(owned.last_seq)).where(owned.source == source)
        read = sa.select(tracked.seq).where(tracked.source == source)
        return max(int(self._value(query) or 0) for query in (last, read))

    def places(self, source: str) -> list[KnownPosition]:
        """Ordinals at which the executed GTID set is known, in order: where files begin, and where intervals end."""
        file, owned = tracked_file.c, closed_interval.c
        begins = sa.select(file.first_seq - 1, file.gtid_before, sa.literal(0)).where(file.source == source)
        ends = sa.select(owned.last_seq, owned.gtid_executed, owned.end_at).where(owned.source == source)
        with reading(self._engine) as connection:
            known = [KnownPosition(*row) for query in (begins, ends) for row in connection.execute(query)]
        return sorted(known, key=lambda place: place.seq)

    def last_published(self, source: str) -> tuple[str, int] | None:
        """A table of the newest interval that has published rows, and the version that holds them."""
        columns = published_interval.c
        newest = sa.select(columns.table_name, columns.delta_version).where(columns.source == source)
        rows = self._rows(newest.order_by(columns.start_at.desc()).limit(1))
        return next(((name, int(version)) for name, version in rows), None)
