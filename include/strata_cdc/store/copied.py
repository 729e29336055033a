"""A copy of a source's part of a store, in memory: changes of the copy never reach the store.
Not here: what uses the copy (`pipeline/rehearse.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from strata_cdc.store.database import open_store, reading, writing
from strata_cdc.store.own import OWN, own_database
from strata_cdc.store.tables import METADATA, store_format

if TYPE_CHECKING:
    from collections.abc import Collection

_ROWS = 1000
"""Rows that are held in memory between reading and writing."""


def copied_store(engine: sa.Engine, source: str, servers: Collection[str]) -> sa.Engine:
    """A store in memory with everything that another store has of a source.

    Args:
        servers: As `own_database`; what belongs to the store in a stream belongs to the copy too.
    """
    own = own_database(engine, servers)
    copy = open_store("sqlite://")
    with reading(engine) as source_connection, writing(copy) as copy_connection:
        for table in METADATA.sorted_tables:
            if table is store_format:
                continue
            mine = table.c.source == source if "source" in table.c else sa.true()
            rows = source_connection.execution_options(yield_per=_ROWS).execute(sa.select(table).where(mine))
            for part in rows.mappings().partitions(_ROWS):
                copy_connection.execute(table.insert(), [dict(row) for row in part])
    return copy.execution_options(**{OWN: own})
