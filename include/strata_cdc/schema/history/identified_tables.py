"""Decides which columns are the same column. Every column gets an id when it is added, and keeps it through all names
of the column, its table and its database. Only this module decides it.
With the ids it also decides the effect of a version on the rows of its tables, at the time of tracking.
Not here: the ids as values (`schema/model/column_ids.py`), the effect of one statement (`effects.py`), the ids in older
stores (`older_versions.py`).

| a column | its id |
|---|---|
| of ALTER TABLE: kept, moved, changed, renamed | the same id |
| of ADD COLUMN, even if a column of this name is dropped | a new id |
| of CREATE TABLE | a new id |
| of CREATE TABLE ... LIKE, and of the copy that an online change makes | a new id, and of which column it is a copy |
| of such a copy that is swapped in | the id of the table's column of which it is a copy |
| of the table that was swapped away for the copy | a new id, and of which column it is a copy |
| without a statement (a snapshot, the end of a gap) | the id of the column that had the name |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    CreateTableLike,
    RenameColumn,
)
from strata_cdc.schema.ddl.fitting import fitting
from strata_cdc.schema.history.effects import effect_of, makes_cascade
from strata_cdc.schema.history.swaps import copied_table, is_swap
from strata_cdc.schema.history.versions import EVERY_TABLE, UNDECIDED, VersionOrigin, every_table_of
from strata_cdc.schema.model.column_ids import ColumnIds
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.row_effects import NO_EFFECT, read_again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry, TableChange
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.row_effects import RowEffect

Renames = dict[str, str]
"""From the folded name of a column to its later name as written. Columns that keep their names are not in it."""


class IdentifiedTable(Struct, frozen=True):
    """A table with the ids of its columns."""

    definition: TableDefinition
    columns: ColumnIds
    is_known: bool = True
    """Whether it is known now; if False, this is its last known definition."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return _names(self.definition)


def renames_between(before: IdentifiedTable | None, after: IdentifiedTable | None) -> Renames:
    """The columns that have another name in a later version; none if one of the two does not exist."""
    if before is None or after is None:
        return {}
    later = dict(zip(after.columns.ids, after.names, strict=True))
    pairs = ((name, later.get(column)) for column, name in zip(before.columns.ids, before.names, strict=True))
    return {fold_name(old): new for old, new in pairs if new is not None and fold_name(old) != fold_name(new)}


class IdentifiedTables:
    """All tables of a source with the ids of their columns, at one position of its stream."""

    def __init__(self, last_id: int = 0, stored: Callable[[TableName], IdentifiedTable | None] | None = None) -> None:
        """Begins at the end of the stored versions.

        Args:
            last_id: The newest id that was assigned.
            stored: Returns what is known of a table by then; called when a version names it. None if nothing is stored.
        """
        self.last_id = last_id
        self._stored = stored
        self._tables: dict[TableName, IdentifiedTable | None] = {}
        self._forgotten: set[str] = set()
        """Databases whose stored tables are not known any more; '' for all databases."""

    def get(self, name: TableName) -> IdentifiedTable | None:
        """A table that exists; if its definition is not known now, its last known definition."""
        if name not in self._tables:
            table = self._stored(name) if self._stored is not None else None
            is_forgotten = not self._forgotten.isdisjoint({"", name.database})
            self._tables[name] = replace(table, is_known=False) if table is not None and is_forgotten else table
        return self._tables[name]

    def apply(
        self,
        entries: Sequence[TableChange],
        changes: Sequence[Change] = (),
        origin: VersionOrigin = VersionOrigin.DDL,
    ) -> tuple[TableChange, ...]:
        """The tables of the next version, with the ids of their columns and the effect on their rows.

        Args:
            entries: All entries of one version; those that have ids or an effect keep them.
            changes: The changes that the version's statement requested; empty if no statement made the version.
            origin: How the version became known.
        """
        # A snapshot's facts about the past, at the position of a gap, do not remove anything that is known since then.
        is_of_the_past = origin is VersionOrigin.RELOAD
        if not is_of_the_past:
            for entry in entries:
                if not entry.name.table:
                    self._forget(entry.name.database)
        identified = tuple(
            replace(entry, columns=self._identify(entry, entry.definition, entries, changes))
            if entry.definition is not None and entry.columns is None
            else entry
            for entry in entries
        )
        cascades = makes_cascade(changes)
        decided = tuple(
            entry
            if entry.effect is not UNDECIDED
            else replace(entry, effect=self._effect(entry, changes, cascades=cascades))
            for entry in identified
        )
        # Names are swapped within one version.
        self._tables |= {
            entry.name: self._after(entry)
            for entry in decided
            if entry.name.table and not (is_of_the_past and entry.gap is not None)
        }
        return decided

    def _forget(self, database: str) -> None:
        """Marks the definitions of all tables, or of those of a database, as not known any more."""
        self._forgotten.add(database)
        for name, table in self._tables.items():
            if table is not None and database in {"", name.database}:
                self._tables[name] = replace(table, is_known=False)

    def _after(self, entry: TableChange) -> IdentifiedTable | None:
        if entry.definition is not None and entry.columns is not None:
            return IdentifiedTable(entry.definition, entry.columns)
        table = None if entry.gap is None else self.get(entry.renamed_from or entry.name)
        return None if table is None else replace(table, is_known=False)

    def _effect(self, entry: TableChange, changes: Sequence[Change], *, cascades: bool) -> RowEffect:
        """The effect of a version on the rows of one of its tables."""
        effect = self._effect_on_rows(entry, changes)
        is_there = bool(entry.name.table) and (entry.definition is not None or entry.gap is not None)
        return replace(effect, makes_cascade=True) if cascades and is_there else effect

    def _effect_on_rows(self, entry: TableChange, changes: Sequence[Change]) -> RowEffect:
        if entry.gap is not None:
            return read_again(entry.gap)
        if not entry.name.table:
            return NO_EFFECT
        before = self.get(entry.renamed_from or entry.name)
        if before is not None and not before.is_known:
            before = None
        origins = None if before is None or entry.columns is None else entry.columns.origins_in(before.columns)
        return effect_of(
            None if before is None else before.definition,
            entry.definition,
            changes,
            origins=origins,
            name=entry.name,
            came_from=entry.renamed_from,
        )

    def _identify(
        self, entry: TableChange, after: TableDefinition, entries: Sequence[TableChange], changes: Sequence[Change]
    ) -> ColumnIds:
        for change in changes:
            if isinstance(change, (CreateTable, CreateTableLike)) and change.name.lower() == entry.name.lower():
                return self._made(entry.name, after, change)
        before = self.get(entry.renamed_from or entry.name)
        if any(is_swap(entry, other) for other in entries):
            return self._swapped_in(after, before, self.get(entry.name))
        if before is not None and any(is_swap(other, entry) for other in entries):
            return self._copied(before.columns.ids)
        alters = [change for change in changes if isinstance(change, AlterTable)]
        if before is not None:
            alters = [fitting(alter, before.definition) for alter in alters]
        return self._kept(after, before, [step for alter in alters for step in alter.steps])

    def _made(self, name: TableName, after: TableDefinition, change: CreateTable | CreateTableLike) -> ColumnIds:
        if isinstance(change, CreateTableLike):
            original = self.get(change.like) or self.get(change.like.lower())
            # It may have been a temporary table of that name.
            if original is not None and original.definition.columns == after.columns:
                return self._copied(original.columns.ids)
        base = copied_table(name)
        table = self.get(base) if base is not None else None
        return self._copied(_of_names(table, after) if table is not None else [None] * len(after.columns))

    def _copied(self, sources: Sequence[int | None]) -> ColumnIds:
        return ColumnIds(tuple(self._new_id() for _ in sources), tuple(sources))

    def _kept(self, after: TableDefinition, before: IdentifiedTable | None, steps: Sequence[AlterStep]) -> ColumnIds:
        if before is None:
            return self._copied([None] * len(after.columns))
        names, renamed, added = _names(after), _renamed(steps), _added(steps)
        if names == before.names and not renamed and not added:
            return before.columns
        ids, sources = before.columns.ids, before.columns.copied_from
        origins = _origins(before.names, names, renamed, added)
        return ColumnIds(
            tuple([self._new_id() if origin is None else ids[origin] for origin in origins]),
            tuple([None if origin is None else sources[origin] for origin in origins]),
        )

    def _swapped_in(
        self, after: TableDefinition, copy: IdentifiedTable | None, table: IdentifiedTable | None
    ) -> ColumnIds:
        """The columns of a table that is replaced by its changed copy."""
        if copy is None or table is None:
            return self._kept(after, copy or table, ())
        known = dict(zip(table.columns.ids, table.columns.copied_from, strict=True))
        sources = [source if source in known else None for source in copy.columns.copied_from]
        if not any(sources):
            # The copy was made before the history begins, from the table as it was then.
            sources = _of_names(table, after)
        ids = tuple(source or own for source, own in zip(sources, copy.columns.ids, strict=True))
        return ColumnIds(ids, tuple(known.get(column) for column in ids))

    def _new_id(self) -> int:
        self.last_id += 1
        return self.last_id


def stored_table(
    store: VersionStore, source: str, name: TableName, before: tuple[int, int, int] | None = None
) -> IdentifiedTable | None:
    """The last stored state of a table; None if it does not exist.

    Args:
        before: Only entries before this one in `StoredEntry.order` count.
    """
    is_known = True
    for entry in reversed(store.timeline(source, {name, every_table_of(name.database), EVERY_TABLE})):
        if before is not None and entry.order[:3] >= before:
            continue
        if entry.name.table and entry.gap is None:
            table = identified(store, entry)
            return table if table is None or is_known else replace(table, is_known=False)
        is_known = is_known and not entry.name.table and entry.origin is VersionOrigin.RELOAD
        if entry.gap is not None and entry.renamed_from is not None:
            table = stored_table(store, source, entry.renamed_from, entry.order[:3])
            return table and replace(table, is_known=False)
    return None


def identified(store: VersionStore, entry: StoredEntry) -> IdentifiedTable | None:
    """The table of an entry; None if it has no definition."""
    columns = entry.columns
    return (
        None
        if entry.fingerprint is None or columns is None
        else IdentifiedTable(store.definition(entry.fingerprint), columns)
    )


def _names(definition: TableDefinition) -> tuple[str, ...]:
    return tuple([column.name for column in definition.columns])


def _of_names(table: IdentifiedTable, after: TableDefinition) -> list[int | None]:
    """For each column of a new definition, the id of the table's column with its name; None if there is none."""
    origins = _origins(table.names, _names(after), {}, ())
    return [None if origin is None else table.columns.ids[origin] for origin in origins]


def _renamed(steps: Iterable[AlterStep]) -> dict[str, str]:
    """New name -> old name, for columns that a statement renames."""
    renamed: dict[str, str] = {}
    for step in steps:
        if isinstance(step, RenameColumn):
            renamed[step.new] = step.old
        elif isinstance(step, ChangeColumn) and fold_name(step.old) != fold_name(step.column.name):
            renamed[step.column.name] = step.old
    return renamed


def _added(steps: Iterable[AlterStep]) -> frozenset[str]:
    """Names of the columns that a statement adds."""
    return frozenset(step.column.name for step in steps if isinstance(step, AddColumn))


def _origins(
    before: Sequence[str], after: Sequence[str], renamed: Mapping[str, str], added: Iterable[str]
) -> list[int | None]:
    """The index of each column of a newer definition in the older one; None for a new column.

    Args:
        before: Names of the older definition's columns, in order.
        after: Names of the newer definition's columns.
        renamed: New name -> old name.
        added: New columns, even if the older definition has a column of this name.
    """
    sources = {fold_name(name): fold_name(source) for name, source in renamed.items()}
    # A renamed column is not the column that has its former name now.
    new = {fold_name(name) for name in added} | (set(sources.values()) - sources.keys())
    ordinals = {fold_name(name): at for at, name in enumerate(before)}
    if not new and not sources:
        return [ordinals.get(fold_name(name)) for name in after]
    return [
        None if (name := fold_name(old_name)) in new else ordinals.get(sources.get(name, name)) for old_name in after
    ]
