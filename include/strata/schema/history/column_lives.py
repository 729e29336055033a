"""A table's columns through their lives: which column of one version is which of another, by what DDL says.
Not here: the values that say it (`schema/model/lives.py`), tables through their names (`lineage.py`), what statements
rename (`renames.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.schema.ddl.changes import AddColumn, AlterTable, DropColumn
from strata.schema.history.lineage import online_changes
from strata.schema.history.renames import renames_of, statements_of
from strata.schema.history.versions import Origin
from strata.schema.model.folding import fold_name
from strata.schema.model.lives import ColumnLife, ColumnStep, TableLife

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata.schema.ddl.changes import Change
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import StoredEntry
    from strata.schema.model.definition import Column, TableDefinition


class _Growing(Struct):
    steps: list[ColumnStep]
    ended: int | None = None

    @property
    def name(self) -> str:
        return self.steps[-1].name


def column_lives(store: SchemaStore, source: str, entries: Sequence[StoredEntry]) -> tuple[TableLife, ...]:
    """The lives of a table's columns, for each table that has had the name, in stream order.

    Where no statement tells (a snapshot, the end of a gap) columns of one name are taken for one column.

    Args:
        store: The store.
        source: The source's name.
        entries: All of the table, as `lineage` gives them.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    moved = {(entry.version_id, entry.renamed_from) for entry in entries if entry.renamed_from is not None}
    # What a table leaves behind under its old name is no end of it.
    left = {(entry.version_id, entry.name) for entry in entries if (entry.version_id, entry.name) in moved}
    entries = [
        entry
        for entry in entries
        if entry.fingerprint or (entry.name.table and (entry.version_id, entry.name) not in left)
    ]
    online = online_changes(store, source, entries)
    parts = {part for change in online.values() for part in change.parts}
    # Of the first it does not matter, and most tables have no other.
    statements = statements_of(store, entries[1:], online) if entries[1:] else {}
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    found: list[_Table] = []
    before: StoredEntry | None = None
    for entry in entries:
        key = (entry.version_id, entry.name)
        if key in parts and key not in online:
            continue
        definition = store.definition(entry.fingerprint) if entry.fingerprint else None
        if _is_new(before, entry, is_online=key in online):
            found.append(_Table())
        if definition is not None:
            found[-1].take(entry, definition, statements.get(key, ()))
        before = entry
    return tuple(one.life() for one in found if one.versions)


def _is_new(before: StoredEntry | None, entry: StoredEntry, *, is_online: bool) -> bool:
    """Whether another table begins to have the name."""
    if before is None:
        return True
    is_gone = before.fingerprint is None and before.gap is None
    came = entry.renamed_from is not None and entry.renamed_from != before.name
    return is_gone or (came and not is_online)


class _Table:
    """A life that grows entry by entry."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self._columns: list[_Growing] = []

    def take(self, entry: StoredEntry, definition: TableDefinition, statements: Sequence[Sequence[Change]]) -> None:
        version = entry.version_id
        if version in self.versions:
            return
        self.versions.append(version)
        names = {fold_name(column.name): column for column in definition.columns}
        ddl_statements = statements if entry.origin is Origin.DDL else ()
        for column in self._columns:
            if column.ended is None:
                name = _name_after(column.name, ddl_statements)
                one = None if name is None else names.pop(fold_name(name), None)
                if one is None:
                    column.ended = version
                elif (step := _step(version, one, definition)) != _step_of(column, version):
                    column.steps.append(step)
        self._columns += [_Growing([_step(version, one, definition)]) for one in names.values()]

    def life(self) -> TableLife:
        return TableLife(tuple(self.versions), tuple(ColumnLife(tuple(one.steps), one.ended) for one in self._columns))


def _step(version: int, column: Column, definition: TableDefinition) -> ColumnStep:
    key = [fold_name(name) for name in definition.primary_key]
    name = fold_name(column.name)
    parts = (
        column.column_type,
        column.character_set or "",
        "" if column.nullable else "not null",
        # What a generated column holds may be another value after any statement.
        f"generated {version}" if column.generated else "",
        f"key {key.index(name)}" if name in key else "",
    )
    return ColumnStep(version, column.name, "|".join(parts), name in key)


def _step_of(column: _Growing, version: int) -> ColumnStep:
    last = column.steps[-1]
    return ColumnStep(version, last.name, last.kind, last.is_key)


def _name_after(name: str, statements: Iterable[Sequence[Change]]) -> str | None:
    """What a column is called after some statements, one behind the other; None if it is dropped."""
    found: str | None = name
    for statement in statements:
        if found is None:
            break
        found = _name_after_one(found, statement)
    return found


def _name_after_one(name: str, statement: Sequence[Change]) -> str | None:
    renames, wanted = renames_of(statement), fold_name(name)
    if wanted in renames:
        return renames[wanted]
    steps = [step for change in statement if isinstance(change, AlterTable) for step in change.steps]
    dropped = {fold_name(step.name) for step in steps if isinstance(step, DropColumn)}
    added = {fold_name(step.column.name) for step in steps if isinstance(step, AddColumn)}
    taken = added.union(fold_name(new) for new in renames.values())
    return None if wanted in dropped or wanted in taken else name
