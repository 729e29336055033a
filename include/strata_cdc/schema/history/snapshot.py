"""A reading of a live server that the tracker compares with the stream, as a value.
Not here: taking it (`schema/live/engine.py`), keeping it (`snapshot_ledger.py`), what it settles
(`schema/tracker/reconcile.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.schema.history.versions import DatabaseEntry
    from strata_cdc.schema.model.definition import TableName

PENDING: Final = "pending"
APPLIED: Final = "applied"
USELESS: Final = "useless"


class SchemaSnapshot(Struct, frozen=True):
    """A server's schema as it was between two GTID sets, or at a position, definitions by fingerprint."""

    source: str
    gtid_before: str
    """Executed before the first read."""
    gtid_executed: str
    """Executed after the last one."""
    taken_at: int
    """Microseconds UTC."""
    server_version: int
    lower_case_table_names: int
    tables: dict[TableName, str]
    databases: tuple[DatabaseEntry, ...] = ()
    views: tuple[TableName, ...] = ()
    seen_databases: frozenset[str] | None = None
    """Databases that the user sees in full; None: every database, so that a table that is not here is not there."""
    hidden: tuple[str, ...] = ()
    """What the user's grants hide, in sentences."""
    position: BinlogPosition | None = None
    """Where the server's binlog ended at that moment, if that is told by its files; the GTID sets do not count then."""
    server_uuid: str = ""
    """Whose files they are."""
    cascades: tuple[TableName, ...] = ()
    """Tables whose rows foreign keys change without row events."""
    doubtful: Mapping[TableName, str] = field(default_factory=dict)
    """Tables of which the server does not tell every label or default in full, and why."""
    id: int = 0

    def sees_all_of(self, database: str) -> bool:
        """Whether a table of that database that is not in the snapshot does not exist."""
        return self.seen_databases is None or database in self.seen_databases
