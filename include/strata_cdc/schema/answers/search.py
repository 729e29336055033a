"""Search in a source's whole history: names of tables, statements, columns and labels, including dropped ones.
Not here: the list of tables (`catalogue.py`)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct, json
from msgspec.structs import fields, replace

from strata_cdc.schema.answers.catalogue import TableSummary, tables_page
from strata_cdc.schema.answers.containing import contains
from strata_cdc.schema.ddl.secrets import mask_secrets
from strata_cdc.schema.model.definition import Column, Key, KeyPart, TableDefinition, TableName
from strata_cdc.store.database import read_rows, reading, without_index
from strata_cdc.store.tables import schema_version, table_schema, table_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
        text: The text to find.
        limit: The maximum number of each kind.
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
    """The statements that were committed in a half-open range of time (microseconds UTC), the newest first."""
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
        rows = read_rows(engine, which)
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
    rows = read_rows(engine, query)
    names = _names_of(engine, [row.id for row in rows])
    return [
        FoundStatement(number, ddl, gtid, committed_at, names.get(number, ()))
        for number, ddl, gtid, committed_at in rows
    ]


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


_AT_ONCE: Final = 200
"""Number of definitions that are read together."""
_MOST_VERSIONS: Final = 1000
"""Maximum number of ids in a statement. If more are known, the statement selects them again."""
_WORDS: Final = {field.encode_name for kind in (TableDefinition, Column, Key, KeyPart) for field in fields(kind)}
"""Names of fields, which every stored definition contains."""
_LITERALS: Final = {"true", "false", "null"}
_TEXT: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(:?)')
"""A text of a JSON document; `:` after it if it is the name of a field."""


def first_columns(
    engine: sa.Engine, source: str, text: str, limit: int, versions: Sequence[int] | None = None
) -> list[TableName]:
    """The tables, by name, for which a snapshot has this text in a column's name, type, label or comment.

    Args:
        text: The text to find; case does not matter.
        limit: The maximum number of tables.
        versions: Ids of the versions without a statement, if they are known.
    """
    table, version = table_version.c, schema_version.c
    which: sa.ColumnElement[bool] = without_index(version.source, source) & version.ddl.is_(None)
    if versions is not None and len(versions) <= _MOST_VERSIONS:
        which = table.version_id.in_(versions)
    written = json.encode(text).decode()[1:-1]
    columns = (table.database_name, table.table_name, table.fingerprint)
    query = (
        sa.select(*columns)
        .join(schema_version, version.id == table.version_id)
        .join(table_schema, table_schema.c.fingerprint == table.fingerprint)
        .where(which, contains(table_schema.c.definition, written, engine.dialect))
        .distinct()
        .order_by(*columns)
    )
    first_tables: dict[TableName, None] = {}
    with reading(engine) as connection:
        for rows in connection.execute(query).partitions(_AT_ONCE):
            has_it = _with_value(connection, [row.fingerprint for row in rows], written.lower())
            first_tables |= dict.fromkeys(TableName(*row[:2]) for row in rows if row.fingerprint in has_it)
            if len(first_tables) >= limit:
                break
    return list(first_tables)[:limit]


def _with_value(connection: sa.Connection, fingerprints: Sequence[str], written: str) -> set[str]:
    """The definitions that have the text in a value. The database does not distinguish values from names of fields."""
    if not _is_of_json(written):
        return set(fingerprints)
    schema = table_schema.c
    query = sa.select(schema.fingerprint, schema.definition).where(schema.fingerprint.in_(fingerprints))
    return {
        fingerprint
        for fingerprint, definition in connection.execute(query)
        if written in "\n".join(value for value, colon in _TEXT.findall(definition.lower()) if not colon)
    }


def _is_of_json(written: str) -> bool:
    """Whether any definition may contain it outside of its values."""
    return not any(sign.isalpha() for sign in written) or any(written in word for word in _WORDS | _LITERALS)
