"""Which entry of each table is valid at the end of the stream, without reading all entries before it.
Not here: any other position, and tables for which it takes their whole timeline (`historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.schema.history.versions import VersionOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName


def certain_entries(
    newest: Iterable[StoredEntry], wide: Sequence[StoredEntry], seq: int
) -> dict[TableName, StoredEntry]:
    """The tables whose entry of the newest version is the last one of their timelines.

    Statements are stored in the order of the stream, and only corrections are stored later than what follows them. So
    nothing comes after an entry that a statement made and that no later version overrides.

    Args:
        newest: For each name, its entry of the newest version.
        wide: All entries about all tables of a database, or of the source.
        seq: Ordinal of the last transaction of the stream.
    """
    last = max((entry.order for entry in wide), default=None)
    return {
        entry.name: entry
        for entry in newest
        if entry.name.table
        and entry.origin is VersionOrigin.DDL
        and entry.is_statement
        and entry.seq <= seq
        and (last is None or entry.order > last)
    }
