"""Tables whose rows foreign keys change without row events: before 9.6 InnoDB deletes and changes rows of the child by
itself, and no binlog has them.
Not here: what DDL does to rows (`effects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from msgspec import Struct

from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.schema.ddl.changes import AddKey, AlterTable, CreateTable
from strata_cdc.schema.history.snapshot_ledger import told_cascades
from strata_cdc.schema.history.sql_store import SchemaStore
from strata_cdc.schema.history.statements import changes_asked
from strata_cdc.store.database import reading
from strata_cdc.store.tables import schema_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from strata_cdc.schema.ddl.changes import Change, WrittenKey
    from strata_cdc.schema.history.snapshot_ledger import ReportedCascades
    from strata_cdc.schema.history.versions import StoredEntry
    from strata_cdc.schema.model.definition import TableName

LOGGED_SINCE: Final = (9, 6)
"""From here on the server carries cascades out itself, and logs them, unless `innodb_native_foreign_keys` is ON: then
row events lack the flag USE_SQL_FOREIGN_KEY_F (measured with 9.7.4)."""


class Cascade(Struct, frozen=True):
    """A table whose rows change where another's are deleted, or get another key."""

    name: TableName
    """What it is called at the end."""
    since_seq: int
    """Of the transaction that made the foreign key, or from which on a snapshot speaks that found it."""


def unlogged_cascades(engine: sa.Engine, source: str) -> list[Cascade]:
    """The tables of a source that cascades may change without row events, in order of name.

    They are those of which a DDL in the stream tells it, or a snapshot. A foreign key that was dropped still counts, as
    long as its table is there.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    asked, told = changes_asked(engine, _that_may_make_cascades(engine, source)), told_cascades(engine, source)
    if not asked and not told:
        return []
    entries = sorted(
        (one for one in SchemaStore(engine).all_entries(source) if one.name.table), key=lambda one: one.order
    )
    return [cascade for _, cascade in sorted(_followed(entries, asked, told).items())]


def _followed(
    entries: Iterable[StoredEntry], asked: Mapping[int, tuple[Change, ...]], told: list[ReportedCascades]
) -> dict[TableName, Cascade]:
    """Cascades by what their tables are called at the end, through renames and drops in stream order."""
    found: dict[TableName, Cascade] = {}
    before: dict[TableName, Cascade] = {}
    version_id = 0
    for entry in entries:
        while told and told[0].is_before(entry):
            _tell(told.pop(0), found)
        if entry.version_id != version_id:
            # Names may be swapped within one version.
            before, version_id = dict(found), entry.version_id
        known = before.get(entry.renamed_from) if entry.renamed_from is not None else found.get(entry.name)
        found.pop(entry.name, None)
        is_there = entry.fingerprint is not None or entry.gap is not None
        if is_there and _makes_cascade(asked.get(entry.version_id, ())):
            found[entry.name] = Cascade(entry.name, entry.seq)
        elif is_there and known is not None:
            found[entry.name] = Cascade(entry.name, known.since_seq)
    for one in told:
        _tell(one, found)
    return found


def _that_may_make_cascades(engine: sa.Engine, source: str) -> list[int]:
    """The versions whose statement may make such a foreign key: to read all statements would take long."""
    found, text = schema_version.c, sa.func.upper(schema_version.c.ddl)
    acts = text.contains("CASCADE") | text.contains("NULL")
    before = found.server_version < Flavour(Vendor.MYSQL, (*LOGGED_SINCE, 0)).number
    query = sa.select(found.id).where(found.source == source, before, text.contains("REFERENCES"), acts)
    with reading(engine) as connection:
        return list(connection.execute(query).scalars())


def _tell(told: ReportedCascades, found: dict[TableName, Cascade]) -> None:
    for name in told.names:
        found.setdefault(name, Cascade(name, told.seq))


def _makes_cascade(changes: Iterable[Change]) -> bool:
    """Whether a statement makes a foreign key with an action that no binlog has."""
    return any(
        key.cascades and not change.context.flavour.is_mysql(*LOGGED_SINCE)
        for change in changes
        if isinstance(change, (CreateTable, AlterTable))
        for key in _keys_of(change)
    )


def _keys_of(change: CreateTable | AlterTable) -> Iterable[WrittenKey]:
    if isinstance(change, CreateTable):
        return change.keys
    return [step.key for step in change.steps if isinstance(step, AddKey)]
