"""What a stream's reader names and no source has: the stream would be empty, without a message.
Not here: patterns of runs and of the settings (`wanted.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.fields import near_names
from strata_cdc.schema.history.one_column import columns_by_name
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.schema.model.patterns import matches
from strata_cdc.selection.wanted import folds_names, no_match
from strata_cdc.store.database import OnMissing, open_store

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName

_AT_ONCE: Final = 100
"""Tables whose versions are read at once: most names are columns of the first ones."""


def unmatched_names(sources: Iterable[Source], patterns: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Messages about patterns that match no table that some sources ever had, and about names that no column of the
    matching tables ever had; none if nothing of a source is tracked.

    Args:
        sources: The sources.
        patterns: Patterns of `database.table`; empty for all tables.
        columns: Names of columns; empty for all.
    """
    tables: set[TableName] = set()
    met: set[str] = set()
    names: dict[str, str] = {}
    for source in sources:
        engine = open_store(source.store_url, OnMissing.EMPTY)
        try:
            store, folded = SchemaStore(engine), folds_names(source.name, engine)
            known = [table for table in store.tables(source.name) if table.database not in SYSTEM_DATABASES]
            if not known:
                return []
            tables.update(known)
            met |= {
                pattern for pattern in patterns if any(matches(table, (pattern,), folded=folded) for table in known)
            }
            if columns:
                wanted = [table for table in known if not patterns or matches(table, patterns, folded=folded)]
                _add_columns(names, store, source.name, wanted, columns)
        finally:
            engine.dispose()
    # Without a table there is no column, and one message is enough.
    missed = [no_match(pattern, tables) for pattern in patterns if pattern not in met]
    return missed or [_no_column(column, names) for column in columns if fold_name(column) not in names]


def _add_columns(
    names: dict[str, str], store: SchemaStore, source: str, tables: Collection[TableName], columns: Sequence[str]
) -> None:
    """Adds the names of columns that tables ever had, until it has the given ones."""
    for some in _batches(sorted(tables)):
        if all(fold_name(column) in names for column in columns):
            return
        for known in columns_by_name(store, source, some):
            names |= {fold_name(name): name for _, name in known}


def _batches(tables: Sequence[TableName]) -> Iterator[Sequence[TableName]]:
    for at in range(0, len(tables), _AT_ONCE):
        yield tables[at : at + _AT_ONCE]


def _no_column(column: str, names: Mapping[str, str]) -> str:
    near = near_names(column, names.values())
    return f'no table has or had a column "{column}"' + (f": do you mean {near[0]}?" if near else "")
