"""A reading of a live server's schema, which the tracker compares with the stream, as a value.
Not here: taking it (`schema/live/engine.py`), storing it (`snapshot_ledger.py`), what it decides
(`schema/tracker/reconcile.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.schema.history.versions import DatabaseEntry
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.schema.model.view import ViewDefinition

PENDING: Final = "pending"
APPLIED: Final = "applied"
USELESS: Final = "useless"


class SchemaSnapshot(Struct, frozen=True):
    """A server's schema as it was between two GTID sets, or at a position; definitions are given by fingerprint."""

    source: str
    gtid_before: str
    """The GTID set that was executed before the first read."""
    gtid_executed: str
    """The GTID set that was executed after the last read."""
    taken_at: int
    """Microseconds UTC."""
    server_version: int
    lower_case_table_names: int
    tables: dict[TableName, str]
    databases: tuple[DatabaseEntry, ...] = ()
    views: Mapping[TableName, ViewDefinition | None] = field(default_factory=dict)
    """None: the user does not see its text."""
    seen_databases: frozenset[str] | None = None
    """Databases that the user sees completely; None: every database, so that a table that is not in the snapshot does
    not exist."""
    hidden: tuple[str, ...] = ()
    """What the user's grants hide, in sentences."""
    position: BinlogPosition | None = None
    """The end of the server's binlog at that moment, if the moment is given by its files; then the GTID sets are
    ignored."""
    server_uuid: str = ""
    """The server that has these files."""
    cascades: tuple[TableName, ...] = ()
    """Tables whose rows are changed by foreign keys without row events."""
    doubtful: Mapping[TableName, str] = field(default_factory=dict)
    """Tables for which the server does not report every label or default completely, and why."""
    id: int = 0

    def sees_all_of(self, database: str) -> bool:
        """Whether a table of that database that is not in the snapshot does not exist."""
        return self.seen_databases is None or database in self.seen_databases
