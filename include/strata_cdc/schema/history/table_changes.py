"""A source's history as changes of its tables: the effect of each version on each table and on its rows, in stream
order, as decided at the time of tracking.
Not here: deciding it (`identified_tables.py`), applying it to rows (`tables/convert.py`), single answers
(`historian.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import TableChange

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.schema.history.versions import RowRemoval


def table_changes_of(engine: sa.Engine, source: str) -> list[TableChange]:
    """The whole history of a source's tables, in stream order, without the ids of columns: the effects are decided.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    store = SchemaStore(engine)
    entries = store.all_entries(source)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    return [
        TableChange(
            name=entry.name,
            definition=store.definition(entry.fingerprint) if entry.fingerprint else None,
            gap=entry.gap,
            renamed_from=entry.renamed_from,
            effect=entry.effect,
            version_id=entry.version_id,
            order=(entry.seq, entry.statement_no, entry.version_id),
            gtid=entry.gtid,
            committed_at=entry.committed_at,
        )
        for entry in entries
        if entry.name.table
    ]


def removals_of(engine: sa.Engine, source: str) -> list[RowRemoval]:
    """The effects of DDL on rows of a source's tables without row events, table by table, in stream order."""
    store = SchemaStore(engine)
    position = store.position(source)
    return store.row_removals(source, 0, position.seq if position else 0)
