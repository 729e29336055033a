"""What schema versions changed in tables, for lineage tools: made, altered, renamed from what, dropped.
Not here: the form that OpenLineage gives it (`airflow/lineage_facets.py`), rows (`describe.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.ops.lineage.facts import Field, LifecycleChange, MadeVersion
from strata_cdc.schema.history.entry_rows import stored_entries
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.versions import VersionOrigin
from strata_cdc.store.tables import table_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import sqlalchemy as sa

    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName


def describe_versions(engine: sa.Engine, source: str, versions: Sequence[int]) -> list[MadeVersion]:
    """The tables of some versions in stream order, but for those whose schema is not known.

    Args:
        versions: Ids of versions that follow each other.
    """
    if not versions:
        return []
    column = table_version.c.version_id
    entries = stored_entries(engine, source, (column >= min(versions)) & (column <= max(versions)))
    entries = [entry for entry in entries if entry.name.table and entry.gap is None]
    store = SchemaStore(engine)
    made = _made(store, source, entries)
    store.load_definitions(entry.fingerprint for entry in entries if entry.fingerprint)
    # The name that a table has left is no table that was dropped.
    left = {(entry.version_id, entry.renamed_from) for entry in entries if entry.renamed_from}
    return [
        MadeVersion(
            version=entry.version_id,
            table=entry.name,
            columns=_columns(store, entry),
            change=_change(entry, made),
            former=entry.renamed_from,
            gtid_executed=entry.gtid_executed,
        )
        for entry in entries
        if entry.fingerprint or (entry.version_id, entry.name) not in left
    ]


def _columns(store: SchemaStore, entry: StoredEntry) -> tuple[Field, ...]:
    if entry.fingerprint is None:
        return ()
    columns = store.definition(entry.fingerprint).columns
    return tuple(Field(column.name, column.column_type, column.comment) for column in columns)


def _change(entry: StoredEntry, made: set[tuple[int, TableName]]) -> LifecycleChange | None:
    if entry.origin is not VersionOrigin.DDL:
        return None
    if entry.fingerprint is None:
        return LifecycleChange.DROP
    if entry.renamed_from is not None:
        return LifecycleChange.RENAME
    return LifecycleChange.CREATE if (entry.version_id, entry.name) in made else LifecycleChange.ALTER


def _made(store: SchemaStore, source: str, entries: Iterable[StoredEntry]) -> set[tuple[int, TableName]]:
    """Version and table of all that was not there before."""
    names = {entry.name for entry in entries if entry.origin is VersionOrigin.DDL and entry.fingerprint}
    is_there: dict[TableName, bool] = {}
    made = set()
    for entry in store.timeline(source, names) if names else ():
        if entry.fingerprint and not is_there.get(entry.name, False):
            made.add((entry.version_id, entry.name))
        is_there[entry.name] = entry.fingerprint is not None
    return made
