"""Search in the columns of tables that no statement in the stream made: a snapshot stored their definition.
Not here: columns that statements made (`search.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import json
from msgspec.structs import fields

from strata_cdc.schema.answers.catalogue import without_index
from strata_cdc.schema.answers.containing import contains
from strata_cdc.schema.model.definition import Column, Key, KeyPart, TableDefinition, TableName
from strata_cdc.store.database import reading
from strata_cdc.store.tables import schema_version, table_schema, table_version

if TYPE_CHECKING:
    from collections.abc import Sequence

_AT_ONCE: Final = 200
"""Number of definitions that are read together."""
_MOST_VERSIONS: Final = 1000
"""Maximum number of ids in a statement. If more are known, the statement selects them again."""
_WORDS: Final = {field.encode_name for kind in (TableDefinition, Column, Key, KeyPart) for field in fields(kind)}
"""Names of fields, which every stored definition contains."""
_LITERALS: Final = {"true", "false", "null"}
_TEXT: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(:?)')
"""A text of a JSON document; `:` after it if it is the name of a field."""


def first_columns(
    engine: sa.Engine, source: str, text: str, limit: int, versions: Sequence[int] | None = None
) -> list[TableName]:
    """The tables, by name, for which a snapshot has this text in a column's name, type, label or comment.

    Args:
        engine: The store.
        source: The source's name.
        text: The text to find; case does not matter.
        limit: The maximum number of tables.
        versions: Ids of the versions without a statement, if they are known.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    table, version = table_version.c, schema_version.c
    which: sa.ColumnElement[bool] = without_index(version.source, source) & version.ddl.is_(None)
    if versions is not None and len(versions) <= _MOST_VERSIONS:
        which = table.version_id.in_(versions)
    written = json.encode(text).decode()[1:-1]
    columns = (table.database_name, table.table_name, table.fingerprint)
    query = (
        sa.select(*columns)
        .join(schema_version, version.id == table.version_id)
        .join(table_schema, table_schema.c.fingerprint == table.fingerprint)
        .where(which, contains(table_schema.c.definition, written, engine.dialect))
        .distinct()
        .order_by(*columns)
    )
    found: dict[TableName, None] = {}
    with reading(engine) as connection:
        for rows in connection.execute(query).partitions(_AT_ONCE):
            has_it = _with_value(connection, [row.fingerprint for row in rows], written.lower())
            found |= dict.fromkeys(TableName(*row[:2]) for row in rows if row.fingerprint in has_it)
            if len(found) >= limit:
                break
    return list(found)[:limit]


def _with_value(connection: sa.Connection, fingerprints: Sequence[str], written: str) -> set[str]:
    """The definitions that have the text in a value. The database does not distinguish values from names of fields."""
    if not _is_of_json(written):
        return set(fingerprints)
    schema = table_schema.c
    query = sa.select(schema.fingerprint, schema.definition).where(schema.fingerprint.in_(fingerprints))
    return {
        fingerprint
        for fingerprint, definition in connection.execute(query)
        if written in "\n".join(value for value, colon in _TEXT.findall(definition.lower()) if not colon)
    }


def _is_of_json(written: str) -> bool:
    """Whether any definition may contain it outside of its values."""
    return not any(sign.isalpha() for sign in written) or any(written in word for word in _WORDS | _LITERALS)
