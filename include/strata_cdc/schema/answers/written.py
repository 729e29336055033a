"""How statements wrote a table, as far as SHOW CREATE TABLE repeats it: followed through the statements of its history.
Not here: the statement that contains it (`create_statements.py`), facts that decide about rows (`schema/apply/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.changes import (
    AddColumn,
    AddKey,
    AlterTable,
    ChangeColumn,
    CreateTable,
    DropColumn,
    DropKey,
    RenameColumn,
    RenameKey,
    SetDefault,
)
from strata_cdc.schema.ddl.create import column_keys
from strata_cdc.schema.model.create_sql import AsWritten, shown_keys
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep, Change, WrittenColumn, WrittenKey
    from strata_cdc.schema.model.definition import Key, TableDefinition


def written_after(before: AsWritten, after: TableDefinition, statements: Sequence[Change]) -> AsWritten:
    """How the table is written after a statement.

    Args:
        before: How it was written before.
        after: The table's definition after the statement.
        statements: The changes that the statement requested.
    """
    steps = [step for change in statements if isinstance(change, AlterTable) for step in change.steps]
    created = [change for change in statements if isinstance(change, CreateTable)]
    collated, without = set(before.collated or ()), set(before.without_default)
    for change in created:
        collated = {fold_name(column.name) for column in change.columns if _is_collated(column)}
        without = set()
    renames = {fold_name(old): fold_name(new) for old, new in _renamed(steps)}
    collated, without = ({renames.get(name, name) for name in names} for names in (collated, without))
    for step in steps:
        _follow(step, collated, without)
    present = {fold_name(column.name) for column in after.columns}
    is_known = before.collated is not None or bool(created)
    return AsWritten(
        _order_after(before.key_order, after, steps, created),
        frozenset(collated & present) if is_known else None,
        frozenset(without & present),
    )


def _renamed(steps: Iterable[AlterStep]) -> list[tuple[str, str]]:
    """All renames at once: names may be swapped."""
    return [(step.old, step.new) for step in steps if isinstance(step, RenameColumn)]


def _follow(step: AlterStep, collated: set[str], without: set[str]) -> None:
    if isinstance(step, (AddColumn, ChangeColumn)):
        old = step.old if isinstance(step, ChangeColumn) else step.column.name
        for names in (collated, without):
            names.discard(fold_name(old))
        if _is_collated(step.column):
            collated.add(fold_name(step.column.name))
    elif isinstance(step, SetDefault):
        change = without.add if step.default is None else without.discard
        change(fold_name(step.name))
    elif isinstance(step, DropColumn):
        collated.discard(fold_name(step.name))


def _is_collated(column: WrittenColumn) -> bool:
    # BINARY after a type chooses a collation, but it does not count as a written collation.
    return column.collation is not None or column.type.charset is not None


def _order_after(
    before: Sequence[str], after: TableDefinition, steps: Sequence[AlterStep], created: Sequence[CreateTable]
) -> tuple[str, ...]:
    """Names of the keys in the order in which the server keeps them: first the keys that stay, then the new ones as
    written."""
    renamed = {fold_name(step.old): step.new for step in steps if isinstance(step, RenameKey)}
    dropped = {fold_name(step.name) for step in steps if isinstance(step, DropKey)}
    stay = [renamed.get(fold_name(name), name) for name in before if not created and fold_name(name) not in dropped]
    known = {fold_name(name) for name in stay}
    present = {fold_name(key.name): key for key in after.keys}
    added = [key for change in created for key in change.keys] + _added_keys(steps)
    new = [key for folded, key in present.items() if folded not in known]
    ordered = [name for name in stay if fold_name(name) in present]
    ordered += [key.name for key in sorted(new, key=lambda key: _place(key, added))]
    return tuple(key.name for key in shown_keys(after, ordered))


def _added_keys(steps: Iterable[AlterStep]) -> list[WrittenKey]:
    added: list[WrittenKey] = []
    for step in steps:
        if isinstance(step, AddKey):
            added.append(step.key)
        elif isinstance(step, (AddColumn, ChangeColumn)):
            added += column_keys(step.column)
    return added


def _place(key: Key, written: Sequence[WrittenKey]) -> int:
    """The index of a key among the written ones: by its name or, if it has no name, by its columns."""
    folded = fold_name(key.name)
    columns = [part.column and fold_name(part.column) for part in key.parts]
    for ordinal, named in enumerate(written):
        if named.name is not None and fold_name(named.name) == folded:
            return ordinal
    for ordinal, named in enumerate(written):
        if named.name is None and [part.column and fold_name(part.column) for part in named.parts] == columns:
            return ordinal
    return len(written)
