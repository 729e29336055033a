"""Ids for the columns of versions that have none, since a former version of Strata stored them: by a replay of what the
store holds.
Not here: which column is which (`identified_tables.py`)."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from strata_cdc.schema.history.entry_rows import stored_entries
from strata_cdc.schema.history.identified_tables import IdentifiedTables
from strata_cdc.schema.history.statements import changes_asked
from strata_cdc.schema.history.versions import StoredEntry, TableEntry
from strata_cdc.schema.model.column_ids import ColumnIds
from strata_cdc.store.database import reading, writing
from strata_cdc.store.tables import table_version, tracked_position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.schema.history.version_store import VersionStore

_PAGE: Final = 1000
"""Versions whose statements and definitions are read at once."""


def lacks_ids(entries: Iterable[StoredEntry]) -> bool:
    """Whether some of the definitions have columns without ids."""
    return any(entry.fingerprint is not None and entry.column_ids is None for entry in entries)


def identify_versions(engine: sa.Engine, store: VersionStore, source: str) -> None:
    """Stores ids for all columns of a source that have none. Two that do it at once store the same.

    Args:
        engine: The database of the store.
        store: What gives definitions.
        source: The source's name.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: The user may not write.
    """
    is_done = False
    while not is_done:
        is_done = _try_to_identify(engine, store, source)


def _try_to_identify(engine: sa.Engine, store: VersionStore, source: str) -> bool:
    """False if a tracker has stored something in between."""
    position = tracked_position.c
    with reading(engine) as connection:
        query = sa.select(position.revision, position.last_column_id).where(position.source == source)
        row = connection.execute(query).one_or_none()
    if row is None:
        return True
    entries = stored_entries(engine, source, sa.true())
    tables = IdentifiedTables(max([row.last_column_id or 0, *_ids_of(entries)]))
    rows = list(_rows(engine, store, entries, tables))
    mine = (position.source == source) & (position.revision == row.revision)
    with writing(engine) as connection:
        moved = tracked_position.update().where(mine).values(last_column_id=tables.last_id)
        if connection.execute(moved).rowcount != 1:
            return False
        if rows:
            found = table_version.c
            own = [column == sa.bindparam(f"of_{column.name}") for column in table_version.primary_key]
            update = table_version.update().where(*own).values({found.column_ids: sa.bindparam("ids")})
            connection.execute(update, rows)
    return True


def _ids_of(entries: Iterable[StoredEntry]) -> Iterator[int]:
    for entry in entries:
        yield from ColumnIds.from_text(entry.column_ids).ids if entry.column_ids else ()


def _rows(
    engine: sa.Engine, store: VersionStore, entries: Sequence[StoredEntry], tables: IdentifiedTables
) -> Iterator[dict[str, int | str]]:
    """The keys of rows without ids, and the ids."""
    versions = (list(found) for _, found in groupby(entries, key=lambda entry: entry.version_id))
    while page := list(islice(versions, _PAGE)):
        store.load_definitions(entry.fingerprint for found in page for entry in found if entry.fingerprint)
        asked = changes_asked(engine, (found[0].version_id for found in page if found[0].is_statement))
        for found in page:
            given = tables.apply([_table_entry(store, one) for one in found], asked.get(found[0].version_id, ()))
            for entry, identified in zip(found, given, strict=True):
                if identified.columns is not None and entry.column_ids is None:
                    yield {
                        "of_version_id": entry.version_id,
                        "of_database_name": entry.name.database,
                        "of_table_name": entry.name.table,
                        "ids": identified.columns.to_text(),
                    }


def _table_entry(store: VersionStore, entry: StoredEntry) -> TableEntry:
    definition = store.definition(entry.fingerprint) if entry.fingerprint else None
    return TableEntry(entry.name, definition, entry.gap, entry.renamed_from, entry.columns)
