"""Where mirrors are in the lake, and what their columns are.
Not here: where change tables are (`tables/layout.py`), what is in the files (`data_files.py`, `vectors.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.files.storage import list_folders
from strata_cdc.schema.model.definition import KeyKind, TableName
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.convert import exact_schema, state_schema
from strata_cdc.tables.layout import column_name, name_of_path, own_name, path_name
from strata_cdc.tables.verbatim import exact_names

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import Key, TableDefinition

SEQ: Final = "_seq"
"""The column with the transaction that changed the row last; NULL: the row comes from a dump."""
_LOCKS: Final = "_locks"
"""In the folder of the databases. No database has such a folder: `path_name` escapes a leading underscore."""


def mirror_url(lake: str, source: str, table: TableName) -> str:
    """The URL of a table's mirror."""
    return f"{mirrors_url(lake, source)}/{path_name(table.database)}/{path_name(table.table)}"


def mirrors_url(lake: str, source: str) -> str:
    """The folder of all mirrors of a source."""
    return f"{lake.rstrip('/')}/mirrors/{path_name(source)}"


def locks_url(lake: str, source: str) -> str:
    """The folder of the locks on a source's mirrors; not in the tables, because other programs clean these up."""
    return f"{mirrors_url(lake, source)}/{_LOCKS}"


def lock_name(table: TableName) -> str:
    """Name of the lock on a table's mirror, as a path."""
    return f"{path_name(table.database)}/{path_name(table.table)}"


def mirrored_tables(lake: str, source: str) -> list[TableName]:
    """The tables of a source that have a mirror, by name."""
    root = mirrors_url(lake, source)
    return sorted(
        TableName(name_of_path(database), name_of_path(table))
        for database in list_folders(root)
        if database != _LOCKS
        for table in list_folders(f"{root}/{database}")
    )


def mirror_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of a mirror: the table's own, under the names that they have in its change table, and `_seq`."""
    return state_schema(definition).append(pa.field(SEQ, pa.int64()))


def exact_mirror_schema(definition: TableDefinition) -> pa.Schema:
    """`mirror_schema` with the texts of values that columns do not hold: for rows of a mirror in memory."""
    return exact_schema(definition).append(pa.field(SEQ, pa.int64()))


def exact_key(definition: TableDefinition) -> tuple[str, ...]:
    """`key_columns` and their texts: no two keys on the server have the same values in all of them."""
    return exact_names(definition, key_columns(definition))


def key_columns(definition: TableDefinition) -> tuple[str, ...]:
    """Columns whose values identify a row: those of the primary key, else those of a unique key whose columns are never
    NULL. If there is neither, none: only a whole row identifies itself."""
    if definition.primary_key:
        return tuple(_names(definition, definition.primary_key))
    for key in definition.keys:
        if key.kind is KeyKind.UNIQUE and _is_total(definition, key):
            return tuple(_names(definition, [part.column for part in key.parts if part.column is not None]))
    return ()


def key_names(definition: TableDefinition) -> list[str]:
    """The columns of `key_columns`, by folded name in MySQL's table."""
    return [fold_name(own_name(name)) for name in key_columns(definition)]


def _names(definition: TableDefinition, columns: tuple[str, ...] | list[str]) -> list[str]:
    """The names as the table spells them; a key may spell them in another way."""
    columns_of_key = [definition.column(name) for name in columns]
    return [column_name(column.name) for column in columns_of_key if column is not None]


def _is_total(definition: TableDefinition, key: Key) -> bool:
    columns = [None if part.column is None else definition.column(part.column) for part in key.parts]
    return all(column is not None and not column.nullable for column in columns)
