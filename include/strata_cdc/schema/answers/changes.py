"""Every change of every table in stream order: the table after it, and its statement.
Not here: which earlier names belong to a table (`schema/history/lineage.py`), two distant positions
(`differences.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from strata_cdc.errors import Usage
from strata_cdc.fields import near_names
from strata_cdc.schema.answers.differences import TableDifference
from strata_cdc.schema.answers.lines import (
    ChangeLine,
    EffectLine,
    OnlineChangeLine,
    table_line,
    written_time,
)
from strata_cdc.schema.answers.tables import require_table
from strata_cdc.schema.apply.diff import ColumnAdded, ColumnChanged, ColumnRemoved, ColumnRenamed, diff
from strata_cdc.schema.history.identified_tables import IdentifiedTable, Renames, identified, renames_between
from strata_cdc.schema.history.lineage import OnlineChange, lineage, online_changes
from strata_cdc.schema.history.versions import EVERY_TABLE, Session, StoredEntry, VersionOrigin
from strata_cdc.schema.model.folding import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.schema.apply.diff import Difference
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.model.definition import Column, TableDefinition, TableName
    from strata_cdc.schema.model.row_effects import RowEffect

_PAGE: Final = 1000
"""Number of changes whose definitions and statements are read at once."""


class ShownChange(Struct, frozen=True):
    """One change of one table, or of what is known about it."""

    entry: StoredEntry
    before: TableDefinition | None
    """None if there was no such table, or if its definition was not known."""
    after: TableDefinition | None
    ddl: str | None
    online: OnlineChange | None
    """The change by a tool (gh-ost, pt-online-schema-change) that this change completes."""
    drift: TableDifference | None
    """The differences between the server and the stream that a snapshot found."""
    is_part: bool
    """Whether this change is a part of an online change that is listed too."""
    renames: Renames
    """Columns of `before` that have another name in `after`."""
    effect: RowEffect
    """What the change does to the existing rows."""
    session: Session | None = None
    """Who ran the statement; None if that was not stored."""

    def differences(self) -> tuple[str, ...]:
        """What the change did to the columns, one line each."""
        return TableDifference(self.entry.name, self.before, self.after, self.renames).texts()

    def line(self) -> ChangeLine:
        """The line of `schema history`."""
        entry, online = self.entry, self.online
        head = table_line(entry.gtid_executed, entry.name, self.after if entry.gap is None else entry.gap)
        return ChangeLine(
            **asdict(head),
            dropped=True if entry.gap is None and self.after is None else UNSET,
            gtid=entry.gtid,
            ddl=self.ddl,
            origin=str(entry.origin),
            renamed_from=str(entry.renamed_from) if entry.renamed_from else UNSET,
            online_change=OnlineChangeLine(online.tool, str(online.copy), online.statements) if online else UNSET,
            drift=self.drift.texts() if self.drift else UNSET,
            committed_at=written_time(entry.committed_at),
            binlog_file=entry.binlog_file,
            binlog_pos=entry.binlog_pos,
            renamed_columns=self._renamed_columns() or UNSET,
            effect=EffectLine.from_effect(self.effect) if self.has_effect else UNSET,
            session=UNSET if self.session is None else self.session,
        )

    @property
    def has_effect(self) -> bool:
        """Whether there is an effect to show: a snapshot only finds rows that were there before."""
        return self.entry.is_statement or self.before is not None

    def _renamed_columns(self) -> dict[str, str]:
        if self.before is None or self.after is None:
            return {}
        renames = (
            difference
            for difference in diff(self.before, self.after, self.renames)
            if isinstance(difference, ColumnRenamed)
        )
        return {renamed.before.name: renamed.after.name for renamed in renames}


def changes(
    store: SchemaStore, source: str, table: TableName | None = None, column: str | None = None
) -> Iterator[ShownChange]:
    """The changes of all tables, or of one table under all of its names, or of one column if it is named.

    Raises:
        Usage: There never was such a table, or none of the tables ever had such a column.
    """
    if table is not None:
        require_table(store, source, table)
    shown = _changes(store, source, table)
    return shown if column is None else _of_column(shown, column)


def _changes(store: SchemaStore, source: str, table: TableName | None) -> Iterator[ShownChange]:
    entries = store.all_entries(source) if table is None else lineage(store, source, table)
    # A statement that no other table exists is no change of any table.
    entries = [entry for entry in _without_empty_gap(entries) if entry.name.table or entry.gap is not None]
    online = online_changes(store, source, entries)
    parts = {part for change in online.values() for part in change.parts}
    drifts = {
        (drift.seq, drift.name): TableDifference(drift.name, drift.replayed, drift.found)
        for drift in store.drifts(source)
    }
    newest = _NewestTables()
    for page in (entries[at : at + _PAGE] for at in range(0, len(entries), _PAGE)):
        store.load_definitions(entry.fingerprint for entry in page if entry.fingerprint)
        sessions = store.sessions(entry.version_id for entry in page)
        for entry, before, after, ddl in _with_definitions(store, page, newest):
            key = (entry.version_id, entry.name)
            drift = drifts.get((entry.seq, entry.name)) if entry.origin is VersionOrigin.BASELINE else None
            yield ShownChange(
                entry,
                before.definition if before else None,
                after.definition if after else None,
                ddl,
                online.get(key),
                drift,
                key in parts,
                renames_between(before, after),
                entry.effect,
                sessions.get(entry.version_id),
            )


def _without_empty_gap(entries: Sequence[StoredEntry]) -> Sequence[StoredEntry]:
    """Without the gap in which a stream begins, if a snapshot closes it before the first transaction: then no schema
    was ever unknown."""
    first = entries[0] if entries else None
    if first is None or first.name != EVERY_TABLE or first.gap is None:
        return entries
    is_closed = any(entry.name == EVERY_TABLE and entry.gap is None and entry.seq == first.seq for entry in entries[1:])
    return entries[1:] if is_closed else entries


def _of_column(changes: Iterable[ShownChange], column: str) -> Iterator[ShownChange]:
    """The changes that affect a column.

    Raises:
        Usage: No change touches it. Every column that ever existed was added by some change.
    """
    names: dict[str, None] = {}
    touched = False
    for change in changes:
        if _touches(change, column):
            touched = True
            yield change
        names |= {column_of.name: None for column_of in (*_columns(change.before), *_columns(change.after))}
    if not touched:
        near = near_names(column, names, most=3)
        raise Usage(
            f"there never was a column {column!r}" + (f": do you mean {' or '.join(near)}?" if near else ""),
            remedy="`strata schema show` lists columns.",
        )


def _with_definitions(
    store: SchemaStore, page: Sequence[StoredEntry], newest: _NewestTables
) -> Iterator[tuple[StoredEntry, IdentifiedTable | None, IdentifiedTable | None, str | None]]:
    """Each entry of a page with the table before it, the table after it, and the statement."""
    ddls = store.ddls(entry.version_id for entry in page)
    for entry in page:
        table = identified(store, entry)
        yield entry, newest.replace(entry, table), table, ddls.get(entry.version_id)


class _NewestTables:
    """The newest table of each name, along a history.

    A renamed table has, as the table before it, the table of its old name. A table that takes the name of another
    table has that other table before it: so a swap shows what changed under the name.
    """

    def __init__(self) -> None:
        self._before: dict[TableName, IdentifiedTable | None] = {}
        self._of_this_version: dict[TableName, IdentifiedTable | None] = {}
        self._version_id = 0

    def replace(self, entry: StoredEntry, table: IdentifiedTable | None) -> IdentifiedTable | None:
        """Takes the next entry and returns the table before it. Names are swapped within one version."""
        if entry.version_id != self._version_id:
            self._before |= self._of_this_version
            self._of_this_version, self._version_id = {}, entry.version_id
        self._of_this_version[entry.name] = table
        own = self._before.get(entry.name)
        return own if own is not None or entry.renamed_from is None else self._before.get(entry.renamed_from)


def _touches(change: ShownChange, column: str) -> bool:
    """Whether a column was added, dropped or changed, or got or lost the name."""
    if change.before is None or change.after is None:
        return any(
            fold_name(column_of.name) == fold_name(column) for column_of in _columns(change.after or change.before)
        )
    differences = diff(change.before, change.after, change.renames)
    return fold_name(column) in {fold_name(name) for columns in differences for name in _columns_of(columns)}


def _columns(definition: TableDefinition | None) -> tuple[Column, ...]:
    return definition.columns if definition is not None else ()


def _columns_of(difference: Difference) -> tuple[str, ...]:
    if isinstance(difference, (ColumnChanged, ColumnRenamed)):
        return difference.before.name, difference.after.name
    if isinstance(difference, (ColumnAdded, ColumnRemoved)):
        return (difference.column.name,)
    return ()
