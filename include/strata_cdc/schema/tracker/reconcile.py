"""Reconciles a snapshot of the live server with the replayed history: closes gaps, reports drift.
Not here: when the stream has reached a snapshot (`track.py`), taking a snapshot (`schema/live/engine.py`).

For each table, by its last entry in the stream and its definition in the snapshot:

| last entry in stream    | the server has it        | the server does not have it |
|-------------------------|--------------------------|-----------------------------|
| changed while read      | for the next snapshot    | for the next snapshot       |
| known, and the same     | nothing                  |                             |
| known, and different    | drift, corrected; a gap  | drift, dropped              |
|                         | before, if rows could be |                             |
|                         | misread (`misread.py`)   |                             |
| known, but not a length | the length, since then   | drift, dropped              |
|   or the table's charset|                          |                             |
| from FULL metadata      | the server's definition  | drift, dropped              |
| gap                     | known since the gap      | was not there since the gap |
| dropped                 | drift, corrected         | nothing                     |
| none, all is known      | drift, corrected         |                             |
| none, all is a gap      | known since the gap      |                             |

Tables whose labels or defaults the server does not report completely: if they are known and look the same, they stay;
the others become a gap, by name. A table that the snapshot's user may not see is never treated as dropped.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.counted import counted
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.position.executed import NOTHING, parse_executed
from strata_cdc.position.sets import Gtid
from strata_cdc.schema.history.versions import (
    EVERY_TABLE,
    Drift,
    NamePresence,
    TableChange,
    Version,
    VersionOrigin,
    VersionPosition,
    ViewEntry,
    every_table_of,
)
from strata_cdc.schema.history.view_history import ViewHistory
from strata_cdc.schema.model.types import shown_text
from strata_cdc.schema.tracker.misread import DISPROVED, misreads
from strata_cdc.schema.tracker.stream import is_at_or_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import DatabaseEntry, StoredEntry, StoredView
    from strata_cdc.schema.model.definition import Column, KeyPart, TableDefinition, TableName


class Reconciliation(Struct, frozen=True):
    """The entries to append for a snapshot, and the changes of the catalog."""

    versions: tuple[Version, ...]
    drifts: tuple[Drift, ...]
    known: tuple[TableChange, ...]
    """Tables as they are now, if that is new."""
    covered: tuple[str, ...]
    """Databases of which everything is known now; '' for the whole source."""
    postponed: tuple[TableName, ...]
    """Tables that a DDL changed while the snapshot was read: they wait for the next snapshot."""
    databases: tuple[DatabaseEntry, ...] = ()
    views: tuple[ViewEntry, ...] = ()
    useless: str | None = None
    """Why the snapshot cannot be used for this stream."""


def essential(definition: TableDefinition) -> tuple[object, ...]:
    """The facts that decide how rows are read: a server and a replay must agree on these parts of a definition.

    Expressions and options are excluded: a replay keeps them as they were written, a server as it prints them.
    """
    return (
        definition.primary_key,
        tuple(
            (c.name, c.column_type, c.nullable, c.character_set, c.collation, c.generated, c.invisible, c.srid)
            for c in definition.columns
        ),
    )


def as_shown(definition: TableDefinition) -> TableDefinition:
    """A definition as information_schema shows it, with `?` for characters that it cannot show."""
    columns = tuple(replace(column, column_type=shown_text(column.column_type)) for column in definition.columns)
    return replace(definition, columns=columns)


def with_facts_of(replayed: TableDefinition, definition: TableDefinition) -> TableDefinition:
    """A replayed definition with facts that only the server has, and no binlog: lengths of keys, ON UPDATE of a
    TIMESTAMP, engine, default charset."""
    lengths = {key.name: key.parts for key in definition.keys}
    keys = tuple(
        replace(key, parts=tuple(map(_with_length_of, key.parts, lengths[key.name])))
        if len(key.parts) == len(lengths.get(key.name, ()))
        else key
        for key in replayed.keys
    )
    columns = tuple(_with_on_update_of(column, definition.column(column.name)) for column in replayed.columns)
    return replace(replayed, keys=keys, columns=columns).with_defaults_of(definition)


def _with_on_update_of(column: Column, shown: Column | None) -> Column:
    if shown is None or not column.on_update_in_doubt:
        return column
    return replace(
        column,
        default=shown.default,
        default_is_expression=shown.default_is_expression,
        on_update=shown.on_update,
        on_update_in_doubt=False,
    )


def _with_length_of(part: KeyPart, key_part: KeyPart) -> KeyPart:
    is_known = part.lengths_in_doubt and part.column == key_part.column
    return part.with_lengths(key_part.lengths) if is_known else part


def reconcile(store: VersionStore, snapshot: SchemaSnapshot, end: VersionPosition) -> Reconciliation:
    """Compares a snapshot with the tracked history.

    A snapshot is about a moment between two GTID sets, or about a position in the server's files. Tables that no DDL in
    the stream has changed since the first of them are now as in the snapshot. If their newest entry is a gap, they have
    been like this since that entry.

    Args:
        store: With everything that was tracked so far.
        snapshot: Of a moment that the stream has passed.
        end: The position after everything tracked; corrections of known tables are valid from there on.
    """
    entries = store.all_entries(snapshot.source)
    if snapshot.position is not None:
        return _reconcile_at(store, snapshot, entries, snapshot.position, end)
    before = parse_executed(snapshot.gtid_before)
    unseen = _unseen(entries) - before
    if unseen:
        return _useless(f"transactions {unseen} are not in the stream, and any of them may be a DDL that came after it")
    touched = _touched_since(entries, before) | _touched_since(store.all_views(snapshot.source), before)
    return _Reconciling(store, snapshot, entries, touched, end).result()


def _reconcile_at(
    store: VersionStore,
    snapshot: SchemaSnapshot,
    entries: Sequence[StoredEntry],
    position: BinlogPosition,
    end: VersionPosition,
) -> Reconciliation:
    """Like `reconcile`, for a snapshot of one position in the files of the server that has this stream."""
    begin = entries[0] if entries and entries[0].seq == 0 else None
    if begin and is_at_or_after(begin.binlog_file or "", (begin.binlog_pos or 0) - 1, position):
        return _useless(f"the stream begins after {position}, and any DDL in between may have come after it")
    changed: list[StoredEntry | StoredView] = [*entries, *store.all_views(snapshot.source)]
    touched = {
        entry.name
        for entry in changed
        if (entry.is_statement or (entry.origin is VersionOrigin.GAP and entry.seq > 0))
        and is_at_or_after(entry.binlog_file or "", entry.binlog_pos or 0, position)
    }
    return _Reconciling(store, snapshot, entries, touched, end).result()


def _unseen(entries: Iterable[StoredEntry]) -> Executed:
    """The transactions that were executed but are not in the stream: those before its start, and those in its holes."""
    executed = NOTHING
    for entry in entries:
        if entry.seq == 0 and entry.name == EVERY_TABLE and entry.origin is not VersionOrigin.RELOAD:
            executed |= parse_executed(entry.gtid_executed)
        if entry.missing:
            executed |= parse_executed(entry.missing)
    return executed


def _touched_since(entries: Sequence[StoredEntry | StoredView], before: Executed) -> set[TableName]:
    """Names that were changed by DDLs which are not in a GTID set; these DDLs are at the end of the stream."""
    names: set[TableName] = set()
    for entry in reversed(entries):
        if entry.gtid is not None and parse_executed(entry.gtid_executed) <= before:
            break
        if entry.is_statement and not (entry.gtid and before.contains(Gtid.parse(entry.gtid))):
            # An anonymous statement counts as later: no GTID set gives its position.
            names.add(entry.name)
    return names


class _Reconciling:
    """One comparison of the stream's last entry of each name with the snapshot."""

    def __init__(
        self,
        store: VersionStore,
        snapshot: SchemaSnapshot,
        entries: Sequence[StoredEntry],
        touched: set[TableName],
        end: VersionPosition,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._touched = touched
        self._confirmed = store.confirmation(snapshot.source)
        self._entries = entries
        self._end = end
        self._own: dict[TableName, list[StoredEntry]] = defaultdict(list)
        for entry in entries:
            self._own[entry.name].append(entry)
        self._reloads: dict[VersionPosition, list[TableChange]] = defaultdict(list)
        self._corrections: list[TableChange] = []
        self._drifts: list[Drift] = []
        self._covered: list[str] = []
        self._postponed: list[TableName] = []

    def result(self) -> Reconciliation:
        """Compares everything."""
        snapshot = self._snapshot
        self._store.load_definitions(snapshot.tables.values())
        for name, fingerprint in snapshot.tables.items():
            if self._is_touched(name):
                self._postponed.append(name)
            elif name in snapshot.doubtful:
                self._compare_doubtful(name, self._store.definition(fingerprint), snapshot.doubtful[name])
            else:
                self._compare(name, self._store.definition(fingerprint), fingerprint)
        self._look_for_absent()
        self._cover()
        reloads = [
            Version(position, VersionOrigin.RELOAD, server_version=snapshot.server_version, tables=tuple(tables))
            for position, tables in self._reloads.items()
        ]
        databases, views = self._databases(), self._views()
        corrections: list[Version] = []
        if self._corrections or databases or views:
            corrections.append(
                Version(
                    self._end,
                    VersionOrigin.BASELINE,
                    server_version=snapshot.server_version,
                    tables=tuple(self._corrections),
                    databases=tuple(databases),
                    views=tuple(views),
                )
            )
        return Reconciliation(
            versions=(*reloads, *corrections),
            drifts=tuple(self._drifts),
            known=(
                *(entry for version in reloads for entry in version.tables if self._is_news(entry)),
                *self._corrections,
            ),
            covered=tuple(self._covered),
            postponed=tuple(self._postponed),
            databases=tuple(databases),
            views=tuple(views),
        )

    def _is_touched(self, name: TableName) -> bool:
        return not self._touched.isdisjoint({name, every_table_of(name.database), EVERY_TABLE})

    def _is_news(self, entry: TableChange) -> bool:
        """Whether an entry that closes a gap is about the table now, or says that it cannot be known; not only about
        the past."""
        return bool(entry.name.table) and (entry.gap is None or entry.name in self._snapshot.doubtful)

    def _newest(self, name: TableName) -> StoredEntry | None:
        """The last entry of a name in the stream: its own, or one for all tables of its database or of the source."""
        entries = [
            self._own[wide][-1] for wide in {name, every_table_of(name.database), EVERY_TABLE} if self._own.get(wide)
        ]
        return max(entries, key=lambda entry: entry.order, default=None)

    def _compare(self, name: TableName, definition: TableDefinition, fingerprint: str) -> None:
        newest = self._newest(name)
        if newest is None:
            return
        if newest.gap is not None:
            self._reloads[_order_of(newest)].append(TableChange(name, definition))
        elif newest.name != name or newest.fingerprint is None:
            self._drift(name, None, definition)
            self._corrections.append(TableChange(name, definition))
        elif newest.fingerprint != fingerprint:
            self._compare_definitions(name, newest, self._store.definition(newest.fingerprint), definition)

    def _compare_doubtful(self, name: TableName, definition: TableDefinition, reason: str) -> None:
        """If the server does not report a table's texts completely, the table stays as in the stream if it looks the
        same."""
        newest = self._newest(name)
        if newest is None:
            return
        if newest.gap is not None:
            if newest.name != name:
                self._reloads[_order_of(newest)].append(TableChange(name, gap=reason))
            return
        if newest.origin is VersionOrigin.METADATA:
            return
        known = self._store.definition(newest.fingerprint) if newest.name == name and newest.fingerprint else None
        if known is None or essential(as_shown(known)) != essential(as_shown(definition)):
            self._drift(name, known, definition, newest)
            self._corrections.append(TableChange(name, gap=reason))

    def _compare_definitions(
        self, name: TableName, newest: StoredEntry, replayed: TableDefinition, definition: TableDefinition
    ) -> None:
        if newest.origin is VersionOrigin.METADATA:
            # It has more facts than row events, and no contradiction.
            self._corrections.append(TableChange(name, definition))
        elif essential(replayed) != essential(definition):
            self._drift(name, replayed, definition, newest)
            self._corrections.append(TableChange(name, definition))
        elif replayed.in_doubt or replayed.collation is None:
            self._take_facts(name, newest, with_facts_of(replayed, definition))

    def _take_facts(self, name: TableName, newest: StoredEntry, completed: TableDefinition) -> None:
        """Facts that no binlog has are valid since the last change of the table."""
        if completed.fingerprint != newest.fingerprint:
            self._reloads[_order_of(newest)].append(TableChange(name, completed))

    def _look_for_absent(self) -> None:
        """Compares tables of the stream that the server does not have."""
        for name, entries in self._own.items():
            newest = entries[-1]
            is_there = newest.gap is not None or newest.fingerprint is not None
            if not name.table or not is_there or name in self._snapshot.tables or self._newest(name) is not newest:
                continue
            if self._is_touched(name) or not self._snapshot.sees_all_of(name.database):
                continue
            if newest.gap is not None:
                self._reloads[_order_of(newest)].append(TableChange(name))
            else:
                self._drift(name, self._store.definition(str(newest.fingerprint)), None)
                self._corrections.append(TableChange(name))

    def _drift(
        self,
        name: TableName,
        replayed: TableDefinition | None,
        shown: TableDefinition | None,
        newest: StoredEntry | None = None,
    ) -> None:
        """Notes a difference. If rows of both definitions may look alike and mean something else, nothing shows which
        of them was valid since the table was confirmed last."""
        doubted_after = None
        logs_charsets = Flavour.stored(self._snapshot.server_version).vendor is Vendor.MYSQL
        if newest and replayed and shown and misreads(replayed, shown, logs_charsets=logs_charsets):
            for former, position in self._unconfirmed(newest):
                self._reloads[position].append(TableChange(former, gap=DISPROVED))
                doubted_after = max(0, position.seq - 1)
        end = self._end
        self._drifts.append(Drift(self._snapshot.id, name, end.seq, end.gtid_executed, replayed, shown, doubted_after))

    def _unconfirmed(self, newest: StoredEntry) -> Iterator[tuple[TableName, VersionPosition]]:
        """The definitions of a table since it was confirmed last, by a snapshot or by the statement that made it: under
        which name, and where each became valid. An ALTER confirms no columns but those that it names."""
        entry, until = newest, None
        while True:
            begin = _order_of(entry)
            confirmed = self._confirmed_between(entry.name, begin, until)
            yield entry.name, confirmed or begin
            earlier = self._altered_by(entry)
            if earlier is None or confirmed is not None:
                return
            entry, until = earlier, begin

    def _confirmed_between(
        self, name: TableName, begin: VersionPosition, until: VersionPosition | None
    ) -> VersionPosition | None:
        """Where a snapshot confirmed a definition that was valid from `begin` on; a snapshot after `until`, when the
        table had another name, has confirmed only that there is no table of this name."""
        if self._confirmed is None or not self._confirmed.confirms(name):
            return None
        at = self._confirmed.position
        is_before = until is None or (at.seq, at.statement_no) < (until.seq, until.statement_no)
        return at if is_before and (at.seq, at.statement_no) > (begin.seq, begin.statement_no) else None

    def _altered_by(self, entry: StoredEntry) -> StoredEntry | None:
        """The definition that a statement has altered; None if it made the table, or if no statement made the entry."""
        if entry.origin is not VersionOrigin.DDL:
            return None
        former = self._own.get(entry.renamed_from or entry.name, [])
        earlier = next((other for other in reversed(former) if other.order[:3] < entry.order[:3]), None)
        return None if earlier is None or earlier.fingerprint is None else earlier

    # What is not named --------------------------------------------------------------------------

    def _cover(self) -> None:
        """If everything was unknown and everything is seen now, no other table exists."""
        everything = self._own.get(EVERY_TABLE, [])
        if EVERY_TABLE in self._touched or not everything:
            return
        sees_everything = self._snapshot.seen_databases is None
        if sees_everything and everything[-1].gap is not None:
            self._close(everything[-1], EVERY_TABLE, self._own)
        databases = {name.database for name in self._own if name.database and not name.table}
        if not sees_everything:
            databases |= self._snapshot.seen_databases or set()
        for database in sorted(databases):
            wide = every_table_of(database)
            newest = self._newest(wide)
            done = sees_everything and newest is everything[-1]
            if newest is not None and newest.gap is not None and wide not in self._touched and not done:
                self._close(newest, wide, [name for name in self._own if name.database == database])

    def _close(self, gap: StoredEntry, wide: TableName, names: Iterable[TableName]) -> None:
        """Adds, at the position of a gap, that no other table existed. A table that a later statement changed without
        creating it did exist; it stays unknown between the gap and that statement."""
        position = _order_of(gap)
        self._reloads[position].append(TableChange(wide))
        self._covered.append(wide.database)
        for name in names:
            # The gap's own version may name the table, too: that entry is compared for itself.
            later = next((entry for entry in self._own[name] if entry.order[:3] > gap.order[:3]), None)
            if name.table and later is not None and later.fingerprint is None:
                self._reloads[position].append(TableChange(name, gap=gap.gap))

    def _databases(self) -> list[DatabaseEntry]:
        """Defaults of databases that the stream does not have; those of the stream are exact."""
        databases = []
        for entry in self._snapshot.databases:
            known = self._store.database(self._snapshot.source, entry.name)
            is_known = known is not None and (known.presence is NamePresence.DROPPED or known.collation is not None)
            if not is_known and not self._is_touched(every_table_of(entry.name)):
                databases.append(entry)
        return databases

    def _views(self) -> list[ViewEntry]:
        """Views, and texts of views, that the stream does not have."""
        history = ViewHistory(self._store.all_views(self._snapshot.source), self._entries)
        views = []
        for name, definition in self._snapshot.views.items():
            known = history.find(name)
            is_known = (
                known is not None
                and known.presence is NamePresence.PRESENT
                and (known.definition is not None or definition is None)
            )
            if not is_known and not self._is_touched(name):
                views.append(ViewEntry(name, NamePresence.PRESENT, definition))
        return views


def _order_of(entry: StoredEntry) -> VersionPosition:
    return VersionPosition(
        seq=entry.seq,
        statement_no=entry.statement_no,
        gtid_executed=entry.gtid_executed,
        committed_at=entry.committed_at,
        binlog_file=entry.binlog_file,
        binlog_pos=entry.binlog_pos,
    )


def _useless(reason: str) -> Reconciliation:
    return Reconciliation((), (), (), (), (), useless=reason)


def outcome_text(snapshot: SchemaSnapshot, reconciled: Reconciliation) -> str:
    """The result of a snapshot, for people."""
    if reconciled.useless:
        return f"snapshot {snapshot.id} says nothing of this stream: {reconciled.useless}"
    parts = [f"snapshot {snapshot.id}: {counted(len(snapshot.tables), 'table')} compared"]
    if reconciled.known:
        parts.append(f"{len(reconciled.known)} became known")
    if reconciled.drifts:
        parts.append(f"{len(reconciled.drifts)} differ from the replay")
    if reconciled.postponed:
        parts.append(f"{len(reconciled.postponed)} changed while it was taken, and wait for the next")
    return ", ".join([*parts, *snapshot.hidden])
