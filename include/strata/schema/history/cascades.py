"""Tables whose rows foreign keys change without row events: before 9.6 InnoDB deletes and changes rows of the child by
itself, and no binlog has them.
Not here: what DDL does to rows (`effects.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata.schema.ddl.changes import AddKey, AlterTable, CreateTable
from strata.schema.history.sql_store import SchemaStore
from strata.schema.history.statements import changes_asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    import sqlalchemy as sa

    from strata.flavour import Flavour
    from strata.schema.ddl.changes import Change, WrittenKey
    from strata.schema.model.definition import TableName

LOGGED_SINCE: Final = (9, 6)
"""From here on the server carries cascades out itself, and logs them, unless `innodb_native_foreign_keys` is ON: then
row events lack the flag USE_SQL_FOREIGN_KEY_F (measured with 9.7.4)."""


class Cascade(Struct, frozen=True):
    """A table whose rows change where another's are deleted, or get another key."""

    name: TableName
    """What it is called at the end."""
    version_id: int
    """Of the statement that made the foreign key."""
    since_seq: int
    """Of its transaction."""


def unlogged_cascades(engine: sa.Engine, source: str) -> list[Cascade]:
    """The tables of a source that cascades may change without row events, in order of name.

    Foreign keys of tables that a snapshot found are not known: definitions do not hold them. One that was dropped
    still counts, as long as its table is there.

    Raises:
        StoreUnavailableError: The database does not answer.
    """
    store = SchemaStore(engine)
    entries = sorted((one for one in store.all_entries(source) if one.name.table), key=lambda one: one.order)
    asked = changes_asked(engine, (entry.version_id for entry in entries))
    found: dict[TableName, Cascade] = {}
    before: dict[TableName, Cascade] = {}
    version_id = 0
    for entry in entries:
        if entry.version_id != version_id:
            # Names may be swapped within one version.
            before, version_id = dict(found), entry.version_id
        came_from = entry.renamed_from
        known = before.get(came_from) if came_from is not None else found.get(entry.name)
        if entry.fingerprint is None and entry.gap is None:
            known = None
        elif _makes_cascade(asked.get(entry.version_id, ())):
            known = Cascade(entry.name, entry.version_id, entry.seq)
        found.pop(entry.name, None)
        if known is not None:
            found[entry.name] = Cascade(entry.name, known.version_id, known.since_seq)
    return [cascade for _, cascade in sorted(found.items())]


def _makes_cascade(changes: Iterable[Change]) -> bool:
    """Whether a statement makes a foreign key with an action that no binlog has."""
    return any(
        key.cascades and not _is_logged(change.context.flavour)
        for change in changes
        if isinstance(change, (CreateTable, AlterTable))
        for key in _keys_of(change)
    )


def _is_logged(flavour: Flavour) -> bool:
    return flavour.is_mysql(*LOGGED_SINCE)


def _keys_of(change: CreateTable | AlterTable) -> Iterable[WrittenKey]:
    if isinstance(change, CreateTable):
        return change.keys
    return [step.key for step in change.steps if isinstance(step, AddKey)]
