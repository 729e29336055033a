"""Search over a source's whole history: names of tables, statements, columns and labels, dropped ones included.
Not here: the list of tables (`catalogue.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from msgspec import Struct

from strata.schema.answers.catalogue import TableSummary, contains, tables_page, without_index
from strata.schema.model.definition import TableName
from strata.store.database import reading
from strata.store.tables import schema_version, table_schema, table_version

if TYPE_CHECKING:
    from collections.abc import Iterable


class Statement(Struct, frozen=True):
    """A statement of the history, and the tables that it changed."""

    version_id: int
    ddl: str
    gtid: str | None
    committed_at: int
    """Microseconds UTC."""
    tables: tuple[TableName, ...]
    """That it changed."""


class Found(Struct, frozen=True):
    """What a text was found in."""

    tables: tuple[TableSummary, ...]
    """Tables whose name has it."""
    statements: tuple[Statement, ...]
    """The newest first."""
    columns: tuple[TableName, ...]
    """Tables that no statement made here (a snapshot did), with the text in a column's name, type, label or comment."""
    has_more: bool
    """Whether there is more than is shown of any."""


def search(engine: sa.Engine, source: str, text: str, *, limit: int = 50) -> Found:
    """Where a text is found; case does not matter.

    A column stands in the statement that made it, or in the snapshot that its table's history begins with: those two
    are looked through, and no definition in between.

    Args:
        engine: The store.
        source: The source's name.
        text: What is looked for.
        limit: How many of each kind at most.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    tables = tables_page(engine, source, containing=text, limit=limit)
    statements = _statements(engine, source, contains(schema_version.c.ddl, text), limit + 1)
    columns = _columns(engine, source, text, limit + 1)
    has_more = tables.has_more or len(statements) > limit or len(columns) > limit
    return Found(tables.tables, tuple(statements[:limit]), tuple(columns[:limit]), has_more)


def statements_between(engine: sa.Engine, source: str, start: int, end: int, *, limit: int = 200) -> list[Statement]:
    """The statements that were committed in a half-open span of time (microseconds UTC), the newest first.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    committed_at = schema_version.c.committed_at
    return _statements(engine, source, (committed_at >= start) & (committed_at < end), limit)


def _statements(engine: sa.Engine, source: str, which: sa.ColumnElement[bool], limit: int) -> list[Statement]:
    version = schema_version.c
    query = (
        sa.select(version.id, version.ddl, version.gtid, version.committed_at)
        .where(version.ddl.is_not(None), without_index(version.source, source), which)
        .order_by(version.seq.desc(), version.statement_no.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    names = _names_of(engine, [row.id for row in rows])
    return [Statement(*row, names.get(row.id, ())) for row in rows]


def _names_of(engine: sa.Engine, version_ids: Iterable[int]) -> dict[int, tuple[TableName, ...]]:
    table = table_version.c
    query = (
        sa.select(table.version_id, table.database_name, table.table_name)
        .where(table.version_id.in_(list(version_ids)))
        .order_by(table.version_id, table.database_name, table.table_name)
    )
    found: dict[int, tuple[TableName, ...]] = {}
    with reading(engine) as connection:
        for version_id, database, name in connection.execute(query):
            found[version_id] = (*found.get(version_id, ()), TableName(database, name))
    return found


def _columns(engine: sa.Engine, source: str, text: str, limit: int) -> list[TableName]:
    table, version = table_version.c, schema_version.c
    names = (table.database_name, table.table_name)
    query = (
        sa.select(*names)
        .join(schema_version, version.id == table.version_id)
        .join(table_schema, table_schema.c.fingerprint == table.fingerprint)
        .where(without_index(version.source, source), version.ddl.is_(None), contains(table_schema.c.definition, text))
        .group_by(*names)
        .order_by(*names)
        .limit(limit)
    )
    with reading(engine) as connection:
        return [TableName(*row) for row in connection.execute(query)]
