"""The names of tables before a version renamed them: as text in `table_version.renamed_from`, and back.
Not here: lists of names (`name_columns.py`), a table through its names (`lineage.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from strata_cdc.schema.history.name_columns import name_from_text, name_to_text
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.tables import table_version

if TYPE_CHECKING:
    from collections.abc import Collection

FormerName = tuple[int, str]
"""A version's id, and the text of the column."""

_CHUNK: Final = 500
"""Number of values in one IN (...)."""
_MOST_CHARACTERS: Final = 130
"""The maximum length of the column."""


def former_name_text(name: TableName) -> str:
    """The text to store: quoted if it is ambiguous and the quoted text fits into the column."""
    text = name_to_text(name)
    return text if len(text) <= _MOST_CHARACTERS else str(name)


def former_names(connection: sa.Connection, former: Collection[FormerName]) -> dict[FormerName, TableName]:
    """The names for texts of the column.

    Stores of former versions have `a.b.t` for a table of the database `a.b`. The former name of such a table has a row
    in the version that renamed it; this row shows where the database ends.

    Args:
        connection: To the store.
        former: The texts, with the ids of their versions.
    """
    names = {text: name_from_text(text[1]) for text in former}
    unclear = sorted({version for version, text in names if text.count(".") > 1 and not text.startswith("`")})
    version_id, *name = table_version.c.version_id, table_version.c.database_name, table_version.c.table_name
    for at in range(0, len(unclear), _CHUNK):
        query = sa.select(version_id, *name).where(version_id.in_(unclear[at : at + _CHUNK]))
        for version, *parts in connection.execute(query):
            if (version, ".".join(parts)) in names:
                names[version, ".".join(parts)] = TableName(*parts)
    return names
