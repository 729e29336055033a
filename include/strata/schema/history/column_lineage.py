"""Which column of a table behind an ALTER was which before it.
Not here: what becomes of their values (`effects.py`), columns over many statements (`renames.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata.schema.ddl.changes import AddColumn, ChangeColumn, RenameColumn
from strata.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata.schema.ddl.changes import AlterStep
    from strata.schema.model.definition import Column, TableDefinition


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


class Lineage:
    """Which column of a newer definition was which of an older one."""

    def __init__(
        self, before: TableDefinition, after: TableDefinition, renamed: Mapping[str, str], added: Iterable[str]
    ) -> None:
        sources = {fold_name(name): fold_name(source) for name, source in renamed.items()}
        taken = set(sources.values())
        fresh = {fold_name(name) for name in added}
        old = {fold_name(column.name): column for column in before.columns}
        self.origins: list[tuple[Column, Column | None]] = []
        """Each column of the newer definition, in order, with what it was before; None for a new one."""
        for column in after.columns:
            name = fold_name(column.name)
            source = sources.get(name, name)
            is_new = name in fresh or source not in old or (name not in sources and name in taken)
            self.origins.append((column, None if is_new else old[source]))
        self.kept = [(old, new) for new, old in self.origins if old is not None]
        self.added = [new for new, old in self.origins if old is None]
        kept = {one.name for one, _ in self.kept}
        self.dropped = tuple(column.name for column in before.columns if column.name not in kept)
