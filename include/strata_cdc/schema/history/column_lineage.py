"""Which column of a table behind an ALTER was which before it.
Not here: what becomes of their values (`effects.py`), columns over many statements (`identified_tables.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.changes import AddColumn, ChangeColumn, RenameColumn
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from strata_cdc.schema.ddl.changes import AlterStep
    from strata_cdc.schema.model.definition import Column, TableDefinition


def renamed_columns(steps: Iterable[AlterStep]) -> dict[str, str]:
    """New name -> old name, of columns that a statement renames."""
    found: dict[str, str] = {}
    for step in steps:
        if isinstance(step, RenameColumn):
            found[step.new] = step.old
        elif isinstance(step, ChangeColumn) and fold_name(step.old) != fold_name(step.column.name):
            found[step.column.name] = step.old
    return found


def added_columns(steps: Iterable[AlterStep]) -> frozenset[str]:
    """Names of the columns that a statement adds."""
    return frozenset(step.column.name for step in steps if isinstance(step, AddColumn))


def column_origins(
    before: Sequence[str], after: Sequence[str], renamed: Mapping[str, str], added: Iterable[str]
) -> list[int | None]:
    """Where each column of a newer definition was in the older one; None for a new one.

    Args:
        before: Names of the older definition's columns, in order.
        after: Those of the newer one.
        renamed: New name -> old name.
        added: New columns, also where the older definition has one of the name.
    """
    sources = {fold_name(name): fold_name(source) for name, source in renamed.items()}
    # A column that was renamed is not the one that has its former name now.
    new = {fold_name(name) for name in added} | (set(sources.values()) - sources.keys())
    places = {fold_name(name): at for at, name in enumerate(before)}
    if not new and not sources:
        return [places.get(fold_name(name)) for name in after]
    return [None if (name := fold_name(one)) in new else places.get(sources.get(name, name)) for one in after]


class ColumnLineage:
    """Which column of a newer definition was which of an older one."""

    def __init__(
        self, before: TableDefinition, after: TableDefinition, renamed: Mapping[str, str], added: Iterable[str]
    ) -> None:
        old, new = ([column.name for column in one.columns] for one in (before, after))
        places = column_origins(old, new, renamed, added)
        self.origins: list[tuple[Column, Column | None]] = [
            (column, None if place is None else before.columns[place])
            for column, place in zip(after.columns, places, strict=True)
        ]
        """Each column of the newer definition, in order, with what it was before; None for a new one."""
        self.kept = [(old, new) for new, old in self.origins if old is not None]
        self.added = [new for new, old in self.origins if old is None]
        self.dropped = tuple(column.name for at, column in enumerate(before.columns) if at not in places)
