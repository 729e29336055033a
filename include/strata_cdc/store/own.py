"""Which tables in a source's stream belong to the store: it may be on the source itself, and is then in its binlog.
Not here: the store's tables (`tables.py`), excluding its rows (`pipeline/`, `schema/tracker/track.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from strata_cdc.binlog.protocol.visible_state import IDENTITY
from strata_cdc.store.database import DEFAULT_DATABASE, reading
from strata_cdc.store.tables import METADATA

if TYPE_CHECKING:
    from collections.abc import Collection


OWN = "strata_own"
"""Option of an engine that is a copy: the databases of the store that it was copied from."""


def own_database(engine: sa.Engine, servers: Collection[str]) -> frozenset[str]:
    """The store's database, if its transactions can be in a stream.

    A database of this name on another server is a user's database.

    Args:
        servers: UUIDs of the servers that the stream comes from; empty if they are not known.
    """
    copied: frozenset[str] | None = engine.get_execution_options().get(OWN)
    if copied is not None:
        return copied
    database = engine.url.database
    if engine.dialect.name != "mysql" or not database:
        return frozenset()
    if servers:
        with reading(engine) as connection:
            if connection.execute(sa.text(f"SELECT {IDENTITY}")).scalar() not in servers:
                return frozenset()
    return frozenset({database})


def is_own_table(database: str, table: str) -> bool:
    """Whether a table in files without a store belongs to a store, by the names of a store's tables."""
    return database == DEFAULT_DATABASE and table in METADATA.tables
