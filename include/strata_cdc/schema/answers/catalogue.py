"""All tables that a source ever had, page by page: how often each changed, when, and its state now.
Not here: the changes of one table (`changes.py`), tables at another position than the end (`tables.py`)."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.answers.containing import contains
from strata_cdc.schema.history.former_names import former_names
from strata_cdc.schema.history.versions import EVERY_TABLE, SYSTEM_DATABASES, every_table_of
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import read_rows, reading, without_index
from strata_cdc.store.tables import schema_version, table_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class _NamedVersion(NamedTuple):
    """The content of one version for one name."""

    seq: int
    statement_no: int
    version_id: int
    committed_at: int
    name: TableName
    is_there: bool
    gap: str | None


class TablePresence(StrEnum):
    """The state of a table at the end of the stream."""

    PRESENT = "present"
    DROPPED = "dropped"
    UNKNOWN = "unknown"
    """Its schema is not known from some position on."""


class TableSummary(Struct, frozen=True):
    """One table of a source, under one name."""

    name: TableName
    versions: int
    changed_at: tuple[int, ...]
    """Commit times of its versions, microseconds UTC, in stream order; 0 for tables that were there from the start."""
    presence: TablePresence
    gap: str | None
    """Why the schema is not known."""
    renamed_to: TableName | None = None
    """Its new name, if a rename removed this name."""


class TablesPage(Struct, frozen=True):
    """Some tables in order of name."""

    tables: tuple[TableSummary, ...]
    has_more: bool


def tables_page(
    engine: sa.Engine, source: str, *, after: TableName | None = None, containing: str = "", limit: int = 50
) -> TablesPage:
    """The tables after a name, including dropped ones, without those of the server itself.

    Args:
        after: Name of the last table of the previous page; None for the first page.
        containing: Only names (`database.table`) that contain this text; case does not matter.
        limit: The maximum number of tables.
    """
    columns = table_version.c
    names = (columns.database_name, columns.table_name)
    # An index has the names in order, and the query looks up each name once: a table may have thousands of versions.
    query = (
        sa.select(*names).where(columns.source == source, columns.table_name != "").group_by(*names).order_by(*names)
    )
    query = query.having(columns.database_name.not_in(sorted(SYSTEM_DATABASES)))
    if after is not None:
        later = (columns.database_name == after.database) & (columns.table_name > after.table)
        query = query.where((columns.database_name > after.database) | later)
    if containing:
        query = query.having(contains(columns.database_name + "." + columns.table_name, containing, engine.dialect))
    rows = read_rows(engine, query.limit(limit + 1))
    page = [TableName(*row) for row in rows[:limit]]
    return TablesPage(tuple(summaries(engine, source, page)), len(rows) > limit)


def unknown_tables(engine: sa.Engine, source: str, limit: int) -> list[TableSummary]:
    """Tables whose schema is not known at the end of the stream, by name."""
    columns = table_version.c
    names = (columns.database_name, columns.table_name)
    query = sa.select(*names).where(
        columns.gap.is_not(None), columns.table_name != "", without_index(columns.source, source)
    )
    with reading(engine) as connection:
        named = sorted({TableName(*row) for row in connection.execute(query)})
    return [summary for summary in summaries(engine, source, named) if summary.presence is TablePresence.UNKNOWN][
        :limit
    ]


def summaries(engine: sa.Engine, source: str, names: Sequence[TableName]) -> list[TableSummary]:
    """Summaries of tables that have a version, at the end of the stream."""
    rows = _rows_of(engine, source, names)
    whole = rows[EVERY_TABLE]
    summaries_of_names = [_summary(name, rows[name], [*rows[every_table_of(name.database)], *whole]) for name in names]
    gone = {
        summary.name: rows[summary.name][-1].version_id
        for summary in summaries_of_names
        if summary.presence is TablePresence.DROPPED
    }
    later = _renamed_to(engine, gone)
    return [replace(summary, renamed_to=later.get(summary.name)) for summary in summaries_of_names]


def _renamed_to(engine: sa.Engine, gone: Mapping[TableName, int]) -> dict[TableName, TableName]:
    """The names that tables got from the same statement that removed their old names.

    Args:
        gone: The version in which each went away.
    """
    columns = table_version.c
    query = sa.select(columns.version_id, columns.renamed_from, columns.database_name, columns.table_name).where(
        columns.version_id.in_(sorted(set(gone.values()))), columns.renamed_from.is_not(None)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
        former = former_names(connection, {(row.version_id, row.renamed_from) for row in rows})
    moved = {
        (row.version_id, former[row.version_id, row.renamed_from]): TableName(row.database_name, row.table_name)
        for row in rows
    }
    return {name: moved[version, name] for name, version in gone.items() if (version, name) in moved}


def _rows_of(engine: sa.Engine, source: str, names: Sequence[TableName]) -> dict[TableName, list[_NamedVersion]]:
    """What the versions have about these names and about all tables, in stream order."""
    version, table = schema_version.c, table_version.c
    columns = (
        version.seq,
        version.statement_no,
        version.id,
        version.committed_at,
        table.database_name,
        table.table_name,
        table.fingerprint,
        table.gap,
    )
    query = (
        sa.select(*columns)
        .join(schema_version, version.id == table.version_id)
        .where(
            table.source == source,
            table.database_name.in_(sorted({"", *(name.database for name in names)})),
            table.table_name.in_(sorted({"", *(name.table for name in names)})),
        )
        .order_by(version.seq, version.statement_no, version.id)
    )
    entries: defaultdict[TableName, list[_NamedVersion]] = defaultdict(list)
    with reading(engine) as connection:
        for seq, number, version_id, committed_at, *parts, fingerprint, gap in connection.execute(query):
            name = TableName(*parts)
            entries[name].append(
                _NamedVersion(seq, number, version_id, committed_at, name, fingerprint is not None, gap)
            )
    return entries


def _summary(
    name: TableName,
    own: Sequence[_NamedVersion],
    wider: Sequence[_NamedVersion],
) -> TableSummary:
    newest = max([own[-1], *wider], key=lambda entry: (*entry[:3], entry.name))
    state = TablePresence.UNKNOWN if newest.gap else TablePresence.PRESENT if newest.is_there else TablePresence.DROPPED
    return TableSummary(name, len(own), tuple(entry.committed_at for entry in own), state, newest.gap)
