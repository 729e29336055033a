"""Columns that are the same column under all of their names: names of the column and of its table.
Not here: tables through their names (`lineage.py`), the ids of columns (`identified_tables.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.identified_tables import identified
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from strata_cdc.schema.history.identified_tables import IdentifiedTable
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import StoredEntry

Names = set[tuple[TableName, str]]
"""All names of one column, each with the name of its table at that time."""


def columns_by_name(store: SchemaStore, source: str, tables: Collection[TableName]) -> list[Names]:
    """Every column that some tables ever had, with all names that it had in the lifetimes of these tables.

    A column continues where its id does. It also continues in a table that replaces its own table, if that table has a
    column of its name.

    Args:
        tables: Names of tables; the former names of their tables are looked up too.
    """
    entries = _with_former_names(store, source, tables)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    columns = _NamesOfColumns()
    for entry in sorted(entries, key=lambda entry: entry.order):
        # A column that is not known continues as it was, as far as that can be known.
        if entry.gap is None:
            columns.add(entry, identified(store, entry))
    return columns.names()


def _with_former_names(store: SchemaStore, source: str, tables: Iterable[TableName]) -> list[StoredEntry]:
    former_names: list[StoredEntry] = []
    new = set(tables)
    seen: set[TableName] = set()
    while new:
        seen |= new
        entries = store.timeline(source, new)
        former_names += entries
        new = {entry.renamed_from for entry in entries if entry.renamed_from is not None} - seen
    return former_names


class _NamesOfColumns:
    """All names of each column, along a history."""

    def __init__(self) -> None:
        self._names: dict[int, Names] = {}
        """By id."""
        self._same: dict[int, int] = {}
        """By id, another id that turned out to be the same column."""
        self._now: dict[TableName, dict[str, int]] = {}
        """Ids by the folded names of columns."""
        self._of_this_version: dict[TableName, dict[str, int]] = {}
        self._version_id = 0

    def names(self) -> list[Names]:
        """All columns so far."""
        return [names for number, names in self._names.items() if number not in self._same]

    def add(self, entry: StoredEntry, table: IdentifiedTable | None) -> None:
        """Adds the next entry, with its table if it exists. Tables swap their names within one version."""
        if entry.version_id != self._version_id:
            self._now |= self._of_this_version
            self._of_this_version, self._version_id = {}, entry.version_id
        here: dict[str, int] = {}
        for name, number in zip(table.names, table.columns.ids, strict=True) if table is not None else ():
            here[fold_name(name)] = number
            self._names.setdefault(self._end(number), set()).add((entry.name, name))
        self._of_this_version[entry.name] = here
        # If two tables exchange names, it is not known which column a reader takes for the same column: both are
        # joined.
        for former in (entry.name, entry.renamed_from) if entry.renamed_from is not None else ():
            self._join(self._now.get(former, {}), here)

    def _join(self, before: Mapping[str, int], here: Mapping[str, int]) -> None:
        """Treats columns of one name as the same column, unless their ids show that they continue elsewhere."""
        gone, new = set(before.values()) - set(here.values()), set(here.values()) - set(before.values())
        for name, number in here.items():
            if number in new and before.get(name) in gone:
                self._unite(number, before[name])

    def _unite(self, left: int, other: int) -> None:
        first, second = self._end(left), self._end(other)
        if first != second:
            self._names[first] |= self._names[second]
            self._same[second] = first

    def _end(self, number: int) -> int:
        while number in self._same:
            number = self._same[number]
        return number
