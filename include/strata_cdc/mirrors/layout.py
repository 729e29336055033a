"""Where mirrors are in the lake, and what their columns are.
Not here: where change tables are (`tables/layout.py`), what is in the files (`data_files.py`, `vectors.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from strata_cdc.files.storage import list_folders
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.tables.convert import exact_schema, state_schema
from strata_cdc.tables.layout import column_name, name_of_path, path_name
from strata_cdc.tables.verbatim import exact_names

if TYPE_CHECKING:
    from strata_cdc.schema.model.definition import TableDefinition

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
    """The columns of `TableDefinition.row_key`, by their names in the mirror."""
    return tuple(column_name(name) for name in definition.row_key)


def key_names(definition: TableDefinition) -> list[str]:
    """The columns of `TableDefinition.row_key`, by folded name."""
    return [fold_name(name) for name in definition.row_key]
