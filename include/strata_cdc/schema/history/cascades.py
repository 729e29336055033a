"""Tables whose rows are changed by foreign keys without row events: before 9.6 InnoDB itself deletes and changes rows
of the child table, and no binlog has these changes.
Not here: the effect of DDL on rows (`effects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.schema.history.snapshot_ledger import reported_cascades
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.store.database import reading, without_index
from strata_cdc.store.tables import table_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.history.snapshot_ledger import ReportedCascades
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName


UNLOGGED: Final = "a foreign key changes its rows without row events, as servers before MySQL 9.6 do"
"""Why the rows of such a table are in no log."""


class Cascade(Struct, frozen=True):
    """A table whose rows change when rows of another table are deleted, or get another key."""

    name: TableName
    """Its name at the end of the stream."""
    since_seq: int
    """The transaction that made the foreign key, or the transaction from which on the snapshot that found it is
    valid."""


def unlogged_cascades(engine: sa.Engine, source: str) -> list[Cascade]:
    """The tables of a source whose rows cascades may change without row events, in order of name.

    A table is in the list if a DDL in the stream or a snapshot shows the foreign key. A foreign key that was dropped
    still counts, as long as its table exists."""
    cascades = reported_cascades(engine, source)
    if not cascades and not _may_have_some(engine, source):
        return []
    entries = [entry for entry in SchemaStore(engine).all_entries(source) if entry.name.table]
    return [cascade for _, cascade in sorted(_followed(entries, cascades).items())]


def _may_have_some(engine: sa.Engine, source: str) -> bool:
    """Whether a version may have made a foreign key with cascades: this check avoids reading all versions, which takes
    long."""
    version = table_version.c
    may_be = version.effect.is_(None) | version.effect.contains("makes_cascade")
    with reading(engine) as connection:
        query = sa.select(1).where(without_index(version.source, source), may_be).limit(1)
        return connection.execute(query).first() is not None


def _followed(entries: Iterable[StoredEntry], cascades: list[ReportedCascades]) -> dict[TableName, Cascade]:
    """Cascades by the names of their tables at the end of the stream, after all renames and drops in stream order."""
    followed: dict[TableName, Cascade] = {}
    before: dict[TableName, Cascade] = {}
    version_id = 0
    for entry in entries:
        while cascades and cascades[0].is_before(entry):
            _tell(cascades.pop(0), followed)
        if entry.version_id != version_id:
            # Names may be swapped within one version.
            before, version_id = dict(followed), entry.version_id
        known = before.get(entry.renamed_from) if entry.renamed_from is not None else followed.get(entry.name)
        followed.pop(entry.name, None)
        if entry.effect.makes_cascade:
            followed[entry.name] = Cascade(entry.name, entry.seq)
        elif (entry.fingerprint is not None or entry.gap is not None) and known is not None:
            followed[entry.name] = Cascade(entry.name, known.since_seq)
    for cascade in cascades:
        _tell(cascade, followed)
    return followed


def _tell(cascades: ReportedCascades, followed: dict[TableName, Cascade]) -> None:
    for name in cascades.names:
        followed.setdefault(name, Cascade(name, cascades.seq))
