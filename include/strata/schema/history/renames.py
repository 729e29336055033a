"""Columns through their names: what RENAME COLUMN and CHANGE make of a table, which two definitions do not tell.
Not here: tables through their names (`lineage.py`), reading the statements (`statements.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.ddl.changes import AlterTable, ChangeColumn, RenameColumn
from strata.schema.history.statements import changes_asked
from strata.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from strata.schema.ddl.changes import Change
    from strata.schema.history.lineage import OnlineChange, Part
    from strata.schema.history.sql_store import SchemaStore
    from strata.schema.history.versions import StoredEntry

Renames = dict[str, str]
"""From the name of a column, folded, to its later name as it is written. A column that keeps its name is not in it."""


def renames_of(statement: Iterable[Change]) -> Renames:
    """What one statement renames, all at once: two columns may swap their names."""
    return {fold_name(old): new for old, new in _renamed(statement) if fold_name(old) != fold_name(new)}


def follow(before: Renames, later: Renames) -> Renames:
    """The renames of two statements, the second behind the first, as one."""
    found = {old: later.get(fold_name(new), new) for old, new in before.items()}
    taken = {fold_name(new) for new in before.values()}
    # A column whose name the first has given away, or that it has renamed, is not the one that the second means.
    found |= {old: new for old, new in later.items() if old not in taken and old not in before}
    return {old: new for old, new in found.items() if old != fold_name(new)}


def _renamed(statement: Iterable[Change]) -> Iterator[tuple[str, str]]:
    for change in statement:
        for step in change.steps if isinstance(change, AlterTable) else ():
            if isinstance(step, RenameColumn):
                yield step.old, step.new
            elif isinstance(step, ChangeColumn):
                yield step.old, step.column.name


def column_renames(
    store: SchemaStore, entries: Sequence[StoredEntry], online: Mapping[Part, OnlineChange]
) -> dict[Part, Renames]:
    """What entries of a history rename, by version and name; of an online change what was done to its copy.

    Args:
        store: The store.
        entries: The entries.
        online: The online changes among them.
    """
    found: dict[Part, Renames] = {}
    for part, statements in statements_of(store, entries, online).items():
        for statement in statements:
            if names := renames_of(statement):
                found[part] = follow(found.get(part, {}), names)
    return found


def statements_of(
    store: SchemaStore, entries: Sequence[StoredEntry], online: Mapping[Part, OnlineChange]
) -> dict[Part, list[tuple[Change, ...]]]:
    """What the statements of entries asked for, in order; of an online change those on its copy.

    Args:
        store: The store.
        entries: The entries.
        online: The online changes among them.
    """
    made_by: dict[Part, list[int]] = {}
    for entry in entries:
        part = (entry.version_id, entry.name)
        change = online.get(part)
        copied = sorted(number for number, name in change.parts if name == change.copy) if change else []
        made_by[part] = [number for number in copied if number != entry.version_id] if change else [entry.version_id]
    asked = changes_asked(store.engine, (number for numbers in made_by.values() for number in numbers))
    return {part: [asked[number] for number in numbers if number in asked] for part, numbers in made_by.items()}
