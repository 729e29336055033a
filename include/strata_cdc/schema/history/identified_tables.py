"""Which column is which: every column gets an id when it comes, and keeps it through all names of its own, of its table
and of its database. The one place that decides it.
Not here: the ids as values (`schema/model/column_ids.py`), those of older stores (`identify_versions.py`).

| a column | has |
|---|---|
| of ALTER TABLE: kept, moved, changed, renamed | the id that it had |
| of ADD COLUMN, also in place of a dropped one of the name | a new id |
| of CREATE TABLE | a new id |
| of CREATE TABLE ... LIKE, and of the copy that a tool for online changes makes | a new id, and whose copy it is |
| of such a copy that is swapped in | the id of the table's column that it is a copy of |
| of the table that was swapped away for it | a new id, and whose copy it is |
| where no statement tells (a snapshot, the end of a gap) | the id of the column that had the name |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import AlterTable, CreateTable, CreateTableLike
from strata_cdc.schema.history.column_lineage import added_columns, column_origins, renamed_columns
from strata_cdc.schema.history.swaps import copied_table, is_swap
from strata_cdc.schema.model.column_ids import ColumnIds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry, TableEntry
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class Identified(Struct, frozen=True):
    """A table with the ids of its columns."""

    definition: TableDefinition
    columns: ColumnIds

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns, in order."""
        return _names(self.definition)


class IdentifiedTables:
    """All tables of a source with the ids of their columns, at one place in its stream."""

    def __init__(self, last_id: int = 0, stored: Callable[[TableName], Identified | None] | None = None) -> None:
        """Begins where something else has stopped.

        Args:
            last_id: The newest id that was given.
            stored: What is known of a table by then, asked when a version names it; None where nothing is.
        """
        self.last_id = last_id
        self._stored = stored
        self._tables: dict[TableName, Identified | None] = {}

    def get(self, name: TableName) -> Identified | None:
        """A table that is there; where its definition is not known by now, as it was last."""
        if name not in self._tables:
            self._tables[name] = self._stored(name) if self._stored is not None else None
        return self._tables[name]

    def apply(self, entries: Sequence[TableEntry], asked: Sequence[Change] = ()) -> tuple[TableEntry, ...]:
        """The tables of the next version, with the ids of their columns.

        Args:
            entries: All of one version; those that have ids keep them.
            asked: What the version's statement asked for; nothing where none made it.
        """
        found = tuple(
            replace(entry, columns=self._identify(entry, entry.definition, entries, asked))
            if entry.definition is not None and entry.columns is None
            else entry
            for entry in entries
        )
        # Names swap places within one version.
        self._tables |= {entry.name: self._after(entry) for entry in found if entry.name.table}
        return found

    def _after(self, entry: TableEntry) -> Identified | None:
        if entry.definition is not None and entry.columns is not None:
            return Identified(entry.definition, entry.columns)
        return None if entry.gap is None else self.get(entry.renamed_from or entry.name)

    def _identify(
        self, entry: TableEntry, after: TableDefinition, entries: Sequence[TableEntry], asked: Sequence[Change]
    ) -> ColumnIds:
        for change in asked:
            if isinstance(change, (CreateTable, CreateTableLike)) and change.name.lower() == entry.name.lower():
                return self._made(entry.name, after, change)
        before = self.get(entry.renamed_from or entry.name)
        if any(is_swap(entry, other) for other in entries):
            return self._swapped_in(after, before, self.get(entry.name))
        if before is not None and any(is_swap(other, entry) for other in entries):
            return self._copied(before.columns.ids)
        return self._kept(after, before, [step for one in asked if isinstance(one, AlterTable) for step in one.steps])

    def _made(self, name: TableName, after: TableDefinition, change: CreateTable | CreateTableLike) -> ColumnIds:
        if isinstance(change, CreateTableLike):
            original = self.get(change.like) or self.get(change.like.lower())
            # It may have been a temporary table of the name.
            if original is not None and original.definition.columns == after.columns:
                return self._copied(original.columns.ids)
        base = copied_table(name)
        table = self.get(base) if base is not None else None
        return self._copied(_of_names(table, after) if table is not None else [None] * len(after.columns))

    def _copied(self, sources: Sequence[int | None]) -> ColumnIds:
        return ColumnIds(tuple(self._new_id() for _ in sources), tuple(sources))

    def _kept(self, after: TableDefinition, before: Identified | None, steps: Sequence[AlterStep]) -> ColumnIds:
        if before is None:
            return self._copied([None] * len(after.columns))
        names, renamed, added = _names(after), renamed_columns(steps), added_columns(steps)
        if names == before.names and not renamed and not added:
            return before.columns
        ids, sources = before.columns.ids, before.columns.copied_from
        origins = column_origins(before.names, names, renamed, added)
        return ColumnIds(
            tuple([self._new_id() if origin is None else ids[origin] for origin in origins]),
            tuple([None if origin is None else sources[origin] for origin in origins]),
        )

    def _swapped_in(self, after: TableDefinition, copy: Identified | None, table: Identified | None) -> ColumnIds:
        """The columns of a table whose changed copy takes its place."""
        if copy is None or table is None:
            return self._kept(after, copy or table, ())
        known = dict(zip(table.columns.ids, table.columns.copied_from, strict=True))
        sources = [source if source in known else None for source in copy.columns.copied_from]
        if not any(sources):
            # It was made before anything is known of it, of the table as it was.
            sources = _of_names(table, after)
        ids = tuple(source or own for source, own in zip(sources, copy.columns.ids, strict=True))
        return ColumnIds(ids, tuple(known.get(column) for column in ids))

    def _new_id(self) -> int:
        self.last_id += 1
        return self.last_id


def stored_table(
    store: VersionStore, source: str, name: TableName, before: tuple[int, int, int] | None = None
) -> Identified | None:
    """What a store says last of a table that is there; None of one that is not.

    Args:
        store: The store.
        source: The source's name.
        name: The table.
        before: Only what comes earlier in `StoredEntry.order` counts.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    for entry in reversed(store.timeline(source, {name})):
        if before is not None and entry.order[:3] >= before:
            continue
        if entry.gap is not None and entry.renamed_from is not None:
            return stored_table(store, source, entry.renamed_from, entry.order[:3])
        if entry.gap is None:
            return identified(store, entry)
    return None


def identified(store: VersionStore, entry: StoredEntry) -> Identified | None:
    """The table of an entry; None where it has no definition."""
    columns = entry.columns
    return (
        None
        if entry.fingerprint is None or columns is None
        else Identified(store.definition(entry.fingerprint), columns)
    )


def _names(definition: TableDefinition) -> tuple[str, ...]:
    return tuple([column.name for column in definition.columns])


def _of_names(table: Identified, after: TableDefinition) -> list[int | None]:
    """The ids of a table's columns that have the names of others."""
    origins = column_origins(table.names, _names(after), {}, ())
    return [None if origin is None else table.columns.ids[origin] for origin in origins]
