"""Rows of `table_version` and `view_version` as entries of timelines, each with the position of its version; rows of
`row_removal`, one for each table.
Not here: which entries are requested (`sql_store.py`), writing them (`appending.py`)."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from msgspec.structs import replace

from strata_cdc.schema.history.former_names import former_names
from strata_cdc.schema.history.name_columns import names_from_column
from strata_cdc.schema.history.versions import (
    UNDECIDED,
    NamePresence,
    RowRemoval,
    StoredEntry,
    StoredView,
    VersionOrigin,
    ViewEntry,
)
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.row_effects import effects_from_text
from strata_cdc.schema.model.view import ViewDefinition
from strata_cdc.store.database import read_rows, reading
from strata_cdc.store.json_columns import from_column
from strata_cdc.store.tables import schema_version, table_version, view_version


# Reads the rows of `view_version`.
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
    rows = read_rows(engine, query)
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


STREAM_ORDER: Final = (schema_version.c.seq, schema_version.c.statement_no, schema_version.c.id)
"""The order of versions."""
_COLUMNS: Final = (
    schema_version.c.id,
    schema_version.c.seq,
    schema_version.c.statement_no,
    schema_version.c.gtid,
    schema_version.c.gtid_executed,
    schema_version.c.committed_at,
    schema_version.c.binlog_file,
    schema_version.c.binlog_pos,
    schema_version.c.origin,
    schema_version.c.missing,
    table_version.c.database_name,
    table_version.c.table_name,
    table_version.c.fingerprint,
    table_version.c.gap,
    table_version.c.renamed_from,
    table_version.c.column_ids,
    table_version.c.effect,
)
_NAME: Final = (table_version.c.database_name, table_version.c.table_name)
_OF_VERSION: Final = schema_version.c.id == table_version.c.version_id


def newest_versions(source: str) -> sa.Subquery:
    """The highest id of a version of each name: by an index that has the ids of each name in order."""
    # By the source, too: MySQL reads one entry of the index for each name only then.
    columns = table_version.c
    query = sa.select(*_NAME, sa.func.max(columns.version_id).label("newest")).where(columns.source == source)
    return query.group_by(columns.source, *_NAME).subquery()


def stored_entries(
    engine: sa.Engine, source: str, condition: sa.ColumnElement[bool], only: sa.Subquery | None = None
) -> list[StoredEntry]:
    """The entries of a source that meet a condition, in the order of `StoredEntry.order`.

    Args:
        condition: Of `table_version` and `schema_version`.
        only: Only the entries of these names and versions (`newest_versions`), in any order.
    """
    query = sa.select(*_COLUMNS).select_from(table_version.join(schema_version, _OF_VERSION))
    if only is None:
        query = query.order_by(*STREAM_ORDER, *_NAME)
    else:
        same = [only.c[column.name] == column for column in _NAME]
        picked = only.join(table_version, sa.and_(only.c.newest == table_version.c.version_id, *same))
        query = sa.select(*_COLUMNS).select_from(picked.join(schema_version, _OF_VERSION))
    query = query.where(table_version.c.source == source, condition)
    entries: list[StoredEntry] = []
    renamed: dict[int, tuple[int, str]] = {}
    with reading(engine) as connection:
        # One row at a time: with 100,000 rows in memory at once, Python's garbage collection would scan them again and
        # again.
        for row in connection.execute(query):
            if row.renamed_from:
                renamed[len(entries)] = (row.id, row.renamed_from)
            entries.append(
                StoredEntry(
                    *row[:8],
                    origin=VersionOrigin(row.origin),
                    missing=row.missing,
                    name=TableName(row.database_name, row.table_name),
                    fingerprint=row.fingerprint,
                    gap=row.gap,
                    column_ids=row.column_ids,
                    effect_text=row.effect,
                )
            )
        former = former_names(connection, set(renamed.values()))
    for at, where in renamed.items():
        entries[at] = replace(entries[at], renamed_from=former.get(where))
    return entries


def removals_from_row(row: Any) -> list[RowRemoval]:
    """The effects of a statement on the rows of each of its tables.

    Raises:
        DamagedFileError: The content of the row is not valid.
    """
    names = names_from_column(row.tables, "row_removal.tables")
    effects = [UNDECIDED] * len(names) if row.effects is None else effects_from_text(row.effects)
    return [
        RowRemoval(row.seq, row.gtid, row.binlog_pos, name, row.statement, effect)
        for name, effect in zip(names, effects, strict=True)
    ]
