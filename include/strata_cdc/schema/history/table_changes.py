"""A source's history as changes of its tables: the effect of each version on each table and on its rows, in stream
order, as decided at the time of tracking.
Not here: deciding it (`identified_tables.py`), applying it to rows (`tables/convert.py`), single answers
(`historian.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.model.row_effects import NO_EFFECT, RowEffect

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.schema.history.versions import RowRemoval
    from strata_cdc.schema.model.definition import TableDefinition, TableName


class TableChange(Struct, frozen=True):
    """The effect of one version on one table, and on its rows."""

    version_id: int
    order: tuple[int, ...]
    """Equal for all tables of one statement."""
    name: TableName
    definition: TableDefinition | None
    """None: the table does not exist any more, or (`gap`) its definition is not known."""
    gap: str | None = None
    renamed_from: TableName | None = None
    """The rows come from the table that had this name."""
    effect: RowEffect = NO_EFFECT
    """The effect on the rows."""


def table_changes_of(engine: sa.Engine, source: str) -> list[TableChange]:
    """The whole history of a source's tables, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
        StoreFormatError: The store is damaged, or newer than this version.
    """
    store = SchemaStore(engine)
    entries = store.all_entries(source)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    return [
        TableChange(
            version_id=entry.version_id,
            order=(entry.seq, entry.statement_no, entry.version_id),
            name=entry.name,
            definition=store.definition(entry.fingerprint) if entry.fingerprint else None,
            gap=entry.gap,
            renamed_from=entry.renamed_from,
            effect=entry.effect,
        )
        for entry in entries
        if entry.name.table
    ]


def removals_of(engine: sa.Engine, source: str) -> list[RowRemoval]:
    """The effects of DDL on rows of a source's tables without row events, table by table, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    store = SchemaStore(engine)
    position = store.position(source)
    return store.row_removals(source, 0, position.seq if position else 0)
