"""What of a stream a reader wants: which tables and columns.
Not here: from where on (`positions.py`), what of spans that were decoded for many (`selection.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.schema.model.definition import TableName


class StreamFilter(Struct, frozen=True):
    """What of the stream a reader wants."""

    table: Callable[[TableName], bool]
    database: Callable[[str], bool]
    """Whether a database is users'."""
    columns: frozenset[str] | None = None
    """In lower case; None for all."""
    everything: bool = True
    """Whether the boundaries of transactions are wanted that have nothing else."""


def filter_of(
    tables: Sequence[str], columns: frozenset[str] | None, own: frozenset[str], *, folds_names: bool
) -> StreamFilter:
    """What a reader asks for; databases that are no users' are left out.

    Args:
        tables: Patterns of `database.table`; none for all.
        columns: Names in lower case; None for all.
        own: Databases that are the store's.
        folds_names: Whether the server takes names of any case for the same.
    """
    left_out = own | SYSTEM_DATABASES
    known: dict[TableName, bool] = {}

    def is_wanted(table: TableName) -> bool:
        found = known.get(table)
        if found is None:
            found = table.database not in left_out and (not tables or matches(table, tables, folded=folds_names))
            known[table] = found
        return found

    return StreamFilter(is_wanted, lambda name: name not in left_out, columns, everything=not tables)
