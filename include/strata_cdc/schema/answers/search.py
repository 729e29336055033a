"""Search in a source's whole history: names of tables, statements, columns and labels, including dropped ones.
Not here: the list of tables (`catalogue.py`), the columns of snapshots (`first_columns.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.schema.answers.catalogue import TableSummary, tables_page, without_index
from strata_cdc.schema.answers.containing import contains
from strata_cdc.schema.answers.first_columns import first_columns
from strata_cdc.schema.ddl.secrets import mask_secrets
from strata_cdc.schema.model.definition import TableName
from strata_cdc.store.database import reading
from strata_cdc.store.tables import schema_version, table_version

if TYPE_CHECKING:
    from collections.abc import Iterable

_NEWEST: Final = 2000
"""Number of newest versions that are searched first: a text that many statements have is found fifty times in them, so
that the rest need not be searched."""


class FoundStatement(Struct, frozen=True):
    """A statement of the history, and the tables that it changed."""

    version_id: int
    ddl: str
    gtid: str | None
    committed_at: int
    """Microseconds UTC."""
    tables: tuple[TableName, ...]
    """The tables that it changed."""


class SearchHit(Struct, frozen=True):
    """Where a text was found."""

    tables: tuple[TableSummary, ...]
    """Tables whose name contains it."""
    statements: tuple[FoundStatement, ...]
    """The newest first."""
    columns: tuple[TableName, ...]
    """Tables that no statement in the stream made (a snapshot stored them), with the text in a column's name, type,
    label or comment."""
    has_more: bool
    """Whether there are more tables, statements or columns than are shown."""


def search(engine: sa.Engine, source: str, text: str, *, limit: int = 50) -> SearchHit:
    """Finds a text; case does not matter.

    A column is named in the statement that made it, or in the snapshot with which its table's history begins. Only
    those two are searched, not the definitions between them.

    Args:
        engine: The store.
        source: The source's name.
        text: The text to find.
        limit: The maximum number of each kind.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    # Both queries read everything, in the database's own code. Run in parallel, they take as long as the longer one.
    with ThreadPoolExecutor(1) as pool:
        pages = pool.submit(tables_page, engine, source, containing=text, limit=limit)
        statements, columns = _versions_with(engine, source, text, limit + 1)
        tables = pages.result()
    has_more = tables.has_more or len(statements) > limit or len(columns) > limit
    return SearchHit(tables.tables, tuple(statements[:limit]), tuple(columns[:limit]), has_more)


def statements_between(
    engine: sa.Engine, source: str, start: int, end: int, *, limit: int = 200
) -> list[FoundStatement]:
    """The statements that were committed in a half-open range of time (microseconds UTC), the newest first.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    version = schema_version.c
    return _statements(engine, (version.committed_at >= start) & (version.committed_at < end) & _of(source), limit)


def _of(source: str) -> sa.ColumnElement[bool]:
    return without_index(schema_version.c.source, source)


def _versions_with(
    engine: sa.Engine, source: str, text: str, limit: int
) -> tuple[list[FoundStatement], list[TableName]]:
    """Statements with a text, and tables of snapshots; one query reads all versions once for both."""
    version = schema_version.c
    has_it = contains(version.ddl, text, engine.dialect)
    newest = (
        sa.select(version.id).where(version.source == source).order_by(version.seq.desc()).limit(_NEWEST).subquery()
    )
    # MySQL does not allow LIMIT in the subquery of an IN (error 1235), but allows it in the subquery of a FROM.
    statements = _statements(engine, version.id.in_(sa.select(newest.c.id)) & has_it, limit)
    without_statement = None
    if len(statements) < limit:
        which = (
            sa.select(version.id, version.ddl.is_(None).label("is_bare"))
            .where(_of(source), version.ddl.is_(None) | has_it)
            .order_by(version.seq.desc(), version.statement_no.desc())
        )
        with reading(engine) as connection:
            rows = connection.execute(which).all()
        without_statement = [row.id for row in rows if row.is_bare]
        statements = _statements(engine, version.id.in_([row.id for row in rows if not row.is_bare][:limit]), limit)
    shown = [masked for statement in statements if (masked := _masked(statement, text)) is not None]
    return shown, first_columns(engine, source, text, limit, without_statement)


def _masked(statement: FoundStatement, text: str) -> FoundStatement | None:
    """The statement without passwords, which old stores have; None if the text is in a password, so that nobody can
    guess a password by searching."""
    ddl = mask_secrets(statement.ddl)
    if ddl == statement.ddl:
        return statement
    return replace(statement, ddl=ddl) if text.lower() in ddl.lower() else None


def _statements(engine: sa.Engine, which: sa.ColumnElement[bool], limit: int) -> list[FoundStatement]:
    version = schema_version.c
    query = (
        sa.select(version.id, version.ddl, version.gtid, version.committed_at)
        .where(version.ddl.is_not(None), which)
        .order_by(version.seq.desc(), version.statement_no.desc())
        .limit(limit)
    )
    with reading(engine) as connection:
        rows = connection.execute(query).all()
    names = _names_of(engine, [row.id for row in rows])
    return [FoundStatement(*row, names.get(row.id, ())) for row in rows]


def _names_of(engine: sa.Engine, version_ids: Iterable[int]) -> dict[int, tuple[TableName, ...]]:
    table = table_version.c
    query = (
        sa.select(table.version_id, table.database_name, table.table_name)
        .where(table.version_id.in_(list(version_ids)))
        .order_by(table.version_id, table.database_name, table.table_name)
    )
    names: dict[int, tuple[TableName, ...]] = {}
    with reading(engine) as connection:
        for version_id, database, name in connection.execute(query):
            names[version_id] = (*names.get(version_id, ()), TableName(database, name))
    return names
