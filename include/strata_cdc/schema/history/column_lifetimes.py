"""The lifetimes of a table's columns: which columns of two versions are the same column, by their ids.
Not here: the values (`schema/model/lifetimes.py`), tables through their names (`lineage.py`), the ids
(`identified_tables.py`)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.identified_tables import identified
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.lifetimes import ColumnLifetime, ColumnLifetimes, ColumnStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strata_cdc.schema.history.identified_tables import IdentifiedTable
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName


class _Growing(Struct):
    id: int
    steps: list[ColumnStep]
    ended: int | None = None


def find_column_lifetimes(store: SchemaStore, entries: Sequence[StoredEntry]) -> tuple[ColumnLifetimes, ...]:
    """The lifetimes of a table's columns, for each table that has had the name, in stream order.

    Args:
        entries: All entries of the table, as returned by `lineage`.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    moved = {(entry.version_id, entry.renamed_from) for entry in entries if entry.renamed_from is not None}
    # Leaving an old name does not end a table.
    left = {(entry.version_id, entry.name) for entry in entries if (entry.version_id, entry.name) in moved}
    entries = [
        entry
        for entry in entries
        if entry.fingerprint or (entry.name.table and (entry.version_id, entry.name) not in left)
    ]
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    tables: list[_GrowingLifetime] = []
    named: dict[TableName, _GrowingLifetime] = {}
    for _, version in groupby(entries, key=lambda entry: entry.version_id):
        # Names are swapped within one version.
        before = dict(named)
        for entry in version:
            table = identified(store, entry)
            own = _table_of(entry, table, before)
            if own is None:
                own = _GrowingLifetime()
                tables.append(own)
            if table is not None:
                own.add(entry.version_id, table)
            _name(named, entry, own)
    lifetimes_of_tables = [table.lifetimes() for table in tables if table.versions]
    return tuple(sorted(lifetimes_of_tables, key=lambda lifetime: lifetime.versions[-1]))


def _table_of(
    entry: StoredEntry, table: IdentifiedTable | None, before: Mapping[TableName, _GrowingLifetime]
) -> _GrowingLifetime | None:
    """The table that an entry continues; None if it is another table than those before."""
    own = before.get(entry.name)
    if entry.renamed_from in {None, entry.name} or (own is not None and own.has_some_of(table)):
        return own
    return None if own is not None else before.get(entry.renamed_from)


def _name(named: dict[TableName, _GrowingLifetime], entry: StoredEntry, table: _GrowingLifetime) -> None:
    """Gives a table the name of an entry, and removes its former name."""
    former = entry.renamed_from
    if former is not None and named.get(former) is table:
        del named[former]
    named[entry.name] = table
    if entry.fingerprint is None and entry.gap is None:
        del named[entry.name]


class _GrowingLifetime:
    """A lifetime, which grows entry by entry."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self._columns: list[_Growing] = []

    def has_some_of(self, table: IdentifiedTable | None) -> bool:
        """Whether a table has columns that this table has now: then it is a changed copy that was swapped in."""
        ids = table.columns.ids if table is not None else ()
        return any(column.id in ids for column in self._columns if column.ended is None)

    def add(self, version: int, table: IdentifiedTable) -> None:
        """Adds the table as it is in a version."""
        if version in self.versions:
            return
        self.versions.append(version)
        definition = table.definition
        columns = dict(zip(table.columns.ids, definition.columns, strict=True))
        for known in self._columns:
            if known.ended is None:
                column = columns.pop(known.id, None)
                if column is None:
                    known.ended = version
                elif (step := _step(version, column, definition)) != _step_of(known, version):
                    known.steps.append(step)
        self._columns += [_Growing(number, [_step(version, column, definition)]) for number, column in columns.items()]

    def lifetimes(self) -> ColumnLifetimes:
        """The lifetime so far."""
        return ColumnLifetimes(
            tuple(self.versions), tuple(ColumnLifetime(tuple(column.steps), column.ended) for column in self._columns)
        )


def _step(version: int, column: Column, definition: TableDefinition) -> ColumnStep:
    key = [fold_name(name) for name in definition.primary_key]
    name = fold_name(column.name)
    parts = (
        column.column_type,
        column.character_set or "",
        "" if column.nullable else "not null",
        # The value of a generated column may differ after any statement.
        f"generated {version}" if column.generated else "",
        f"key {key.index(name)}" if name in key else "",
    )
    return ColumnStep(version, column.name, "|".join(parts), name in key)


def _step_of(column: _Growing, version: int) -> ColumnStep:
    last = column.steps[-1]
    return ColumnStep(version, last.name, last.kind, last.is_key)
