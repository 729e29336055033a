"""Which tables and columns of a stream a reader wants.
Not here: from which position on (`positions.py`), selecting from spans that were decoded for many readers
(`selection.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import TableName


class StreamFilter(Struct, frozen=True):
    """What a reader wants of the stream."""

    table: Callable[[TableName], bool]
    database: Callable[[str], bool]
    """Whether a database belongs to users."""
    columns: frozenset[str] | None = None
    """In lower case; None for all."""
    everything: bool = True
    """Whether the end of a transaction is wanted even if nothing else of the transaction is."""


def filter_of(
    tables: Sequence[str], columns: frozenset[str] | None, own: frozenset[str], *, folds_names: bool
) -> StreamFilter:
    """Makes the filter of a reader; it excludes databases that do not belong to users.

    Args:
        tables: Patterns of `database.table`; empty for all tables.
        columns: Names in lower case; None for all columns.
        own: Databases that belong to the store.
        folds_names: Whether the server ignores the case of names.
    """
    left_out = own | SYSTEM_DATABASES
    known: dict[TableName, bool] = {}

    def is_wanted(table: TableName) -> bool:
        is_chosen = known.get(table)
        if is_chosen is None:
            is_chosen = table.database not in left_out and (not tables or matches(table, tables, folded=folds_names))
            known[table] = is_chosen
        return is_chosen

    return StreamFilter(is_wanted, lambda name: name not in left_out, columns, everything=not tables)
