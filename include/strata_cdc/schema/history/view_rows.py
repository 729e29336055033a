"""Reads the rows of `view_version`.
Not here: writing them (`appending.py`), what exists when (`view_history.py`)."""

from __future__ import annotations

import sqlalchemy as sa

from strata_cdc.schema.history.entry_rows import STREAM_ORDER
from strata_cdc.schema.history.versions import NamePresence, StoredView, VersionOrigin, ViewEntry
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.view import ViewDefinition
from strata_cdc.store.database import reading
from strata_cdc.store.json_columns import from_column
from strata_cdc.store.tables import schema_version, view_version


def stored_views(engine: sa.Engine, source: str, condition: sa.ColumnElement[bool]) -> list[StoredView]:
    """The entries of views of a source that meet a condition, in stream order.

    Raises:
        StoreUnavailableError: The database does not answer.
        DamagedFileError: A stored definition is not valid.
    """
    version, view = schema_version.c, view_version.c
    query = (
        sa.select(
            version.id,
            version.seq,
            version.statement_no,
            version.gtid,
            version.gtid_executed,
            version.binlog_file,
            version.binlog_pos,
            version.origin,
            view.database_name,
            view.view_name,
            view.state,
            view.definition,
        )
        .join(schema_version, version.id == view.version_id)
        .where(view.source == source, condition)
        .order_by(*STREAM_ORDER, view.database_name, view.view_name)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    return [
        StoredView(
            row.id,
            row.seq,
            row.statement_no,
            row.gtid,
            row.gtid_executed,
            row.binlog_file,
            row.binlog_pos,
            VersionOrigin(row.origin),
            _entry(TableName(row.database_name, row.view_name), row.state, row.definition),
        )
        for row in rows
    ]


def _entry(name: TableName, state: str, definition: str | None) -> ViewEntry:
    text = from_column(definition, ViewDefinition, "view_version.definition") if definition else None
    return ViewEntry(name, NamePresence(state), text)
