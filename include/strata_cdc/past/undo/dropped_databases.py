"""The CREATE DATABASE that makes a dropped database again.
Not here: its tables (`undo.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from strata_cdc.schema.history.entry_rows import STREAM_ORDER
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import NamePresence
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.store.database import reading
from strata_cdc.store.tables import database_version, schema_version

if TYPE_CHECKING:
    from sqlalchemy import Engine


def create_database(engine: Engine, source: str, name: str) -> str | None:
    """The statement, with the defaults that the database had; None if it is not known to be gone.

    Args:
        engine: The source's store.
        source: Its name.
        name: The database.

    Raises:
        StoreUnavailableError: The database of the store does not answer.
    """
    entry = SchemaStore(engine).database(source, name)
    if entry is None or entry.presence is not NamePresence.DROPPED:
        return None
    version = database_version.c
    query = (
        sa.select(version.character_set, version.collation)
        .join(schema_version, schema_version.c.id == version.version_id)
        .where(version.source == source, version.database_name == name, version.state == NamePresence.PRESENT.value)
        .order_by(*(column.desc() for column in STREAM_ORDER))
        .limit(1)
    )
    with reading(engine) as connection:
        row = connection.execute(query).one_or_none()
    defaults = f" CHARACTER SET {row.character_set} COLLATE {row.collation}" if row and row.collation else ""
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)}{defaults}"
