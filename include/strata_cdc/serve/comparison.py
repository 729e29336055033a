"""Two versions of a table side by side, with columns followed through the names that they had in between.
Not here: which two (`table_page.py`), the differences themselves (`schema/apply/diff.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import Usage
from strata_cdc.schema.apply.diff import ColumnAdded, ColumnChanged, ColumnRemoved, ColumnRenamed, diff
from strata_cdc.schema.history.identified_tables import Identified, Renames, renames_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.answers.changes import ShownChange
    from strata_cdc.schema.apply.diff import Difference
    from strata_cdc.schema.model.definition import Column, TableDefinition


class SideBySide(Struct, frozen=True):
    """One line of a comparison."""

    sign: str
    """`+`, `-`, `~`, or a blank where both sides are the same."""
    before: Column | None
    after: Column | None


class VersionComparison(Struct, frozen=True):
    """Two versions of the table."""

    before: ShownChange
    after: ShownChange
    columns: tuple[SideBySide, ...]
    others: tuple[str, ...]
    """What differs besides columns."""
    effects: tuple[ShownChange, ...]
    """The changes in between that did something to the rows that were there, in stream order."""


_OF_COLUMNS = (ColumnAdded, ColumnRemoved, ColumnChanged, ColumnRenamed)


def compare(timeline: Sequence[ShownChange], first: int | None, second: int | None) -> VersionComparison | None:
    """Two versions of a table, the older one before the other whatever their order; None unless both are named.

    Args:
        timeline: The changes of the table, in stream order.
        first: Id of a version.
        second: Id of another.

    Raises:
        Usage: One of them is no version of this table.
    """
    if first is None or second is None:
        return None
    places = {change.entry.version_id: at for at, change in enumerate(timeline)}
    for version_id in (first, second):
        if version_id not in places:
            raise Usage(f"version {version_id} is none of this table")
    older, newer = sorted((places[first], places[second]))
    before, after = timeline[older], timeline[newer]
    between = timeline[older + 1 : newer + 1]
    columns, others = _side_by_side(before.after, after.after, renames_between(_identified(before), _identified(after)))
    effects = tuple(change for change in between if change.has_effect and change.effect.text)
    return VersionComparison(before, after, tuple(columns), tuple(others), effects)


def _identified(change: ShownChange) -> Identified | None:
    columns = change.entry.columns
    return None if change.after is None or columns is None else Identified(change.after, columns)


def _side_by_side(
    before: TableDefinition | None, after: TableDefinition | None, renames: Renames
) -> tuple[list[SideBySide], list[str]]:
    if before is None or after is None:
        gone = [SideBySide("-", column, None) for column in _columns(before)]
        return [*gone, *(SideBySide("+", None, column) for column in _columns(after))], []
    found = diff(before, after, renames)
    gone = [SideBySide("-", one.column, None) for one in found if isinstance(one, ColumnRemoved)]
    others = [str(one) for one in found if not isinstance(one, _OF_COLUMNS)]
    return [*gone, *_kept(after, found)], others


def _kept(after: TableDefinition, differences: Iterable[Difference]) -> list[SideBySide]:
    """The columns of the newer version, each beside what it was."""
    lines = {column.name: SideBySide(" ", column, column) for column in after.columns}
    for one in differences:
        if isinstance(one, ColumnAdded):
            lines[one.column.name] = SideBySide("+", None, one.column)
        elif isinstance(one, (ColumnChanged, ColumnRenamed)):
            lines[one.after.name] = SideBySide("~", one.before, one.after)
    return list(lines.values())


def _columns(definition: TableDefinition | None) -> tuple[Column, ...]:
    return definition.columns if definition is not None else ()
