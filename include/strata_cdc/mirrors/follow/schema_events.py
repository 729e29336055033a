"""What happens to each table of a source except changes of rows, in stream order: DDL, and rows that are in no log.
Not here: what that does to a mirror (`mirrors/apply_ddl.py`), how far changes are published (`published.py`)."""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.schema.history.cascades import UNLOGGED, unlogged_cascades
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.table_changes import removals_of, table_changes_of
from strata_cdc.schema.model.engines import discards_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from strata_cdc.mirrors.table import Mirror
    from strata_cdc.schema.history.versions import TableChange
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.row_effects import RowEffect


EventOrder = tuple[int, int, int]
"""`seq`, number of the statement in the transaction, id of the version."""


class SchemaEvent(Struct, frozen=True):
    """One event: a change of the table, a removal of rows, or the reason why its rows are not known from here on."""

    order: EventOrder
    change: TableChange | None = None
    removal: RowEffect | None = None
    lost: str | None = None

    @property
    def seq(self) -> int:
        """Ordinal of its transaction."""
        return self.order[0]

    @property
    def is_statement(self) -> bool:
        """Whether it is a transaction of its own; otherwise it is before the transaction."""
        return self.change is None or self.order[1] > 0

    @property
    def ends_rows(self) -> bool:
        """Whether the rows before it do not matter after it: the table is dropped, renamed or emptied."""
        if self.change is not None:
            return self.change.definition is None and self.change.gap is None
        return self.removal is not None and self.removal.is_whole

    @property
    def begins_rows(self) -> bool:
        """Whether the rows after it are known, whatever was before it."""
        change = self.change
        if change is not None and change.definition is not None and discards_rows(change.definition):
            return True
        effect = self.removal if change is None else change.effect
        return effect is not None and (effect.makes_table or effect.is_whole)

    @property
    def before(self) -> int:
        """Ordinal of the last transaction before it."""
        return self.seq - 1

    @property
    def after(self) -> int:
        """Ordinal of the last transaction once it has happened; 0 for what was there when the stream began."""
        return self.seq if self.is_statement else max(self.seq - 1, 0)


class SchemaEvents:
    """The events of all tables of a source."""

    def __init__(self, engine: sa.Engine, source: str) -> None:
        store = SchemaStore(engine)
        self._of: dict[TableName, list[SchemaEvent]] = {}
        for change in table_changes_of(engine, source):
            seq, statement, version = change.order
            self._add(change.name, SchemaEvent((seq, statement, version), change=change))
        for removal in removals_of(engine, source):
            # Before the version that the same statement may make: DROP PARTITION makes one, TRUNCATE does not.
            self._add(removal.name, SchemaEvent((removal.seq, 0, AFTER_ALL), removal=removal.effect))
        self._add_lost(store, source)
        self._unlogged = {unlogged_cascade.name: UNLOGGED for unlogged_cascade in unlogged_cascades(engine, source)}
        for events in self._of.values():
            events.sort(key=lambda event: event.order)

    def tables(self) -> list[TableName]:
        """All tables that ever existed, by name."""
        return sorted(self._of)

    def of_table(self, table: TableName) -> Sequence[SchemaEvent]:
        """The events of a table, in order."""
        return self._of.get(table, [])

    def is_there(self, table: TableName) -> bool:
        """Whether the server has the table at the end of what is tracked, and its definition is known."""
        changes = [event.change for event in self.of_table(table) if event.change is not None]
        return bool(changes) and changes[-1].definition is not None

    def up_to(self, seq: int) -> SchemaEvents:
        """The same without what happened after a transaction."""
        made = copy(self)
        made._of = {  # noqa: SLF001  a copy of this value
            table: [event for event in events if event.after <= seq] for table, events in self._of.items()
        }
        return made

    def unlogged(self, table: TableName) -> str | None:
        """Why the log may lack some changes of a table's rows; None if it has all."""
        return self._unlogged.get(table)

    def change_at(self, table: TableName, seq: int, version_id: int) -> SchemaEvent | None:
        """The last change of the table at the position of its mirror.

        Args:
            table: The table.
            seq: Ordinal of the mirror's last transaction.
            version_id: Its schema version; 0 if it is not known.
        """
        changes = [event for event in self.of_table(table) if event.change is not None]
        known = next(
            (change for change in changes if change.change is not None and change.change.version_id == version_id), None
        )
        if known is not None:
            return known
        at = bisect_right(changes, seq, key=lambda change: change.after)
        return changes[at - 1] if at else None

    def same_rows(self, table: TableName, version_id: int) -> frozenset[int]:
        """This version of a table and those before it from which no statement changed rows or columns: a row of one of
        them is a row of this one.

        On MariaDB, such statements may come between the XA PREPARE of rows and their XA COMMIT: a restart keeps the
        locks of the rows, but not the metadata locks of their tables.
        """
        versions: set[int] = set()
        for event in reversed(self.of_table(table)):
            change = event.change
            if not versions and (change is None or change.version_id != version_id):
                continue
            if change is None:
                break
            versions.add(change.version_id)
            if event.begins_rows or change.renamed_from is not None or not change.effect.keeps_rows:
                break
        return frozenset(versions)

    def since(self, mirror: Mirror) -> tuple[TableChange | None, list[SchemaEvent]]:
        """The last change at the position of a mirror, and the events after it."""
        events, position = self.of_table(mirror.table), mirror.position
        now = self.change_at(mirror.table, position.seq, position.schema_version)
        order = (position.seq, AFTER_ALL, 0) if now is None else now.order
        if mirror.is_dropped:
            coming = [event for event in events if event.order > order]
        else:
            coming = [
                event
                for event in events
                if (event.order > order if event.change is not None else event.seq > position.seq)
            ]
        return (None if now is None else now.change), coming

    def _add(self, table: TableName, event: SchemaEvent) -> None:
        self._of.setdefault(table, []).append(event)

    def _add_lost(self, store: SchemaStore, source: str) -> None:
        """Adds changes that were logged as statements, and statements that were not understood."""
        position = store.position(source)
        for change in store.statement_changes(source, 0, position.seq if position else 0):
            reason = f"`{change.statement[:80]}` was logged as a statement, so that the binlog does not have the rows"
            self._lose(change.tables or tuple(self._of), (change.seq, 0, 0), reason)
        for entry in store.all_entries(source):
            if entry.gap is not None and not entry.name.table:
                database = entry.name.database
                tables = tuple(name for name in self._of if database in ("", name.database))
                self._lose(tables, (entry.seq, entry.statement_no, entry.version_id), entry.gap)

    def _lose(self, tables: Sequence[TableName], order: EventOrder, reason: str) -> None:
        for table in tables:
            self._add(table, SchemaEvent(order, lost=reason))
