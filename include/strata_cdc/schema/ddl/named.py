"""The tables and databases that DDL names, whether they exist or not.
Not here: the effect on them (`schema/replay/catalog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.changes import (
    AlterDatabase,
    AlterTable,
    ConvertPartition,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropDatabase,
    DropTables,
    DropViews,
    RemoveRows,
    RenameTables,
    Unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.model.definition import TableName


def named_tables(changes: Iterable[Change]) -> set[TableName]:
    """The tables and views that a change affects, including those that lose rows."""
    return {name for change in changes for name in _tables(change)}


def named_databases(changes: Iterable[Change]) -> set[str]:
    """The databases that a change affects, or whose tables it affects."""
    databases = set()
    for change in changes:
        databases |= {name.database for name in _tables(change)}
        if isinstance(change, CreateDatabase | AlterDatabase | DropDatabase | Unreadable) and change.database:
            databases.add(change.database)
    return databases


def _tables(change: Change) -> tuple[TableName, ...]:
    match change:
        case CreateTable() | CreateTableLike() | CreateView() | ConvertPartition():
            return (change.name,)
        case AlterTable():
            return (change.name,) if change.new_name is None else (change.name, change.new_name)
        case RenameTables():
            return tuple(name for pair in change.pairs for name in pair)
        case DropTables() | DropViews() | RemoveRows():
            return change.names
        case Unreadable():
            return change.tables
        case CreateDatabase() | AlterDatabase() | DropDatabase():
            return ()
