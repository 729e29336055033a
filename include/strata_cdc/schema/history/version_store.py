"""The interface of a store of versions, for the tracker and the historian.
Not here: a database (`sql_store.py`), the memory of one process (`memory_store.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.history.snapshot import SchemaSnapshot
    from strata_cdc.schema.history.versions import (
        Before,
        Confirmation,
        DatabaseEntry,
        StoredEntry,
        StoredView,
        TemporarySessions,
        TrackedFile,
        TrackedPosition,
        VersionBatch,
        VersionPosition,
        ViewEntry,
    )
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.schema.model.partitions import Partitioning


class VersionStore(Protocol):
    """Versions of all sources. Stream order is the order of transactions, then of their statements, then of ids."""

    def append(self, batch: VersionBatch) -> TrackedPosition:
        """Stores a batch of the stream, all of it or nothing, and returns the new position.

        A DDL that is already stored (the same transaction and statement number) is not changed.

        Raises:
            AlreadyRunningError: Another tracker has moved the position of this source since it was read.
        """

    def sources(self) -> list[str]:
        """Names of the sources that have been tracked."""

    def position(self, source: str) -> TrackedPosition | None:
        """The position up to which a source has been tracked; None if it was never tracked."""

    def temporary_tables(self, source: str) -> TemporarySessions:
        """The temporary tables of the sessions at the position."""

    def pending_snapshots(self, source: str) -> list[SchemaSnapshot]:
        """Snapshots that no tracker has reached yet, oldest first."""

    def confirmation(self, source: str) -> Confirmation | None:
        """What the newest applied snapshot has confirmed; None if there is none, or a former version applied it."""

    def timeline(self, source: str, names: Iterable[TableName]) -> list[StoredEntry]:
        """The entries of these names, in stream order."""

    def all_entries(self, source: str) -> list[StoredEntry]:
        """Every entry of a source in stream order, within a version in order of name."""

    def newest_entries(self, source: str) -> list[StoredEntry]:
        """For each name, its entry of the version with the highest id; in any order."""

    def newest_position(self, source: str, before: Before) -> VersionPosition | None:
        """The last position of a version that is before a position of the stream."""

    def names(self, source: str, database: str) -> list[TableName]:
        """All tables that the versions name in a database, whether they exist now or not."""

    def names_in_doubt(self, source: str) -> set[TableName]:
        """All names that some version of a source has as not known, whether they are known now or not."""

    def definition(self, fingerprint: str) -> TableDefinition:
        """A stored definition."""

    def load_definitions(self, fingerprints: Iterable[str]) -> None:
        """Reads many definitions at once, so that `definition` finds them in memory."""

    def partitions(self, source: str, table: TableName) -> Partitioning | str:
        """The partitions of a table at the position; a text says why they are not known."""

    def ddl(self, version_id: int) -> str | None:
        """The statement of a version."""

    def database(self, source: str, name: str) -> DatabaseEntry | None:
        """The newest entry of a database, or of all databases; None if the versions have none."""

    def views(self, source: str, database: str) -> list[ViewEntry]:
        """The views that exist according to the newest versions."""

    def all_views(self, source: str) -> list[StoredView]:
        """Every entry of a view of a source, in stream order."""

    def files(self, source: str, binlog_file: str | None = None) -> list[TrackedFile]:
        """Parts of binlog files that have been read, in stream order."""
