"""Adds what versions of a former Strata lack, by a replay of the store's content: the ids of columns, and the effects
on rows.
Not here: deciding either (`identified_tables.py`, `effects.py`).
"""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa
from msgspec import Struct, field

from strata_cdc.errors import DdlError
from strata_cdc.schema.ddl.changes import RemoveRows
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.effects import effect_of_removal
from strata_cdc.schema.history.entry_rows import stored_entries
from strata_cdc.schema.history.identified_tables import IdentifiedTables
from strata_cdc.schema.history.name_columns import names_from_column
from strata_cdc.schema.history.partition_changes import partition_changes
from strata_cdc.schema.history.partition_lifetimes import PartitionedTables
from strata_cdc.schema.history.statements import requested_changes
from strata_cdc.schema.history.versions import StoredEntry, TableChange
from strata_cdc.schema.model.column_ids import ColumnIds
from strata_cdc.schema.model.row_effects import RowEffect, effects_to_text, read_again
from strata_cdc.store.database import read_rows, reading, writing
from strata_cdc.store.tables import row_removal, table_version, tracked_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import PartitionChange
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning

_PAGE: Final = 1000
"""Number of versions whose statements and definitions are read at once."""


def lacks_decisions(entries: Iterable[StoredEntry]) -> bool:
    """Whether some entries have columns without ids, or have no effect on rows."""
    return any(
        entry.effect_text is None or (entry.fingerprint is not None and entry.column_ids is None) for entry in entries
    )


def complete_versions(engine: sa.Engine, store: VersionStore, source: str) -> None:
    """Stores ids and effects for everything of a source that has none. Two runs at the same time store the same.

    Args:
        store: Returns definitions.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: The user may not write.
    """
    is_done = False
    while not is_done:
        is_done = _try_to_complete(engine, store, source)


def _try_to_complete(engine: sa.Engine, store: VersionStore, source: str) -> bool:
    """Returns False if a tracker has stored something in between."""
    position = tracked_position.c
    with reading(engine) as connection:
        query = sa.select(position.revision, position.last_column_id).where(position.source == source)
        row = connection.execute(query).one_or_none()
    if row is None:
        return True
    entries = stored_entries(engine, source, sa.true())
    replay = _StoreReplay(
        engine,
        store,
        IdentifiedTables(max([row.last_column_id or 0, *_ids_of(entries)])),
        list(partition_changes(engine, source)),
    )
    versions = replay.versions(entries)
    removals = replay.removals(source)
    mine = (position.source == source) & (position.revision == row.revision)
    with writing(engine) as connection:
        moved = tracked_position.update().where(mine).values(last_column_id=replay.tables.last_id)
        if connection.execute(moved).rowcount != 1:
            return False
        _update(connection, table_version, versions, "column_ids", "effect")
        _update(connection, row_removal, removals, "effects")
    return True


def _update(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]], *names: str) -> None:
    """Updates some columns of existing rows; the parameters for their keys begin with `of_`."""
    if rows:
        own = [column == sa.bindparam(f"of_{column.name}") for column in table.primary_key]
        values: dict[Any, Any] = {table.c[name]: sa.bindparam(f"to_{name}") for name in names}
        connection.execute(table.update().where(*own).values(values), rows)


def _ids_of(entries: Iterable[StoredEntry]) -> Iterator[int]:
    for entry in entries:
        yield from ColumnIds.from_text(entry.column_ids).ids if entry.column_ids else ()


class _StoreReplay(Struct):
    """A replay of all that a store has of a source."""

    engine: sa.Engine
    store: VersionStore
    tables: IdentifiedTables
    changes: list[PartitionChange]
    """In stream order; those that were replayed are removed."""
    partitioned: PartitionedTables = field(default_factory=PartitionedTables)
    partitions: dict[tuple[int, int], Partitioning | str] = field(default_factory=dict)
    """The partitions of a table before a statement, by its transaction and offset."""

    def versions(self, entries: Sequence[StoredEntry]) -> list[dict[str, Any]]:
        """The keys of rows that lack something, with the missing values."""
        rows: list[dict[str, Any]] = []
        self.changes.reverse()
        versions = (list(group) for _, group in groupby(entries, key=lambda entry: entry.version_id))
        while page := list(islice(versions, _PAGE)):
            self.store.load_definitions(entry.fingerprint for version in page for entry in version if entry.fingerprint)
            requested = requested_changes(
                self.engine, (version[0].version_id for version in page if version[0].is_statement)
            )
            for version in page:
                first = version[0]
                self._change_partitions(first.seq + 1 if first.statement_no else first.seq)
                given = [_table_entry(self.store, entry) for entry in version]
                decided = self.tables.apply(given, requested.get(first.version_id, ()), first.origin)
                self.partitioned.apply(given, requested.get(first.version_id, ()), first.origin)
                rows += [
                    {
                        "of_version_id": entry.version_id,
                        "of_database_name": entry.name.database,
                        "of_table_name": entry.name.table,
                        "to_column_ids": None if table.columns is None else table.columns.to_text(),
                        "to_effect": table.effect.to_text(),
                    }
                    for entry, table in zip(version, decided, strict=True)
                    if lacks_decisions([entry])
                ]
        self._change_partitions(None)
        return rows

    def _change_partitions(self, before: int | None) -> None:
        """Applies the changes of partitions in transactions before one; None: in all."""
        while self.changes and (before is None or self.changes[-1].seq < before):
            change = self.changes.pop()
            self.partitions[change.seq, change.binlog_pos] = self.partitioned.change(change)

    def removals(self, source: str) -> list[dict[str, Any]]:
        """The same for statements that removed rows; call it after `versions`."""
        removal = row_removal.c
        query = sa.select(removal.seq, removal.binlog_pos, removal.tables, removal.statement)
        rows = read_rows(self.engine, query.where(removal.source == source, removal.effects.is_(None)))
        return [
            {
                "of_source": source,
                "of_seq": seq,
                "of_binlog_pos": binlog_pos,
                "to_effects": effects_to_text(
                    _removal(statement, table, self.partitions.get((seq, binlog_pos), ""))
                    for table in names_from_column(tables, "row_removal.tables")
                ),
            }
            for seq, binlog_pos, tables, statement in rows
        ]


def _table_entry(store: VersionStore, entry: StoredEntry) -> TableChange:
    definition = store.definition(entry.fingerprint) if entry.fingerprint else None
    return TableChange(entry.name, definition, entry.gap, entry.renamed_from, entry.columns, entry.effect)


def _removal(statement: str, table: TableName, partitioning: Partitioning | str) -> RowEffect:
    """The effect of a statement on one of the tables that it names."""
    try:
        changes = read_ddl(statement, DdlContext(table.database, 0))
    except DdlError:
        changes = ()
    removal = next((change for change in changes if isinstance(change, RemoveRows)), None)
    if removal is None:
        return read_again(f"`{statement}` removed rows, and no log says which")
    return effect_of_removal(removal, table, partitioning)
