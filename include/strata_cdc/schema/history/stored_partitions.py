"""The partitions of a table at the end of the stored history.
Not here: partitions along a stream, as it is tracked (`partition_lifetimes.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.ddl.changes import CreateTableLike
from strata_cdc.schema.history.partition_changes import partition_changes
from strata_cdc.schema.history.partition_lifetimes import FOUND, NOT_NOTED, partitions_after, partitions_made
from strata_cdc.schema.history.statements import changes_asked
from strata_cdc.schema.history.versions import EVERY_TABLE, VersionOrigin, every_table_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.partitions import Partitioning

_Place = tuple[int, int, int]
"""`seq`; 0 for changes of partitions, 1 for versions of a statement, -1 for all other versions; and the id of the
version."""


def stored_partitions(
    engine: sa.Engine, store: VersionStore, source: str, name: TableName, before: _Place | None = None
) -> Partitioning | str:
    """The partitions of a table; a text says why they are not known.

    Args:
        before: Only earlier versions count.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    wide = {every_table_of(name.database), EVERY_TABLE}
    entries = [
        entry
        for entry in store.timeline(source, {name, *wide})
        if entry.origin is not VersionOrigin.RELOAD and (before is None or _place(entry) < before)
    ]
    partitions: Partitioning | str = FOUND
    since: _Place = (-1, 0, 0)
    for entry in reversed(entries):
        made = _made_by(engine, store, source, entry)
        if made is not None:
            partitions, since = made, _place(entry)
            break
    for change in partition_changes(engine, source, name):
        order = (change.seq, 0, 0)
        if since < order and (before is None or order < before):
            partitions = partitions_after(partitions, change) if change.name.table else NOT_NOTED
    return partitions


def _made_by(engine: sa.Engine, store: VersionStore, source: str, entry: StoredEntry) -> Partitioning | str | None:
    """The partitions that a version gives to its table; None if it does not change them."""
    if not entry.name.table or entry.fingerprint is None or entry.origin is not VersionOrigin.DDL:
        return FOUND
    if entry.renamed_from is not None:
        return stored_partitions(engine, store, source, entry.renamed_from, _place(entry))
    if not (entry.effect.makes_table or entry.effect.is_whole):
        return None
    requested = changes_asked(engine, [entry.version_id]).get(entry.version_id, ())
    like = next((change.like for change in requested if isinstance(change, CreateTableLike)), None)
    if like is not None:
        return stored_partitions(engine, store, source, like, _place(entry))
    return partitions_made(store.definition(entry.fingerprint).options, requested)


def _place(entry: StoredEntry) -> _Place:
    return entry.seq, 1 if entry.statement_no else -1, entry.version_id
