"""Versions of one process, kept in memory: for binlogs that are tracked and decoded in one run, and then forgotten.
Not here: stored versions (`sql_store.py`). This module has the same contract, but does not load a database library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.schema.history.versions import (
    Before,
    Confirmation,
    DatabaseEntry,
    StoredEntry,
    StoredView,
    TemporarySessions,
    TrackedFile,
    TrackedPosition,
    VersionPosition,
)
from strata_cdc.schema.history.view_history import present_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.versions import Version, VersionBatch, ViewEntry
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.partitions import Partitioning


class MemoryStore:
    """A `VersionStore` of any number of sources. It keeps only what the tracker and the historian need."""

    def __init__(self) -> None:
        self._positions: dict[str, TrackedPosition] = {}
        self._versions: dict[str, list[tuple[int, Version]]] = {}
        """With their ids, in the order of arrival."""
        self._entries: dict[str, list[StoredEntry]] = {}
        self._definitions: dict[str, TableDefinition] = {}
        self._files: dict[str, list[TrackedFile]] = {}
        self._temporary_tables: dict[str, TemporarySessions] = {}
        self._last_id = 0

    # Writing ------------------------------------------------------------------------------------

    def append(self, batch: VersionBatch) -> TrackedPosition:
        """As `VersionStore.append`."""
        source = batch.position.source
        known = self._positions.get(source)
        if (known.revision if known else 0) != batch.position.revision:
            raise AlreadyRunningError("another tracker is at work on the same source", source=source)
        position = self._positions[source] = replace(batch.position, revision=batch.position.revision + 1)
        versions = self._versions.setdefault(source, [])
        stored = {(v.position.seq, v.position.statement_no) for _, v in versions if v.is_statement}
        for version in batch.versions:
            if version.is_statement and (version.position.seq, version.position.statement_no) in stored:
                continue
            self._last_id += 1
            versions.append((self._last_id, version))
            self._entries.setdefault(source, []).extend(self._entries_of(version))
        self._files.setdefault(source, []).extend(batch.files)
        if batch.temporary_tables is not None:
            self._temporary_tables[source] = batch.temporary_tables
        return position

    def _entries_of(self, version: Version) -> Iterator[StoredEntry]:
        position = version.position
        for entry in version.tables:
            fingerprint = None
            if entry.definition is not None:
                fingerprint = entry.definition.fingerprint
                self._definitions.setdefault(fingerprint, entry.definition)
            yield StoredEntry(
                version_id=self._last_id,
                seq=position.seq,
                statement_no=position.statement_no,
                gtid=version.gtid,
                gtid_executed=position.gtid_executed,
                committed_at=position.committed_at,
                binlog_file=position.binlog_file,
                binlog_pos=position.binlog_pos,
                origin=version.origin,
                missing=version.missing,
                name=entry.name,
                fingerprint=fingerprint,
                gap=entry.gap,
                renamed_from=entry.renamed_from,
                column_ids=entry.columns.to_text() if entry.columns else None,
                effect_text=entry.effect.to_text(),
            )

    # Reading ------------------------------------------------------------------------------------

    def sources(self) -> list[str]:
        """As `VersionStore.sources`."""
        return sorted(self._positions)

    def position(self, source: str) -> TrackedPosition | None:
        """As `VersionStore.position`."""
        return self._positions.get(source)

    def temporary_tables(self, source: str) -> TemporarySessions:
        """As `VersionStore.temporary_tables`."""
        return self._temporary_tables.get(source, TemporarySessions())

    def pending_snapshots(self, source: str) -> list[SchemaSnapshot]:  # noqa: ARG002 - the contract's
        """None: snapshots are only taken with a permanent store."""
        return []

    def confirmation(self, source: str) -> Confirmation | None:  # noqa: ARG002 - the contract's
        """None, for the same reason."""
        return None

    def timeline(self, source: str, names: Iterable[TableName]) -> list[StoredEntry]:
        """As `VersionStore.timeline`."""
        wanted = set(names)
        return [entry for entry in self.all_entries(source) if entry.name in wanted]

    def all_entries(self, source: str) -> list[StoredEntry]:
        """As `VersionStore.all_entries`."""
        return sorted(self._entries.get(source, ()), key=lambda entry: entry.order)

    def newest_entries(self, source: str) -> list[StoredEntry]:
        """As `VersionStore.newest_entries`."""
        by_id = sorted(self._entries.get(source, ()), key=lambda entry: entry.version_id)
        return list({entry.name: entry for entry in by_id}.values())

    def newest_position(self, source: str, before: Before) -> VersionPosition | None:
        """As `VersionStore.newest_position`."""
        positions = [version.position for _, version in self._ordered(source) if before.holds_for(version.position)]
        return positions[-1] if positions else None

    def names(self, source: str, database: str) -> list[TableName]:
        """As `VersionStore.names`."""
        entries = self._entries.get(source, ())
        return list({entry.name for entry in entries if entry.name.database == database and entry.name.table})

    def names_in_doubt(self, source: str) -> set[TableName]:
        """As `VersionStore.names_in_doubt`."""
        return {entry.name for entry in self._entries.get(source, ()) if entry.gap is not None}

    def definition(self, fingerprint: str) -> TableDefinition:
        """As `VersionStore.definition`."""
        return self._definitions[fingerprint]

    def load_definitions(self, fingerprints: Iterable[str]) -> None:
        """Like `VersionStore.load_definitions`; they are in memory."""

    def partitions(self, source: str, table: TableName) -> Partitioning | str:  # noqa: ARG002 - the contract's
        """Not known: only a permanent store knows what happened to the rows of partitions."""
        return "changes of partitions are not kept"

    def ddl(self, version_id: int) -> str | None:
        """As `VersionStore.ddl`."""
        versions = (version for each in self._versions.values() for at, version in each if at == version_id)
        return next((version.ddl for version in versions), None)

    def database(self, source: str, name: str) -> DatabaseEntry | None:
        """As `VersionStore.database`."""
        for _, version in reversed(self._ordered(source)):
            entries = sorted((e for e in version.databases if e.name in {name, ""}), key=lambda entry: entry.name)
            if entries:
                return replace(entries[-1], name=name)
        return None

    def views(self, source: str, database: str) -> list[ViewEntry]:
        """As `VersionStore.views`."""
        return present_views(self.all_views(source), database)

    def all_views(self, source: str) -> list[StoredView]:
        """As `VersionStore.all_views`."""
        return [
            StoredView(
                version_id=version_id,
                seq=version.position.seq,
                statement_no=version.position.statement_no,
                gtid=version.gtid,
                gtid_executed=version.position.gtid_executed,
                binlog_file=version.position.binlog_file,
                binlog_pos=version.position.binlog_pos,
                origin=version.origin,
                entry=entry,
            )
            for version_id, version in self._ordered(source)
            for entry in sorted(version.views, key=lambda view: view.name)
        ]

    def files(self, source: str, binlog_file: str | None = None) -> list[TrackedFile]:
        """As `VersionStore.files`."""
        # Sorting is stable: files that begin with the same transaction keep their order of arrival.
        parts = sorted(self._files.get(source, ()), key=lambda part: part.first_seq)
        return [part for part in parts if binlog_file in {None, part.binlog_file}]

    def _ordered(self, source: str) -> list[tuple[int, Version]]:
        versions = self._versions.get(source, [])
        return sorted(versions, key=lambda pair: (pair[1].position.seq, pair[1].position.statement_no, pair[0]))
