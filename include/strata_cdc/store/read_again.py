"""Tables whose mirrors stand until a dump has read their rows, and what has been tried of it.
Not here: finding them (`mirrors/follow/`), dumping them (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict

from strata_cdc.store.database import reading, writing
from strata_cdc.store.tables import read_again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class TableToRead(Struct, frozen=True):
    """One table that waits for a dump."""

    source: str
    database_name: str
    table_name: str
    seq: int | None
    """The mirror stands behind this transaction; None: there is no mirror."""
    reason: str
    noticed_at: int
    """Microseconds UTC."""
    tries: int = 0
    """Dumps that were begun for it."""
    tried_at: int | None = None
    """When the last of them began, microseconds UTC."""
    error: str | None = None
    """Why it failed; None: it is at work, or was killed."""

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database_name}.{self.table_name}"


class ReadAgainLedger:
    """All tables of a source that wait."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def notice(
        self, source: str, waiting: Iterable[TableToRead], judged: Collection[tuple[str, str]]
    ) -> tuple[TableToRead, ...]:
        """Takes over what was found of some tables; what is new of it is returned.

        Args:
            source: The source's name.
            waiting: Those that wait. What has been tried of one that stands where it stood is kept.
            judged: Databases and tables that were looked at; those of them that do not wait do so no more.
        """
        given = {(one.database_name, one.table_name): one for one in waiting}
        fresh: list[TableToRead] = []
        with writing(self._engine) as connection:
            query = sa.select(*read_again.c).where(read_again.c.source == source).with_for_update()
            known = {(one.database_name, one.table_name): one for one in map(_from_row, connection.execute(query))}
            for key in judged:
                now, before = given.get(key), known.get(key)
                if now is not None and before is not None and (now.seq, now.reason) == (before.seq, before.reason):
                    continue
                if before is not None:
                    connection.execute(read_again.delete().where(_is(source, *key)))
                if now is not None:
                    connection.execute(read_again.insert().values(asdict(now)))
                    fresh.append(now)
        return tuple(fresh)

    def begin(self, source: str, database: str, table: str, now: int) -> None:
        """A dump of it begins."""
        found = read_again.c
        self._change(source, database, table, tries=found.tries + 1, tried_at=now, error=None)

    def failed(self, source: str, database: str, table: str, error: str) -> None:
        """The dump has failed."""
        self._change(source, database, table, error=error)

    def done(self, source: str, database: str, table: str) -> None:
        """Its rows have been read."""
        with writing(self._engine) as connection:
            connection.execute(read_again.delete().where(_is(source, database, table)))

    def all(self, source: str) -> list[TableToRead]:
        """All that wait, by name."""
        found = read_again.c
        query = sa.select(*found).where(found.source == source).order_by(found.database_name, found.table_name)
        with reading(self._engine) as connection:
            return [_from_row(row) for row in connection.execute(query)]

    def _change(self, source: str, database: str, table: str, **values: Any) -> None:
        with writing(self._engine) as connection:
            connection.execute(read_again.update().where(_is(source, database, table)).values(values))


def _is(source: str, database: str, table: str) -> sa.ColumnElement[bool]:
    found = read_again.c
    return (found.source == source) & (found.database_name == database) & (found.table_name == table)


def _from_row(row: sa.Row[Any]) -> TableToRead:
    return TableToRead(*tuple(row))
