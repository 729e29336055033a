"""Reconciles a snapshot of the live server with the replayed history: closes gaps, reports drift.
Not here: when the stream has reached a snapshot (`track.py`), taking one (`schema/live/engine.py`).

For each table, by what the stream says of it last and what the snapshot has:

| the stream says         | the server has it        | the server does not have it |
|-------------------------|--------------------------|-----------------------------|
| touched while read      | left for the next one    | left for the next one       |
| known, and the same     | nothing                  |                             |
| known, and different    | drift, corrected         | drift, dropped              |
| known, but not a length | the length, since then   | drift, dropped              |
|   or the table's charset|                          |                             |
| told by FULL metadata   | the server's definition  | drift, dropped              |
| gap                     | known since the gap      | was not there since the gap |
| dropped                 | drift, corrected         | nothing                     |
| nothing, all is known   | drift, corrected         |                             |
| nothing, all is a gap   | known since the gap      |                             |

Of a table whose labels or defaults the server does not tell in full, what is known and looks the same stays, and the
rest is a gap, by name. A table that the snapshot's user may not see is never taken for one that is not there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.counted import counted
from strata_cdc.position.sets import Gtid, GtidSet
from strata_cdc.schema.history.versions import (
    EVERY_TABLE,
    Drift,
    NamePresence,
    TableEntry,
    Version,
    VersionOrigin,
    VersionPlace,
    ViewEntry,
    every_table_of,
)
from strata_cdc.schema.model.types import shown_text
from strata_cdc.schema.tracker.stream import is_at_or_behind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import DatabaseEntry, StoredEntry
    from strata_cdc.schema.model.definition import KeyPart, TableDefinition, TableName


class Reconciliation(Struct, frozen=True):
    """What to append for a snapshot, and what to set in the catalog."""

    versions: tuple[Version, ...]
    drifts: tuple[Drift, ...]
    known: tuple[TableEntry, ...]
    """Tables as they are now, where that is news."""
    covered: tuple[str, ...]
    """Databases of which everything is known now; '' for the whole source."""
    postponed: tuple[TableName, ...]
    """Tables that a DDL touched while the snapshot was read: the next one will tell."""
    databases: tuple[DatabaseEntry, ...] = ()
    views: tuple[TableName, ...] = ()
    useless: str | None = None
    """Why the snapshot says nothing of this stream."""


def essential(definition: TableDefinition) -> tuple[object, ...]:
    """What decides how rows are read: the parts of a definition that a server and a replay must agree on.

    Expressions and options are kept as they were written by one and as the server prints them by the other.
    """
    return (
        definition.primary_key,
        tuple(
            (c.name, c.column_type, c.nullable, c.character_set, c.collation, c.generated, c.invisible, c.srid)
            for c in definition.columns
        ),
    )


def as_shown(definition: TableDefinition) -> TableDefinition:
    """A definition as information_schema shows it, with `?` for characters that it does not know."""
    columns = tuple(replace(one, column_type=shown_text(one.column_type)) for one in definition.columns)
    return replace(definition, columns=columns)


def with_lengths_of(replayed: TableDefinition, found: TableDefinition) -> TableDefinition:
    """A replayed definition with what no binlog holds and a server tells: lengths of keys, engine, default charset."""
    lengths = {key.name: key.parts for key in found.keys}
    keys = tuple(
        replace(key, parts=tuple(map(_with_length_of, key.parts, lengths[key.name])))
        if len(key.parts) == len(lengths.get(key.name, ()))
        else key
        for key in replayed.keys
    )
    return replace(replayed, keys=keys).with_defaults_of(found)


def _with_length_of(part: KeyPart, found: KeyPart) -> KeyPart:
    is_known = part.lengths_in_doubt and part.column == found.column
    return part.with_lengths(found.lengths) if is_known else part


def reconcile(store: VersionStore, snapshot: SchemaSnapshot, end: VersionPlace) -> Reconciliation:
    """Compares a snapshot with what has been tracked.

    A snapshot speaks of a moment between two GTID sets, or of a place in the server's files. What no DDL in the stream
    touched since the first of them is now as the snapshot has it, and so it was since the newest entry that says that
    it is not known.

    Args:
        store: With everything tracked so far.
        snapshot: Of a moment that the stream has passed.
        end: The place behind everything tracked; corrections of what was thought to be known hold from there on.
    """
    entries = store.all_entries(snapshot.source)
    if snapshot.position is not None:
        return _reconcile_at(store, snapshot, entries, snapshot.position, end)
    before = GtidSet.parse(snapshot.gtid_before)
    unseen = _unseen(entries) - before
    if unseen:
        return _useless(f"transactions {unseen} are not in the stream, and any of them may be a DDL that came after it")
    return _Reconciling(store, snapshot, entries, _touched_since(entries, before), end).result()


def _reconcile_at(
    store: VersionStore,
    snapshot: SchemaSnapshot,
    entries: Sequence[StoredEntry],
    position: BinlogPosition,
    end: VersionPlace,
) -> Reconciliation:
    """As `reconcile`, for a snapshot of one place in the files of the server whose stream this is."""
    begin = entries[0] if entries and entries[0].seq == 0 else None
    if begin and is_at_or_behind(begin.binlog_file or "", (begin.binlog_pos or 0) - 1, position):
        return _useless(f"the stream begins behind {position}, and any DDL in between may have come after it")
    touched = {
        entry.name
        for entry in entries
        if (entry.is_statement or (entry.origin is VersionOrigin.GAP and entry.seq > 0))
        and is_at_or_behind(entry.binlog_file or "", entry.binlog_pos or 0, position)
    }
    return _Reconciling(store, snapshot, entries, touched, end).result()


def _unseen(entries: Iterable[StoredEntry]) -> GtidSet:
    """What had been executed without being in the stream: before its start, and in its holes."""
    found = GtidSet()
    for entry in entries:
        if entry.seq == 0 and entry.name == EVERY_TABLE and entry.origin is not VersionOrigin.RELOAD:
            found |= GtidSet.parse(entry.gtid_executed)
        if entry.missing:
            found |= GtidSet.parse(entry.missing)
    return found


def _touched_since(entries: Sequence[StoredEntry], before: GtidSet) -> set[TableName]:
    """Names that DDLs touched which are not in a GTID set; they stand at the end of the stream."""
    found: set[TableName] = set()
    for entry in reversed(entries):
        if entry.gtid is not None and GtidSet.parse(entry.gtid_executed) <= before:
            break
        if entry.is_statement and not (entry.gtid and before.contains(Gtid.parse(entry.gtid))):
            # An anonymous statement counts as later: no GTID set can place it.
            found.add(entry.name)
    return found


class _Reconciling:
    """One comparison: what the stream says of each name, against the snapshot."""

    def __init__(
        self,
        store: VersionStore,
        snapshot: SchemaSnapshot,
        entries: Sequence[StoredEntry],
        touched: set[TableName],
        end: VersionPlace,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._touched = touched
        self._end = end
        self._own: dict[TableName, list[StoredEntry]] = defaultdict(list)
        for entry in entries:
            self._own[entry.name].append(entry)
        self._reloads: dict[VersionPlace, list[TableEntry]] = defaultdict(list)
        self._corrections: list[TableEntry] = []
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
            Version(place, VersionOrigin.RELOAD, server_version=snapshot.server_version, tables=tuple(tables))
            for place, tables in self._reloads.items()
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
            views=tuple(view.name for view in views),
        )

    def _is_touched(self, name: TableName) -> bool:
        return not self._touched.isdisjoint({name, every_table_of(name.database), EVERY_TABLE})

    def _is_news(self, entry: TableEntry) -> bool:
        """Whether an entry that closes a gap says what the table is now, or that nobody can; not only what it was."""
        return bool(entry.name.table) and (entry.gap is None or entry.name in self._snapshot.doubtful)

    def _newest(self, name: TableName) -> StoredEntry | None:
        """What the stream says last of a name, by itself or among all tables of its database or of the source."""
        found = [
            self._own[wide][-1] for wide in {name, every_table_of(name.database), EVERY_TABLE} if self._own.get(wide)
        ]
        return max(found, key=lambda entry: entry.order, default=None)

    def _compare(self, name: TableName, found: TableDefinition, fingerprint: str) -> None:
        newest = self._newest(name)
        if newest is None:
            return
        if newest.gap is not None:
            self._reloads[_place(newest)].append(TableEntry(name, found))
        elif newest.name != name or newest.fingerprint is None:
            self._drift(name, None, found)
        elif newest.fingerprint != fingerprint:
            self._compare_definitions(name, newest, self._store.definition(newest.fingerprint), found)

    def _compare_doubtful(self, name: TableName, found: TableDefinition, reason: str) -> None:
        """Of a table whose texts the server does not tell in full, what the stream says stays if it looks the same."""
        newest = self._newest(name)
        if newest is None:
            return
        if newest.gap is not None:
            if newest.name != name:
                self._reloads[_place(newest)].append(TableEntry(name, gap=reason))
            return
        if newest.origin is VersionOrigin.METADATA:
            return
        known = self._store.definition(newest.fingerprint) if newest.name == name and newest.fingerprint else None
        if known is None or essential(as_shown(known)) != essential(as_shown(found)):
            end, snapshot_id = self._end, self._snapshot.id
            self._drifts.append(Drift(snapshot_id, name, end.seq, end.gtid_executed, known, found))
            self._corrections.append(TableEntry(name, gap=reason))

    def _compare_definitions(
        self, name: TableName, newest: StoredEntry, replayed: TableDefinition, found: TableDefinition
    ) -> None:
        if newest.origin is VersionOrigin.METADATA:
            self._corrections.append(TableEntry(name, found))  # it says more than rows do, and nothing else
        elif essential(replayed) != essential(found):
            self._drift(name, replayed, found)
        elif replayed.in_doubt or replayed.collation is None:
            self._take_lengths(name, newest, with_lengths_of(replayed, found))

    def _take_lengths(self, name: TableName, newest: StoredEntry, completed: TableDefinition) -> None:
        """What no binlog holds of the keys was so since the table was touched last."""
        if completed.fingerprint != newest.fingerprint:
            self._reloads[_place(newest)].append(TableEntry(name, completed))

    def _look_for_absent(self) -> None:
        """Tables of the stream that the server does not have."""
        for name, entries in self._own.items():
            newest = entries[-1]
            is_there = newest.gap is not None or newest.fingerprint is not None
            if not name.table or not is_there or name in self._snapshot.tables or self._newest(name) is not newest:
                continue
            if self._is_touched(name) or not self._snapshot.sees_all_of(name.database):
                continue
            if newest.gap is not None:
                self._reloads[_place(newest)].append(TableEntry(name))
            else:
                self._drift(name, self._store.definition(str(newest.fingerprint)), None)

    def _drift(self, name: TableName, replayed: TableDefinition | None, found: TableDefinition | None) -> None:
        end, snapshot_id = self._end, self._snapshot.id
        self._drifts.append(Drift(snapshot_id, name, end.seq, end.gtid_executed, replayed, found))
        self._corrections.append(TableEntry(name, found))

    # What is not named --------------------------------------------------------------------------

    def _cover(self) -> None:
        """Where everything was unknown and everything is seen now, nothing else exists."""
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
        """Says at a gap that nothing else existed. What a later statement touched without making it did exist, and
        stays unknown between the gap and that statement."""
        place = _place(gap)
        self._reloads[place].append(TableEntry(wide))
        self._covered.append(wide.database)
        for name in names:
            later = next((entry for entry in self._own[name] if entry.order > gap.order), None)
            if name.table and later is not None and later.fingerprint is None:
                self._reloads[place].append(TableEntry(name, gap=gap.gap))

    def _databases(self) -> list[DatabaseEntry]:
        """Defaults of databases that the stream does not have; what it has is exact."""
        found = []
        for entry in self._snapshot.databases:
            known = self._store.database(self._snapshot.source, entry.name)
            is_known = known is not None and (known.presence is NamePresence.DROPPED or known.collation is not None)
            if not is_known and not self._is_touched(every_table_of(entry.name)):
                found.append(entry)
        return found

    def _views(self) -> list[ViewEntry]:
        known: dict[str, list[TableName]] = {}
        for name in self._snapshot.views:
            if name.database not in known:
                known[name.database] = self._store.views(self._snapshot.source, name.database)
        return [
            ViewEntry(name, NamePresence.PRESENT)
            for name in self._snapshot.views
            if name not in known[name.database] and not self._is_touched(name)
        ]


def _place(entry: StoredEntry) -> VersionPlace:
    return VersionPlace(
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
    """What became of a snapshot, for people."""
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
