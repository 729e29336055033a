"""For each column of a table: the change since which it is as it is, and the statement of that change.
Not here: the changes one by one (`changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.apply.diff import ColumnAdded, ColumnChanged, ColumnRenamed, diff
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.answers.changes import ShownChange
    from strata_cdc.schema.apply.diff import Difference


class ColumnOrigin(Struct, frozen=True):
    """The changes that made a column what it is."""

    added: ShownChange
    """The change that added the column; the first known change of its table, if the column was there before."""
    changed: ShownChange
    """The last change of its type, name or other facts; `added` if there is none."""
    former_names: tuple[str, ...] = ()
    """Oldest first."""


def column_origins(changes: Iterable[ShownChange]) -> dict[str, ColumnOrigin]:
    """The origin of each column of a table at the end of some of its changes, by its name.

    Args:
        changes: Of one table, in stream order, from the first that is known.
    """
    origins: dict[str, ColumnOrigin] = {}
    for change in changes:
        if change.is_part and change.online is None:
            # Changes of a copy are shown with the swap.
            continue
        if change.after is None:
            origins = {}
        elif change.before is None or not origins:
            origins = {fold_name(column.name): ColumnOrigin(change, change) for column in change.after.columns}
        else:
            origins = _after(origins, change, diff(change.before, change.after, change.renames))
            known = {fold_name(column.name) for column in change.after.columns}
            origins = {name: origin for name, origin in origins.items() if name in known}
    return origins


def _after(
    before: dict[str, ColumnOrigin], change: ShownChange, differences: Iterable[Difference]
) -> dict[str, ColumnOrigin]:
    origins = dict(before)
    for difference in differences:
        if isinstance(difference, ColumnAdded):
            origins[fold_name(difference.column.name)] = ColumnOrigin(change, change)
        elif isinstance(difference, (ColumnChanged, ColumnRenamed)):
            old, name = before.get(fold_name(difference.before.name)), fold_name(difference.after.name)
            former = old.former_names if old else ()
            if isinstance(difference, ColumnRenamed):
                former = (*former, difference.before.name)
            origins[name] = ColumnOrigin(old.added if old else change, change, former)
    return origins
