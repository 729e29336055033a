"""Which columns of a run's tables hold values that must not be shown: by the settings, under all names of the column.
Not here: hiding the values (`quality/checks/sensitive.py`), the settings (`config/settings.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.one_column import columns_by_name
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.patterns import matches, matches_column
from strata_cdc.selection.wanted import folds_names
from strata_cdc.unforeseen import may_pass, what_happened

_WILD = frozenset("*?[")

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import sqlalchemy as sa

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.selection.failing import FailingTables


def sensitive_columns(source: Source, engine: sa.Engine, tables: Iterable[TableName]) -> dict[str, tuple[str, ...]]:
    """The sensitive columns of some tables, by `database.table`; tables without sensitive columns are not in it.

    A column is sensitive under every name that it or its table ever had, if the settings match one of these names."""
    patterns = source.settings.sensitive
    if not patterns:
        return {}
    store = SchemaStore(engine)
    folded = folds_names(source.name, engine)
    named = [pattern.rpartition(".")[0] for pattern in patterns]
    planned = set(tables)
    renamed = store.renamed_tables(source.name)
    # A table that has, or had, another name may be a table that the settings name.
    candidates = {table for table in planned if table in renamed or matches(table, named, folded=folded)}
    candidates |= {table for table in renamed if matches(table, named, folded=folded)}
    sensitive: dict[str, set[str]] = {}
    for names in columns_by_name(store, source.name, candidates):
        if any(matches_column(table, column, patterns, folded=folded) for table, column in names):
            for table, column in names:
                if table in planned:
                    sensitive.setdefault(str(table), set()).add(column)
    return {table: tuple(sorted(columns)) for table, columns in sorted(sensitive.items())}


def sensitive_of_each(
    source: Source, engine: sa.Engine, tables: Collection[TableName], failing: FailingTables
) -> dict[str, tuple[str, ...]]:
    """As `sensitive_columns`, of all tables but those that fail: if one fails, each table is computed alone."""
    try:
        return sensitive_columns(source, engine, tables)
    except Exception as error:
        if may_pass(error):
            raise
    sensitive: dict[str, tuple[str, ...]] = {}
    for table in sorted(tables):
        with failing.note(table):
            sensitive |= sensitive_columns(source, engine, [table])
    return sensitive


def unmatched_columns(source: Source, engine: sa.Engine) -> list[str]:
    """Messages about `sensitive` patterns that name a table and match no column that it ever had: values that
    somebody wants hidden are shown."""
    spelled = [pattern for pattern in source.settings.sensitive if not _WILD & set(pattern.rpartition(".")[0])]
    if not spelled:
        return []
    store, folded = SchemaStore(engine), folds_names(source.name, engine)
    known = store.tables(source.name)
    if not known:
        return []
    named = [pattern.rpartition(".")[0] for pattern in spelled]
    tables = [table for table in known if matches(table, named, folded=folded)]
    try:
        columns = [place for names in columns_by_name(store, source.name, tables) for place in names]
    except Exception as error:
        if may_pass(error):
            raise
        return [f"sensitive: it is not known whether each pattern matches a column: {what_happened(error)}"]
    return [
        f'sensitive: "{pattern}" matches no column that the history knows, and hides nothing'
        for pattern in spelled
        if not any(matches_column(table, column, (pattern,), folded=folded) for table, column in columns)
    ]
