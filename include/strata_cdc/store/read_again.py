"""Tables whose mirrors are blocked until a dump has read their rows, and the dumps that were tried.
Not here: finding them (`mirrors/follow/`), dumping them (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import asdict

from strata_cdc.store.database import Ledger, writing
from strata_cdc.store.tables import read_again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class TableToRead(Struct, frozen=True):
    """One table that waits for a dump."""

    source: str
    database_name: str
    table_name: str
    seq: int | None
    """The mirror is blocked after this transaction; None: there is no mirror."""
    reason: str
    noticed_at: int
    """Microseconds UTC."""
    tries: int = 0
    """Dumps that were begun for it."""
    tried_at: int | None = None
    """When the last of them began, microseconds UTC."""
    error: str | None = None
    """Why the last dump failed; None: it is running, or was killed."""

    @property
    def name(self) -> str:
        """`database.table`."""
        return f"{self.database_name}.{self.table_name}"


class ReadAgainLedger(Ledger):
    """All tables of a source that wait to be read again."""

    def notice(
        self, source: str, waiting: Iterable[TableToRead], judged: Collection[tuple[str, str]]
    ) -> tuple[TableToRead, ...]:
        """Stores which of some tables wait; returns those that are new.

        Args:
            waiting: The tables that wait. If a mirror is blocked at the same transaction as before, its tries are kept.
            judged: Databases and tables that were examined; those that are not in `waiting` wait no longer.
        """
        given = {(table.database_name, table.table_name): table for table in waiting}
        fresh: list[TableToRead] = []
        with writing(self._engine) as connection:
            query = sa.select(*read_again.c).where(read_again.c.source == source).with_for_update()
            known = {
                (table.database_name, table.table_name): table for table in map(_from_row, connection.execute(query))
            }
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
        """Stores that a dump of the table begins."""
        columns = read_again.c
        self._change(source, database, table, tries=columns.tries + 1, tried_at=now, error=None)

    def failed(self, source: str, database: str, table: str, error: str) -> None:
        """Stores that the dump has failed."""
        self._change(source, database, table, error=error)

    def done(self, source: str, database: str, table: str) -> None:
        """Stores that the table's rows have been read."""
        with writing(self._engine) as connection:
            connection.execute(read_again.delete().where(_is(source, database, table)))

    def all(self, source: str) -> list[TableToRead]:
        """All tables that wait, by name."""
        columns = read_again.c
        query = sa.select(*columns).where(columns.source == source).order_by(columns.database_name, columns.table_name)
        return [_from_row(row) for row in self._rows(query)]

    def _change(self, source: str, database: str, table: str, **values: Any) -> None:
        with writing(self._engine) as connection:
            connection.execute(read_again.update().where(_is(source, database, table)).values(values))


def _is(source: str, database: str, table: str) -> sa.ColumnElement[bool]:
    columns = read_again.c
    return (columns.source == source) & (columns.database_name == database) & (columns.table_name == table)


def _from_row(row: sa.Row[Any]) -> TableToRead:
    return TableToRead(*tuple(row))
