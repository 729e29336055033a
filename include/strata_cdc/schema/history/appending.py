"""Writes the rows of the version table and its ledgers for a batch of the stream.
Not here: what belongs to one transaction of the store, and reading (`sql_store.py`)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.schema.history.former_names import former_name_text
from strata_cdc.schema.history.name_columns import names_to_column
from strata_cdc.schema.history.versions import TrackedFile, TrackedPosition, VersionOrigin
from strata_cdc.schema.model.row_effects import effects_to_text
from strata_cdc.store.json_columns import to_column
from strata_cdc.store.tables import (
    database_version,
    schema_version,
    table_version,
    tracked_file,
    tracked_position,
    view_version,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from strata_cdc.schema.history.versions import PartitionChange, RowRemoval, StatementChange, Version
    from strata_cdc.schema.model.definition import TableDefinition


def append_versions(
    connection: sa.Connection,
    source: str,
    given: Sequence[Version],
    add_definitions: Callable[[sa.Connection, Iterable[TableDefinition]], list[str]],
) -> None:
    """Inserts versions with all their changes, except statements that are already stored.

    `add_definitions` stores definitions and returns their fingerprints in the same order.
    """
    versions = _not_stored(connection, source, given)
    if not versions:
        return
    ids = _insert_versions(connection, source, versions)
    definitions = [entry.definition for v in versions for entry in v.tables if entry.definition is not None]
    # In the order of the entries: computing a fingerprint is expensive, so each is computed once.
    fingerprints = iter(add_definitions(connection, definitions))
    insert_rows(
        connection,
        table_version,
        [
            {
                "version_id": version_id,
                "source": source,
                "database_name": entry.name.database,
                "table_name": entry.name.table,
                "fingerprint": next(fingerprints) if entry.definition is not None else None,
                "renamed_from": former_name_text(entry.renamed_from) if entry.renamed_from else None,
                "gap": entry.gap,
                "column_ids": entry.columns.to_text() if entry.columns else None,
                "effect": entry.effect.to_text(),
            }
            for version_id, version in zip(ids, versions, strict=True)
            for entry in version.tables
        ],
    )
    insert_rows(
        connection,
        database_version,
        [
            {
                "version_id": version_id,
                "source": source,
                "database_name": entry.name,
                "state": str(entry.presence),
                "character_set": entry.character_set,
                "collation": entry.collation,
            }
            for version_id, version in zip(ids, versions, strict=True)
            for entry in version.databases
        ],
    )
    insert_rows(
        connection,
        view_version,
        [
            {
                "version_id": version_id,
                "source": source,
                "database_name": entry.name.database,
                "view_name": entry.name.table,
                "state": str(entry.presence),
                "definition": to_column(entry.definition) if entry.definition else None,
            }
            for version_id, version in zip(ids, versions, strict=True)
            for entry in version.views
        ],
    )


def advance(connection: sa.Connection, wanted: TrackedPosition) -> TrackedPosition:
    """Moves the source's position on, unless another tracker has moved it."""
    values = {name: getattr(wanted, name) for name in TrackedPosition.__struct_fields__}
    values["revision"] = wanted.revision + 1
    busy = AlreadyRunningError(
        "another tracker is at work on the same source",
        source=wanted.source,
        remedy="Wait for it to end, then run the same again; it continues where the other stopped.",
    )
    if wanted.revision == 0:
        try:
            connection.execute(tracked_position.insert().values(values))
        except sa.exc.IntegrityError:
            raise busy from None
    else:
        mine = (tracked_position.c.source == wanted.source) & (tracked_position.c.revision == wanted.revision)
        if connection.execute(tracked_position.update().where(mine).values(values)).rowcount != 1:
            raise busy
    return TrackedPosition(**values)


def _not_stored(connection: sa.Connection, source: str, given: Sequence[Version]) -> list[Version]:
    if not given:
        return []
    lowest, highest = min(v.position.seq for v in given), max(v.position.seq for v in given)
    query = sa.select(schema_version.c.seq, schema_version.c.statement_no).where(
        schema_version.c.source == source,
        schema_version.c.seq.between(lowest, highest),
        schema_version.c.statement_no > 0,
        schema_version.c.origin.in_((VersionOrigin.DDL, VersionOrigin.GAP)),
    )
    stored = {tuple(row) for row in connection.execute(query)}
    return [v for v in given if not v.is_statement or (v.position.seq, v.position.statement_no) not in stored]


def _insert_versions(connection: sa.Connection, source: str, versions: Sequence[Version]) -> list[int]:
    """Inserts the rows and returns their ids. MySQL cannot return the ids of many rows at once, so they are read back:
    a source has only one writer, and within a batch position and origin are unique."""
    newest = sa.select(sa.func.coalesce(sa.func.max(schema_version.c.id), 0)).where(schema_version.c.source == source)
    before = connection.execute(newest).scalar_one()
    insert_rows(connection, schema_version, [_version_row(source, version) for version in versions])
    query = sa.select(
        schema_version.c.id, schema_version.c.seq, schema_version.c.statement_no, schema_version.c.origin
    ).where(schema_version.c.source == source, schema_version.c.id > before)
    ids = {(row.seq, row.statement_no, row.origin): row.id for row in connection.execute(query)}
    return [ids[v.position.seq, v.position.statement_no, str(v.origin)] for v in versions]


def _version_row(source: str, version: Version) -> dict[str, Any]:
    position, session = version.position, version.session
    return {
        "source": source,
        "seq": position.seq,
        "gtid": version.gtid,
        "statement_no": position.statement_no,
        "gtid_executed": position.gtid_executed,
        "binlog_file": position.binlog_file,
        "binlog_pos": position.binlog_pos,
        "committed_at": position.committed_at,
        "origin": str(version.origin),
        "ddl": version.ddl,
        "default_database": version.default_database,
        # The column is signed in every database; bit 63 of sql_mode is not in use.
        "sql_mode": version.sql_mode,
        "server_version": version.server_version,
        "missing": version.missing,
        "time_zone": version.time_zone,
        "server_id": session and session.server_id,
        "thread_id": session and session.thread_id,
        "invoker": session and session.invoker,
    }


def file_rows(connection: sa.Connection, source: str, files: Sequence[TrackedFile]) -> list[dict[str, Any]]:
    """Parts of files; those that begin with the same transaction are numbered."""
    rows: list[dict[str, Any]] = []
    for file in files:
        same = (tracked_file.c.source == source) & (tracked_file.c.first_seq == file.first_seq)
        stored = connection.execute(sa.select(sa.func.count()).select_from(tracked_file).where(same)).scalar_one()
        ordinal = stored + sum(row["first_seq"] == file.first_seq for row in rows)
        rows.append({name: getattr(file, name) for name in TrackedFile.__struct_fields__})
        rows[-1] |= {"source": source, "ordinal": ordinal}
    return rows


def statement_row(source: str, change: StatementChange) -> dict[str, Any]:
    """A statement that changed rows."""
    return {
        "source": source,
        "seq": change.seq,
        "gtid": change.gtid,
        "binlog_file": change.binlog_file,
        "binlog_pos": change.binlog_pos,
        "tables": names_to_column(change.tables),
        "statement": change.statement,
    }


def removal_rows(source: str, removals: Sequence[RowRemoval]) -> list[dict[str, Any]]:
    """DDL that removed rows, one row for each statement."""
    rows = []
    for (seq, binlog_pos), group in groupby(removals, key=lambda removal: (removal.seq, removal.binlog_pos)):
        tables = list(group)
        rows.append(
            {
                "source": source,
                "seq": seq,
                "gtid": tables[0].gtid,
                "binlog_pos": binlog_pos,
                "tables": names_to_column(table.name for table in tables),
                "statement": tables[0].statement,
                "effects": effects_to_text(table.effect for table in tables),
            }
        )
    return rows


def partition_row(source: str, change: PartitionChange) -> dict[str, Any]:
    """An ALTER TABLE that names partitions."""
    return {
        "source": source,
        "seq": change.seq,
        "binlog_pos": change.binlog_pos,
        "database_name": change.name.database,
        "table_name": change.name.table,
        "statement": change.statement,
        "sql_mode": change.sql_mode,
        "server_version": change.server_version,
        "time_zone": change.time_zone,
    }


def insert_rows(
    connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]], prefix: str | None = None
) -> None:
    """Inserts rows, if there are any."""
    if rows:
        statement = table.insert().prefix_with(prefix) if prefix else table.insert()
        connection.execute(statement, rows)


def ignore_duplicates(connection: sa.Connection) -> str | None:
    """Two trackers may store the same definition at the same time; if the database supports it, the second insert is
    ignored."""
    return {"mysql": "IGNORE", "mariadb": "IGNORE", "sqlite": "OR IGNORE"}.get(connection.dialect.name)
