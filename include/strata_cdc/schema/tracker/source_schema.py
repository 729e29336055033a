"""The schema of a source at one position of its stream: its tables, the ids of their columns, and their partitions.
Not here: the position (`stream_state.py`), the effect of a statement on tables (`schema/replay/`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.position.executed import NOTHING
from strata_cdc.schema.history.identified_tables import IdentifiedTables, stored_table
from strata_cdc.schema.history.partition_lifetimes import PartitionedTables
from strata_cdc.schema.history.versions import TableChange, Version, VersionOrigin, VersionPosition
from strata_cdc.schema.model.definition import Unknown
from strata_cdc.schema.replay.stored_catalog import Replay
from strata_cdc.schema.replay.temporary import TemporaryTables
from strata_cdc.schema.tracker.unknown_tables import UnknownTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

    from strata_cdc.binlog.sources.file_start import FileStart
    from strata_cdc.schema.ddl.changes import Change
    from strata_cdc.schema.history.version_store import VersionStore
    from strata_cdc.schema.history.versions import TrackedPosition
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.replay.baseline import Baseline
    from strata_cdc.schema.tracker.reconcile import Reconciliation
    from strata_cdc.schema.tracker.stream import TrackedTransaction

_UNSEEN: Final = Unknown("a temporary table that was made in what has been tracked before")


class SourceSchema(Struct):
    """The schema of a source. Versions are applied to it in stream order; it reads from the store what they name."""

    exclude: Set[str]
    """Databases that do not belong to users."""
    replay: Replay
    identified: IdentifiedTables
    partitioned: PartitionedTables
    unknown: UnknownTables
    baseline: Baseline | None
    """The schema before the stream; None if it is not known, or the stream has begun."""

    @classmethod
    def at_the_end(
        cls,
        store: VersionStore,
        position: TrackedPosition,
        exclude: Set[str],
        baseline: Baseline | None,
        *,
        is_new: bool,
    ) -> SourceSchema:
        """The schema at the end of what a store has of a source.

        Args:
            store: Has all earlier versions.
            position: Where they end.
            exclude: Databases that do not belong to users.
            baseline: The schema before the stream; used only if the stream begins now.
            is_new: Whether the source has never been tracked.
        """
        source = position.source
        replay = Replay(None if is_new else store, source, lower_case_table_names=position.lower_case_table_names)
        replay.catalog.temporary = TemporaryTables.from_stored(store.temporary_tables(source), _UNSEEN)
        return cls(
            exclude,
            replay,
            IdentifiedTables(position.last_column_id, None if is_new else partial(stored_table, store, source)),
            PartitionedTables(None if is_new else partial(store.partitions, source)),
            UnknownTables(partial(store.names_in_doubt, source), exclude),
            baseline if is_new else None,
        )

    def is_of_users(self, database: str) -> bool:
        """Whether a database belongs to users."""
        return database not in self.exclude

    def first_version(self, start: FileStart, *, is_anonymous: bool) -> Version:
        """The version of a stream that begins with a file: the schema before its first transaction.

        Args:
            is_anonymous: Whether its transactions have no GTIDs.
        """
        executed, baseline = start.previous or NOTHING, self.baseline
        position = VersionPosition(0, 0, str(executed), start.created_at, start.binlog_file, start.begin_pos)
        version = Version(position, VersionOrigin.BASELINE)
        if baseline is not None:
            return self.completed(self.replay.start_with(version, baseline))
        if start.starts_empty(is_anonymous=is_anonymous):
            return self.completed(self.replay.start_empty(version))
        if start.is_relay_log:
            reason = f"the stream starts with {start.binlog_file}; a relay log does not say what there was before it"
        else:
            after = f"GTID set {executed}" if executed else f"{start.binlog_file}, which is not the server's first file"
            reason = f"the stream starts after {after}, and what there was then is not known"
        return self.forget_everything(Version(position, VersionOrigin.GAP), reason)

    def forget_everything(self, version: Version, reason: str) -> Version:
        """The version from which on no table is known."""
        return self.completed(self.replay.forget_everything(version, reason))

    def forget(self, version: Version, names: Iterable[TableName], reason: str) -> Version:
        """The version from which on some tables are not known."""
        unknown = tuple(TableChange(name, gap=reason) for name in sorted(names))
        for entry in unknown:
            self.replay.put_table(entry)
        return self.completed(replace(version, tables=unknown))

    def lacks_any(self, names: Iterable[TableName]) -> bool:
        """Whether a table is not known, so that its row events may help."""
        return self.unknown.concern(names, self.replay)

    def made_known_by(self, transaction: TrackedTransaction, seq: int) -> tuple[TableChange, ...]:
        """The tables that become known by the TABLE_MAPs of a transaction with this ordinal."""
        return self.unknown.made_known_by(transaction, self.replay, seq)

    def completed(self, version: Version, changes: Sequence[Change] = ()) -> Version:
        """The next version with the ids of its tables' columns and the effects on their rows; only the changes of
        users' tables, databases and views are left in it.

        Args:
            version: The version, as the replay returns it.
            changes: What its statement requests; empty if no statement made the version.
        """
        tables = tuple(entry for entry in version.tables if self.is_of_users(entry.name.database))
        unknown = [entry.name for entry in tables if entry.gap is not None]
        self.unknown.add(unknown)
        return replace(
            version,
            origin=VersionOrigin.GAP if unknown and len(unknown) == len(tables) else version.origin,
            tables=self._decided(tables, changes, version.origin),
            databases=tuple(entry for entry in version.databases if self.is_of_users(entry.name)),
            views=tuple(entry for entry in version.views if self.is_of_users(entry.name.database)),
        )

    def reconciled(self, reconciliation: Reconciliation) -> tuple[Version, ...]:
        """The versions of a snapshot, with ids and effects; the schema is then as the snapshot has it."""
        versions = tuple(
            replace(version, tables=self._decided(version.tables, (), version.origin))
            for version in reconciliation.versions
        )
        self.replay.put_databases(reconciliation.databases)
        for entry in reconciliation.known:
            self.replay.put_table(entry)
        self.replay.put_views(reconciliation.views)
        for database in reconciliation.covered:
            self.replay.cover(database)
        return versions

    def _decided(
        self, entries: tuple[TableChange, ...], changes: Sequence[Change], origin: VersionOrigin
    ) -> tuple[TableChange, ...]:
        self.partitioned.apply(entries, changes, origin)
        return self.identified.apply(entries, changes, origin)
