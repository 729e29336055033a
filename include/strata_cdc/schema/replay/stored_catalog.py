"""A catalog that continues from the store: tables that a statement changes are loaded first, then its changes are
returned.
Not here: the rules of DDL (`catalog.py`), positions in the stream (`schema/tracker/track.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.schema.ddl.changes import (
    AlterDatabase,
    AlterTable,
    ConvertPartition,
    CreateDatabase,
    CreateTable,
    CreateTableLike,
    CreateView,
    DropDatabase,
    DropTables,
    DropViews,
    Existing,
    RemoveRows,
    RenameTables,
    Unreadable,
)
from strata_cdc.schema.history.versions import (
    EVERY_TABLE,
    DatabaseEntry,
    NamePresence,
    TableChange,
    ViewEntry,
    every_table_of,
)
from strata_cdc.schema.model.charsets import charset_of_collation
from strata_cdc.schema.model.definition import TableName, Unknown
from strata_cdc.schema.replay.catalog import Catalog, Coverage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import StoredEntry, Version
    from strata_cdc.schema.replay.baseline import Baseline

_OF_A_DATABASE = re.compile(r"\b(DATABASE|SCHEMA)\b", re.IGNORECASE)


class Replay:
    """The state of one source at the end of what has been tracked."""

    def __init__(self, store: VersionStore | None, source: str, *, lower_case_table_names: int = 0) -> None:
        """Begins at the end of the store.

        Args:
            store: Knows earlier statements; None if there is nothing to know.
            lower_case_table_names: Of the server.
        """
        self._store = store
        self._source = source
        self._lower_case_table_names = lower_case_table_names
        self._loaded: set[TableName] = set()
        self._loaded_databases: set[str] = set()
        self._severed: set[str] = set()
        """Databases for which all older entries are ignored."""
        self.catalog = Catalog(
            coverage=self._stored_coverage(EVERY_TABLE), lower_case_table_names=lower_case_table_names
        )

    # Changing -----------------------------------------------------------------------------------

    def apply(self, version: Version, changes: Sequence[Change]) -> Version:
        """Applies the changes of one statement, and returns its version with them.

        The version has every table of the statement, including tables that were unknown before and still are: a later
        snapshot can then close the gap from their newest entry on.

        Args:
            version: The version that the statement makes, without its changes.
            changes: What the statement requests.
        """
        tables: dict[TableName, TableChange] = {}
        databases: list[DatabaseEntry] = []
        views: list[ViewEntry] = []
        for change in (_made_at(change, version.position.seq) for change in changes):
            if isinstance(change, Unreadable) and not change.tables:
                tables |= self._forget_for(change, version.ddl or "")
                continue
            self._load_for(change)
            if isinstance(change, (CreateDatabase, AlterDatabase, DropDatabase)):
                views += self._views_dropped_by(change)
                entry, emptied = self._apply_to_database(change)
                databases += entry
                tables |= emptied
                continue
            tables |= {entry.name: entry for entry in self.catalog.apply([change])}
            tables |= {entry.name: entry for entry in self._still_in_doubt(change) if entry.name not in tables}
            views += self._view_entries(change)
        return replace(version, tables=tuple(tables.values()), databases=tuple(databases), views=tuple(views))

    def forget_everything(self, version: Version, reason: str) -> Version:
        """From this version on all tables of the source are unknown, including those that were never seen."""
        self._forget()
        return replace(
            version,
            tables=(TableChange(EVERY_TABLE, gap=reason),),
            databases=(DatabaseEntry("", NamePresence.UNKNOWN),),
        )

    def start_empty(self, version: Version) -> Version:
        """At this version nothing exists, no temporary table either."""
        self.catalog.coverage = Coverage.COMPLETE
        self.catalog.temporary.nothing_before()
        return replace(version, tables=(TableChange(EVERY_TABLE),))

    def start_with(self, version: Version, baseline: Baseline) -> Version:
        """At this version a baseline exists, and nothing else as far as the baseline is complete."""
        self.catalog.coverage = Coverage.PARTIAL if baseline.others_unknown else Coverage.COMPLETE
        tables = [TableChange(EVERY_TABLE, gap=baseline.others_unknown)]
        for database in baseline.databases:
            self.catalog.put_database(database.name, database.collation, Coverage.COMPLETE)
            if baseline.others_unknown:
                tables.append(TableChange(every_table_of(database.name)))
        for entry in baseline.tables:
            self.put_table(entry)
        views = [ViewEntry(view, NamePresence.PRESENT, definition) for view, definition in baseline.views.items()]
        self.put_views(views)
        return replace(
            version, tables=(*tables, *baseline.tables), databases=tuple(baseline.databases), views=tuple(views)
        )

    def put_databases(self, entries: Iterable[DatabaseEntry]) -> None:
        """Sets the databases of a snapshot."""
        for entry in entries:
            self._load_database(entry.name)
            known = self.catalog.databases.get(entry.name)
            coverage = known.coverage if known else self.catalog.coverage
            self.catalog.put_database(entry.name, entry.collation, coverage)

    def put_table(self, entry: TableChange) -> None:
        """Sets a table of a snapshot."""
        self._load(entry.name)
        self.catalog.put(entry.name, Unknown(entry.gap) if entry.gap is not None else entry.definition)

    def put_views(self, entries: Iterable[ViewEntry]) -> None:
        """Sets the views of a snapshot."""
        for entry in entries:
            self._load_database(entry.name.database)
            self.catalog.put_view(entry.name, entry.definition)

    def cover(self, database: str) -> None:
        """Marks that a database has no other tables; '' for the whole source."""
        if not database:
            self.catalog.coverage = Coverage.COMPLETE
            for known in self.catalog.databases.values():
                known.coverage = Coverage.COMPLETE
        elif database in self.catalog.databases:
            self.catalog.databases[database].coverage = Coverage.COMPLETE

    # Loading ------------------------------------------------------------------------------------

    def state(self, name: TableName) -> TableChange:
        """The current state of a table."""
        self._load(name)
        state = self.catalog.get(name)
        if isinstance(state, Unknown):
            return TableChange(name, gap=state.reason)
        if state is None and not self._is_covered(name.database):
            return TableChange(name, gap="the stream has not yet shown what it is")
        return TableChange(name, state)

    def view(self, name: TableName) -> ViewEntry | None:
        """What is known of a view; None if there is no such view."""
        self._load_database(name.database)
        return self.catalog.view(name)

    def load_all(self, names: Iterable[TableName]) -> None:
        """Loads many tables at once."""
        for name in names:
            self._load(name)

    def _load_for(self, change: Change) -> None:
        if isinstance(change, (CreateDatabase, AlterDatabase)):
            self._load_database(change.database)
        elif isinstance(change, DropDatabase):
            self._load_database(change.database)
            if self._store is not None and change.database not in self._severed:
                self.load_all(self._store.names(self._source, change.database))
        else:
            for name in _names_in(change):
                self._load(name)

    def _load(self, name: TableName) -> None:
        self._load_database(name.database)
        if self._store is None or name in self._loaded or name.database in self._severed:
            return
        self._loaded.add(name)
        newest = self._newest(name)
        if newest is None or newest.name != name:
            return
        if newest.gap is not None:
            self.catalog.put(name, Unknown(newest.gap))
        elif newest.fingerprint is not None:
            self.catalog.put(name, self._store.definition(newest.fingerprint))

    def _load_database(self, database: str) -> None:
        if self._store is None or database in self._loaded_databases:
            return
        self._loaded_databases.add(database)
        known = self._store.database(self._source, database)
        coverage = self._stored_coverage(every_table_of(database))
        if known is not None and known.presence is NamePresence.PRESENT:
            self.catalog.put_database(database, known.collation, coverage)
        elif coverage is not self.catalog.coverage:
            self.catalog.put_database(database, None, coverage)
        for view in self._store.views(self._source, database):
            self.catalog.put_view(view.name, view.definition)

    def _newest(self, name: TableName) -> StoredEntry | None:
        if self._store is None:
            return None
        entries = self._store.timeline(self._source, {name, every_table_of(name.database), EVERY_TABLE})
        return entries[-1] if entries else None

    def _stored_coverage(self, name: TableName) -> Coverage:
        newest = self._newest(name)
        if newest is None:
            return Coverage.COMPLETE
        return Coverage.PARTIAL if newest.gap is not None else Coverage.COMPLETE

    def _is_covered(self, database: str) -> bool:
        self._load_database(database)
        known = self.catalog.databases.get(database)
        return (known.coverage if known else self.catalog.coverage) is Coverage.COMPLETE

    def _forget(self) -> None:
        self._store = None
        self.catalog = Catalog(coverage=Coverage.PARTIAL, lower_case_table_names=self._lower_case_table_names)

    # Entries ------------------------------------------------------------------------------------

    def _still_in_doubt(self, change: Change) -> list[TableChange]:
        """Tables of the statement that were not known before: those that are still unknown, and those that are
        certainly dropped."""
        changes: list[TableChange] = []
        for name in _targets_of(change):
            state = self.catalog.get(name)
            if isinstance(state, Unknown):
                changes.append(TableChange(name, gap=state.reason))
            elif isinstance(change, DropTables) and state is None and not self._is_covered(name.database):
                changes.append(TableChange(name))
        return changes

    def _apply_to_database(
        self, change: CreateDatabase | AlterDatabase | DropDatabase
    ) -> tuple[list[DatabaseEntry], dict[TableName, TableChange]]:
        before = self.catalog.databases.get(change.database)
        was_covered = self._is_covered(change.database)
        tables = {entry.name: entry for entry in self.catalog.apply([change])}
        after = self.catalog.databases.get(change.database)
        if isinstance(change, DropDatabase):
            entries = [DatabaseEntry(change.database, NamePresence.DROPPED)]
        else:
            entries = [_database_entry(change.database, after.collation)] if after is not None else []
        if after is before and not isinstance(change, DropDatabase):
            # IF NOT EXISTS, and it existed; or ALTER, which does not affect the tables.
            return (entries if isinstance(change, AlterDatabase) else []), tables
        if not isinstance(change, AlterDatabase):
            # Older entries are ignored: a database that was just created or dropped has no table.
            self._severed.add(change.database)
            if not was_covered:
                tables[every_table_of(change.database)] = TableChange(every_table_of(change.database))
        return entries, tables

    def _forget_for(self, change: Unreadable, statement: str) -> dict[TableName, TableChange]:
        """For a statement whose effect is not known: its database becomes unknown, or everything does."""
        if change.database is None:
            self._forget()
            return {EVERY_TABLE: TableChange(EVERY_TABLE, gap=change.reason)}
        self._load_database(change.database)
        self._severed.add(change.database)
        known = self.catalog.databases.get(change.database)
        collation = known.collation if known and not _OF_A_DATABASE.search(statement) else None
        self.catalog.databases.pop(change.database, None)
        self.catalog.put_database(change.database, collation, Coverage.PARTIAL)
        name = every_table_of(change.database)
        return {name: TableChange(name, gap=change.reason)}

    def _view_entries(self, change: Change) -> list[ViewEntry]:
        if isinstance(change, CreateView) and self._is_view(change.name):
            return [self._view_entry(change.name)]
        if isinstance(change, DropViews):
            return [ViewEntry(name, NamePresence.DROPPED) for name in change.names]
        if isinstance(change, RenameTables):
            renamed = dict.fromkeys(name for pair in change.pairs for name in pair)
            return [self._view_entry(name) for name in renamed if self._was_view(name, change)]
        return []

    def _views_dropped_by(self, change: CreateDatabase | AlterDatabase | DropDatabase) -> list[ViewEntry]:
        """The views of a database that is dropped, or replaced."""
        known = self.catalog.databases.get(change.database)
        is_dropped = isinstance(change, DropDatabase) or (
            isinstance(change, CreateDatabase) and change.existing is Existing.REPLACE
        )
        if known is None or not is_dropped:
            return []
        return [ViewEntry(TableName(change.database, view), NamePresence.DROPPED) for view in known.views]

    def _view_entry(self, name: TableName) -> ViewEntry:
        if not self._is_view(name):
            return ViewEntry(name, NamePresence.DROPPED)
        return ViewEntry(name, NamePresence.PRESENT, self.catalog.databases[name.database].views[name.table])

    def _is_view(self, name: TableName) -> bool:
        known = self.catalog.databases.get(name.database)
        return known is not None and name.table in known.views

    def _was_view(self, name: TableName, change: RenameTables) -> bool:
        """Whether a name of a RENAME was that of a view, or is it now; then no table was renamed."""
        new_names = {new for old, new in change.pairs if old == name} | {name}
        return any(map(self._is_view, new_names))


def _made_at(change: Change, seq: int) -> Change:
    """A change; if it makes a view, with the transaction that does."""
    if not isinstance(change, CreateView) or change.definition is None:
        return change
    return replace(change, definition=replace(change.definition, made_at=seq))


def _database_entry(name: str, collation: str | None) -> DatabaseEntry:
    charset = charset_of_collation(collation) if collation else None
    return DatabaseEntry(name, NamePresence.PRESENT, charset, collation)


def _targets_of(change: Change) -> list[TableName]:
    """Tables that a change may change."""
    match change:
        case CreateTable() | CreateTableLike() | CreateView() | ConvertPartition():
            return [change.name]
        case AlterTable():
            return [change.name] if change.new_name is None else [change.name, change.new_name]
        case RenameTables():
            return [name for pair in change.pairs for name in pair]
        case DropTables() | DropViews():
            return list(change.names)
        case Unreadable():
            return list(change.tables)
        case CreateDatabase() | AlterDatabase() | DropDatabase() | RemoveRows():
            return []


def _names_in(change: Change) -> list[TableName]:
    """Tables that a change reads."""
    read = [change.like] if isinstance(change, CreateTableLike) else []
    read += [change.partitioned] if isinstance(change, ConvertPartition) else []
    return [*_targets_of(change), *read]
