"""Columns that are one column under all of their names: of their table, and of themselves.
Not here: tables through their names (`lineage.py`), what single statements rename (`renames.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.history.lineage import online_changes
from strata.schema.history.renames import column_renames
from strata.schema.model.definition import TableName
from strata.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from strata.schema.history.renames import Renames
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import StoredEntry
    from strata.schema.model.definition import TableDefinition

Names = set[tuple[TableName, str]]
"""All that one column was called, with what its table was called then."""


def columns_by_name(store: SchemaStore, source: str, tables: Collection[TableName]) -> list[Names]:
    """Every column that some tables ever had, with all names that it had in the lives of these tables.

    A column goes on where its name does, and where a statement renames it. A table goes on where a statement renames
    it, and where a tool swaps a changed copy in.

    Args:
        store: The store.
        source: The source.
        tables: Names of tables; what their tables were called before is looked up, too.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    entries = _with_former_names(store, source, tables)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    renames = column_renames(store, entries, online_changes(store, source, entries))
    lives = _Lives()
    for entry in sorted(entries, key=lambda entry: entry.order):
        definition = store.definition(entry.fingerprint) if entry.fingerprint else None
        lives.take(entry, definition, renames.get((entry.version_id, entry.name), {}))
    return lives.columns()


def _with_former_names(store: SchemaStore, source: str, tables: Iterable[TableName]) -> list[StoredEntry]:
    found: list[StoredEntry] = []
    new = set(tables)
    seen: set[TableName] = set()
    while new:
        seen |= new
        entries = store.timeline(source, new)
        found += entries
        new = {entry.renamed_from for entry in entries if entry.renamed_from is not None} - seen
    return found


class _Lives:
    """The columns of each name, along a history."""

    def __init__(self) -> None:
        self._names: list[Names] = []
        self._same: list[int] = []
        """By the number of a life, that of one which turned out to be the same."""
        self._now: dict[TableName, dict[str, int]] = {}
        """By the folded name of a column."""
        self._of_this_version: dict[TableName, dict[str, int]] = {}
        self._version_id = 0

    def columns(self) -> list[Names]:
        """All lives so far."""
        return [names for at, names in enumerate(self._names) if self._same[at] == at]

    def take(self, entry: StoredEntry, definition: TableDefinition | None, renames: Renames) -> None:
        """The next entry. Tables swap their names within one version."""
        if entry.version_id != self._version_id:
            self._now |= self._of_this_version
            self._of_this_version, self._version_id = {}, entry.version_id
        if definition is None and entry.gap is not None:
            # What is not known goes on as it was, as far as anybody can tell.
            return
        # Of two tables that change places nobody can tell what a reader takes for the same column: both are.
        former = [entry.name, *([entry.renamed_from] if entry.renamed_from else [])]
        lives = [self._now[name] for name in former if name in self._now]
        old = {fold_name(new): name for name, new in renames.items()}
        here: dict[str, int] = {}
        for column in definition.columns if definition else ():
            folded = fold_name(column.name)
            # A name that a statement gave away is another column's from then on.
            before = old.get(folded, "" if folded in renames else folded)
            # A copy that is swapped in has the new name already.
            here[folded] = self._joined(
                [
                    life[before if before in life else folded]
                    for life in lives
                    if before in life or (folded in life and life is not lives[0])
                ]
            )
            self._names[here[folded]].add((entry.name, column.name))
        self._of_this_version[entry.name] = here

    def _joined(self, lives: Sequence[int]) -> int:
        """One life of several, a new one of none."""
        found = [self._end(life) for life in lives]
        if not found:
            self._names.append(set())
            self._same.append(len(self._same))
            return len(self._same) - 1
        first = found[0]
        for other in found[1:]:
            if other != first:
                self._names[first] |= self._names[other]
                self._same[other] = first
        return first

    def _end(self, life: int) -> int:
        while self._same[life] != life:
            life = self._same[life]
        return life
