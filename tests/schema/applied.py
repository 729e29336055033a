"""Differences of two definitions, applied to the older one: the result must be the newer one.
Not here: the differences (`schema/apply/diff.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from strata_cdc.schema.apply.diff import (
    ColumnAdded,
    ColumnChanged,
    ColumnRemoved,
    ColumnRenamed,
    ColumnsReordered,
    KeyAdded,
    KeyChanged,
    KeyRemoved,
    TableFactChanged,
)
from strata_cdc.schema.apply.keys import in_order
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.apply.diff import Difference
    from strata_cdc.schema.model.definition import Column, TableDefinition


def applied(definition: TableDefinition, differences: Iterable[Difference]) -> TableDefinition:
    """The result of applying `differences` to the definition from which they were computed."""
    differences = list(differences)
    renamed = {
        fold_name(difference.before.name): difference.after
        for difference in differences
        if isinstance(difference, ColumnRenamed)
    }
    removed = {fold_name(difference.column.name) for difference in differences if isinstance(difference, ColumnRemoved)}
    # All at once, as in the statement: names may be swapped, and given to others.
    names = ((fold_name(column.name), column) for column in definition.columns)
    columns = [renamed.get(name, column) for name, column in names if name not in removed]
    keys = {fold_name(key.name): key for key in definition.keys}
    facts: dict[str, Any] = {}
    for difference in differences:
        match difference:
            case KeyRemoved(key):
                del keys[fold_name(key.name)]
            case KeyAdded(key) | KeyChanged(_, key):
                keys[fold_name(key.name)] = key
            case TableFactChanged(fact, _, after):
                facts[fact] = after
            case ColumnRemoved() | ColumnRenamed():
                continue
            case _:
                columns = _with(columns, difference)
    return replace(definition, columns=tuple(columns), keys=in_order(keys.values()), **facts)


def _with(columns: list[Column], difference: ColumnAdded | ColumnChanged | ColumnsReordered) -> list[Column]:
    names = [fold_name(column.name) for column in columns]
    match difference:
        case ColumnChanged(before, after):
            ordinal = names.index(fold_name(before.name))
            return [*columns[:ordinal], after, *columns[ordinal + 1 :]]
        case ColumnAdded(column, after_name):
            ordinal = 0 if after_name is None else names.index(fold_name(after_name)) + 1
            return [*columns[:ordinal], column, *columns[ordinal:]]
        case ColumnsReordered(order):
            return [columns[names.index(fold_name(name))] for name in order]
