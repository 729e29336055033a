"""Versions of DDL that has not been tracked in the store yet. A stream tracks it for itself, in memory, in addition to
what the store has. The stream never writes the store: tracking makes the same versions there when the DDL has landed.
Not here: tracking (`schema/tracker/track.py`), following a stream with it (`versions.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.schema.history.memory_store import MemoryStore
from strata_cdc.schema.history.view_history import present_views

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.sql_store import SchemaStore
    from strata_cdc.schema.history.versions import (
        Before,
        DatabaseEntry,
        StoredEntry,
        StoredView,
        TemporarySessions,
        TrackedFile,
        VersionPosition,
        ViewEntry,
    )
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_AHEAD: Final = 1 << 62
"""Ids from here on are of versions in memory: they are larger than all ids of the store, because a later id takes
precedence."""


class UntrackedVersions(MemoryStore):
    """A `VersionStore` of one source: what the store had when this object was made, and what is appended here."""

    def __init__(self, stored: SchemaStore, source: str) -> None:
        """Continues where the store ends."""
        super().__init__()
        self._stored = stored
        self._source = source
        known = stored.position(source)
        if known is not None:
            self._positions[source] = known
        self._base_seq = known.seq if known else -1
        """What the store has after this ordinal was tracked later; here it comes from the stream itself."""
        self._last_id = _AHEAD

    def _is_old(self, seq: int) -> bool:
        return seq <= self._base_seq

    def sources(self) -> list[str]:
        """As `VersionStore.sources`."""
        return sorted({*self._positions, *self._stored.sources()})

    def temporary_tables(self, source: str) -> TemporarySessions:
        """As `VersionStore.temporary_tables`."""
        return self._temporary_tables.get(source) or self._stored.temporary_tables(source)

    def pending_snapshots(self, source: str) -> list[SchemaSnapshot]:
        """As `VersionStore.pending_snapshots`."""
        return self._stored.pending_snapshots(source)

    def timeline(self, source: str, names: Iterable[TableName]) -> list[StoredEntry]:
        """As `VersionStore.timeline`."""
        wanted = set(names)
        mine = (entry for entry in self._entries.get(source, ()) if entry.name in wanted)
        return self._both(self._stored.timeline(source, wanted), mine)

    def all_entries(self, source: str) -> list[StoredEntry]:
        """As `VersionStore.all_entries`."""
        return self._both(self._stored.all_entries(source), self._entries.get(source, ()))

    def newest_entries(self, source: str) -> list[StoredEntry]:
        """As `VersionStore.newest_entries`."""
        by_id = sorted(self.all_entries(source), key=lambda entry: entry.version_id)
        return list({entry.name: entry for entry in by_id}.values())

    def entries_between(self, first_seq: int, last_seq: int) -> list[StoredEntry]:
        """Returns the entries of consecutive transactions."""
        mine = (entry for entry in self._entries.get(self._source, ()) if first_seq <= entry.seq <= last_seq)
        if not self._is_old(first_seq):
            return list(mine)
        return self._both(self._stored.entries_between(self._source, first_seq, last_seq), mine)

    def statement_versions(self, first_seq: int, last_seq: int) -> list[tuple[int, int, int]]:
        """Returns what the statements of consecutive transactions made: ordinal, number in the transaction, id of the
        version."""
        stored = self._stored.statement_versions(self._source, first_seq, last_seq) if self._is_old(first_seq) else []
        mine = ((version.position, at) for at, version in self._versions.get(self._source, ()) if version.is_statement)
        return [
            *(change for change in stored if self._is_old(change[0])),
            *(
                (position.seq, position.statement_no, at)
                for position, at in mine
                if first_seq <= position.seq <= last_seq
            ),
        ]

    def _both(self, stored: Iterable[StoredEntry], mine: Iterable[StoredEntry]) -> list[StoredEntry]:
        return sorted(
            (*(change for change in stored if self._is_old(change.seq)), *mine), key=lambda entry: entry.order
        )

    def newest_position(self, source: str, before: Before) -> VersionPosition | None:
        """As `VersionStore.newest_position`."""
        return super().newest_position(source, before) or self._stored.newest_position(source, before)

    def names(self, source: str, database: str) -> list[TableName]:
        """As `VersionStore.names`."""
        return list({*super().names(source, database), *self._stored.names(source, database)})

    def names_in_doubt(self, source: str) -> set[TableName]:
        """As `VersionStore.names_in_doubt`."""
        return super().names_in_doubt(source) | self._stored.names_in_doubt(source)

    def definition(self, fingerprint: str) -> TableDefinition:
        """As `VersionStore.definition`."""
        return self._definitions.get(fingerprint) or self._stored.definition(fingerprint)

    def load_definitions(self, fingerprints: Iterable[str]) -> None:
        """As `VersionStore.load_definitions`."""
        self._stored.load_definitions(
            fingerprint for fingerprint in fingerprints if fingerprint not in self._definitions
        )

    def ddl(self, version_id: int) -> str | None:
        """As `VersionStore.ddl`."""
        return super().ddl(version_id) if version_id > _AHEAD else self._stored.ddl(version_id)

    def database(self, source: str, name: str) -> DatabaseEntry | None:
        """As `VersionStore.database`."""
        return super().database(source, name) or self._stored.database(source, name)

    def views(self, source: str, database: str) -> list[ViewEntry]:
        """As `VersionStore.views`."""
        return present_views(self.all_views(source), database)

    def all_views(self, source: str) -> list[StoredView]:
        """As `VersionStore.all_views`."""
        stored = [view for view in self._stored.all_views(source) if self._is_old(view.seq)]
        return [*stored, *super().all_views(source)]

    def files(self, source: str, binlog_file: str | None = None) -> list[TrackedFile]:
        """As `VersionStore.files`."""
        stored = [file for file in self._stored.files(source, binlog_file) if self._is_old(file.last_seq)]
        return [*stored, *super().files(source, binlog_file)]


def shown_id(version_id: int) -> int:
    """Returns a version's id as a reader gets it: the store's id, or -1, -2, ... for a version that the store does not
    have yet."""
    return version_id if version_id <= _AHEAD else _AHEAD - version_id
