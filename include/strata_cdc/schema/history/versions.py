"""Versions of tables, databases and views along one source's stream, as values.
Not here: the definition of a table (`schema/model/definition.py`), storing versions (`sql_store.py`), looking them up
(`historian.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.schema.model.column_ids import ColumnIds
from strata_cdc.schema.model.definition import TableName
from strata_cdc.schema.model.row_effects import RowEffect, read_again

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.schema.model.definition import TableDefinition
    from strata_cdc.schema.model.view import ViewDefinition

EVERY_TABLE: Final = TableName("", "")
"""The name for all tables of a source that no newer version names."""

SYSTEM_DATABASES: Final = frozenset({"mysql", "sys", "performance_schema", "information_schema"})
"""Never decoded as user data: the server's own databases, and the default database of the store."""


def every_table_of(database: str) -> TableName:
    """The name for all tables of a database that no newer version names."""
    return TableName(database, "")


class VersionOrigin(StrEnum):
    """How a version became known."""

    BASELINE = "baseline"
    """The state at the start of the stream, or a difference between a snapshot and the replay."""
    DDL = "ddl"
    """Replayed from the stream."""
    METADATA = "metadata"
    """From a TABLE_MAP with FULL metadata."""
    RELOAD = "reload"
    """From a snapshot, for a table that no statement changed between this position and the snapshot."""
    GAP = "gap"
    """Unknown from here on: a statement that was not understood, or a hole in the stream."""

    @property
    def shown(self) -> str:
        """For people."""
        return {VersionOrigin.DDL: "DDL", VersionOrigin.METADATA: "row metadata", VersionOrigin.RELOAD: "snapshot"}.get(
            self, self.value
        )


UNDECIDED: Final = read_again("the effect on the rows has not been decided")
"""The effect of a change that was tracked before effects were stored, or whose effect is not decided yet."""


class TableChange(Struct, frozen=True):
    """The effect of one version on one table, and on its rows."""

    name: TableName
    definition: TableDefinition | None = None
    """None: from here on the table does not exist, or (`gap`) its definition is not known."""
    gap: str | None = None
    """Why the definition is not known."""
    renamed_from: TableName | None = None
    """The rows come from the table that had this name."""
    columns: ColumnIds | None = None
    """The ids of the definition's columns; None without a definition, if they are not assigned yet, or not needed."""
    effect: RowEffect = UNDECIDED
    """The effect on the table's rows."""
    version_id: int = 0
    """Id of the stored version; 0 if it is not stored yet."""
    order: tuple[int, int, int] = (0, 0, 0)
    """Transaction, number of the statement, id of the version: equal for all tables of one statement."""
    gtid: str | None = None
    """Of the transaction; None if it has none, or the version comes from no DDL."""
    committed_at: int = 0
    """Microseconds UTC; 0 if the version is not stored yet."""


class NamePresence(StrEnum):
    """Whether a database or view exists."""

    PRESENT = "present"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


class DatabaseEntry(Struct, frozen=True):
    """The defaults of a database for new tables; the name '' stands for every database."""

    name: str
    presence: NamePresence
    character_set: str | None = None
    collation: str | None = None


class ViewEntry(Struct, frozen=True):
    """A view: it uses a name that a table could have."""

    name: TableName
    presence: NamePresence
    definition: ViewDefinition | None = None
    """None if it does not exist, or if its text is not known."""


class VersionPosition(Struct, frozen=True):
    """The position in its source's stream from which on a version is valid."""

    seq: int
    """It is valid for transactions with this ordinal and later ones; 0 is before the first."""
    statement_no: int
    """The number of the DDL in its transaction, from 1; 0 is before the transaction's own DDL."""
    gtid_executed: str
    """The GTID set up to and including it."""
    committed_at: int
    """Microseconds UTC on the commit clock."""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    """Offset in the server's file where the QUERY event starts."""


class Before(Struct, frozen=True):
    """A condition for positions before a position; without a value, all positions meet it."""

    seq: int | None = None
    """Positions of this transaction and of earlier ones."""
    committed_at: int | None = None
    """Positions of an earlier time (microseconds UTC)."""
    first_seq: int | None = None
    """Positions of earlier transactions; and positions in the file below, before its offset, up to `last_seq`."""
    last_seq: int = 0
    binlog_file: str = ""
    binlog_pos: int = 0

    def holds_for(self, position: VersionPosition) -> bool:
        """Whether a position meets the condition."""
        if self.seq is not None:
            return position.seq <= self.seq
        if self.committed_at is not None:
            return position.committed_at < self.committed_at
        if self.first_seq is None or position.seq < self.first_seq:
            return True
        in_file = position.binlog_file == self.binlog_file and position.binlog_pos is not None
        return in_file and position.seq <= self.last_seq and (position.binlog_pos or 0) < self.binlog_pos


class Session(Struct, frozen=True, omit_defaults=True):
    """Who ran a statement, as far as its QUERY event has it: MySQL logs no account for statements on tables."""

    server_id: int | None = None
    """Of the server that ran the statement first."""
    thread_id: int | None = None
    """The session there: `CONNECTION_ID()`, as in the logs of that server. After a restart, the ids begin anew."""
    invoker: str | None = None
    """`user@host`, if the event has it."""


class Version(Struct, frozen=True):
    """One row of the version table with all its changes."""

    position: VersionPosition
    origin: VersionOrigin
    gtid: str | None = None
    ddl: str | None = None
    default_database: str | None = None
    sql_mode: int | None = None
    server_version: int | None = None
    time_zone: str | None = None
    session: Session | None = None
    missing: str | None = None
    """The GTID set that is missing in a hole of the stream."""
    tables: tuple[TableChange, ...] = ()
    databases: tuple[DatabaseEntry, ...] = ()
    views: tuple[ViewEntry, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether it changes a table, a database or a view."""
        return bool(self.tables or self.databases or self.views)

    @property
    def is_statement(self) -> bool:
        """Whether a DDL made it, understood or not. Such a version is stored only once, however often it is read."""
        return self.position.statement_no > 0 and self.origin in {VersionOrigin.DDL, VersionOrigin.GAP}


class TrackedPosition(Struct, frozen=True):
    """The position up to which a source's stream has been read."""

    source: str
    seq: int = 0
    """Ordinal of the last transaction."""
    gtid_executed: str = ""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    """Offset after it in the server's file."""
    committed_at: int = 0
    server_version: int = 0
    lower_case_table_names: int = 0
    revision: int = 0
    """The number of writes to the store."""
    last_column_id: int = 0
    """The newest column id that was assigned."""


class TrackedFile(Struct, frozen=True):
    """A part of a server's binlog file that has been read, and its position in the stream."""

    binlog_file: str
    identity: str
    """See `FileStart`."""
    begin_pos: int
    end_pos: int
    first_seq: int
    """The ordinal of the first transaction that starts in it; that of the next transaction if none does."""
    last_seq: int
    gtid_before: str
    gtid_executed: str
    committed_at: int
    """The commit clock at its end."""


def grouped_by_file(parts: Iterable[TrackedFile]) -> list[list[TrackedFile]]:
    """Parts of files of one name, grouped by file."""
    files: dict[str, list[TrackedFile]] = {}
    for part in parts:
        files.setdefault(part.identity, []).append(part)
    return list(files.values())


class StatementChange(Struct, frozen=True):
    """Rows that a statement changed, so that they are not in the binlog."""

    seq: int
    gtid: str | None
    binlog_file: str
    binlog_pos: int
    tables: tuple[TableName, ...]
    """Empty if no table is known."""
    statement: str


class RowRemoval(Struct, frozen=True):
    """The effect of a DDL on rows of one table without row events: TRUNCATE, DROP PARTITION and similar statements."""

    seq: int
    gtid: str | None
    binlog_pos: int
    name: TableName
    statement: str
    effect: RowEffect


class PartitionChange(Struct, frozen=True):
    """An ALTER TABLE that names partitions, as it was written. Without a table: before it, such statements were not
    stored."""

    seq: int
    binlog_pos: int
    name: TableName
    statement: str
    sql_mode: int
    server_version: int | None
    time_zone: str | None


class Drift(Struct, frozen=True):
    """A difference between a snapshot and the replayed stream for one table."""

    snapshot_id: int
    name: TableName
    seq: int
    gtid_executed: str
    replayed: TableDefinition | None
    found: TableDefinition | None
    doubted_after: int | None = None
    """The last transaction whose rows the replayed definition certainly describes, if rows could be misread with it;
    not stored."""


class Confirmation(Struct, frozen=True):
    """Which tables an applied snapshot has shown to be as the stream had them."""

    position: VersionPosition
    """After everything that was tracked when the snapshot was compared."""
    seen_databases: frozenset[str] | None
    """As in `SchemaSnapshot`."""
    unconfirmed: frozenset[TableName]
    """Tables of these databases that were not compared, or not completely."""

    def confirms(self, name: TableName) -> bool:
        """Whether a table that was known before the position was there as it was known."""
        is_seen = self.seen_databases is None or name.database in self.seen_databases
        return is_seen and name not in self.unconfirmed


class SnapshotOutcome(Struct, frozen=True):
    """The result of a snapshot in the tracker."""

    snapshot_id: int
    state: str
    outcome: str
    seq: int = 0
    """The transaction from which on the snapshot is valid."""
    cascades: tuple[TableName, ...] = ()
    """Tables for which the snapshot found that foreign keys change their rows without row events."""
    confirmed: Confirmation | None = None
    """None if the snapshot was not applied."""


class SessionTables(Struct, array_like=True, frozen=True):
    """The temporary tables of one session."""

    thread_id: int | None
    names: tuple[tuple[str, str], ...]
    """Database and table."""
    known: tuple[tuple[str, str], ...] = ()
    """For each table its definition as JSON, or why it is not known; the other text is empty. Empty if a former version
    of Strata stored only the names."""


class TemporarySessions(Struct, frozen=True, rename={"knows_all": "all"}):
    """The temporary tables of sessions at a position, from which a later run continues the stream."""

    knows_all: bool = False
    """Whether all of them were seen, from the start of the server on."""
    sessions: tuple[SessionTables, ...] = ()


class VersionBatch(Struct, frozen=True):
    """The content of one transaction of the store: everything up to a position in the stream, or nothing."""

    position: TrackedPosition
    versions: tuple[Version, ...] = ()
    files: tuple[TrackedFile, ...] = ()
    statements: tuple[StatementChange, ...] = ()
    removals: tuple[RowRemoval, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    drifts: tuple[Drift, ...] = ()
    snapshots: tuple[SnapshotOutcome, ...] = ()
    temporary_tables: TemporarySessions | None = None
    """None if they did not change."""


class StoredEntry(Struct, frozen=True, gc=False):
    """One stored row of a table's timeline: small, without definition and DDL text.

    There are many, and none has reference cycles: garbage collection need not scan them.
    """

    version_id: int
    seq: int
    statement_no: int
    gtid: str | None
    gtid_executed: str
    committed_at: int
    binlog_file: str | None
    binlog_pos: int | None
    origin: VersionOrigin
    missing: str | None
    name: TableName
    fingerprint: str | None
    gap: str | None
    renamed_from: TableName | None = None
    column_ids: str | None = None
    """The output of `ColumnIds.to_text`; None without a definition."""
    effect_text: str | None = None
    """The output of `RowEffect.to_text`."""

    @property
    def columns(self) -> ColumnIds | None:
        """The ids of the definition's columns."""
        return None if self.column_ids is None else ColumnIds.from_text(self.column_ids)

    @property
    def effect(self) -> RowEffect:
        """The effect on the table's rows.

        Raises:
            DamagedFileError: The stored text is not valid.
        """
        return UNDECIDED if self.effect_text is None else RowEffect.from_text(self.effect_text)

    @property
    def order(self) -> tuple[int, int, int, TableName]:
        """Later entries override earlier ones: a correction has the position of the entry that it corrects, and a later
        id. Within a version a table's own entry overrides an entry for all tables, whose name '' comes first."""
        return self.seq, self.statement_no, self.version_id, self.name

    @property
    def is_statement(self) -> bool:
        """Whether a DDL made it, understood or not; False for a baseline, a snapshot or a hole."""
        return self.statement_no > 0 and self.origin in {VersionOrigin.DDL, VersionOrigin.GAP}

    @property
    def made_by(self) -> str:
        """What made it, for people: a transaction, or a snapshot at a GTID set."""
        if self.gtid is not None or self.is_statement or self.gap is not None:
            return self.gtid or f"transaction {self.seq}"
        return f"known since the {self.origin.shown} at {self.gtid_executed or 'the start of the stream'}"


class StoredView(Struct, frozen=True):
    """One stored row of a view's timeline."""

    version_id: int
    seq: int
    statement_no: int
    gtid: str | None
    gtid_executed: str
    binlog_file: str | None
    binlog_pos: int | None
    origin: VersionOrigin
    entry: ViewEntry

    @property
    def name(self) -> TableName:
        """The view's name."""
        return self.entry.name

    @property
    def order(self) -> tuple[int, int, int]:
        """As `StoredEntry.order`, without the name."""
        return self.seq, self.statement_no, self.version_id

    @property
    def is_statement(self) -> bool:
        """As `StoredEntry.is_statement`."""
        return self.statement_no > 0 and self.origin in {VersionOrigin.DDL, VersionOrigin.GAP}


class SchemaVersion(Struct, frozen=True):
    """The definition of one table from one version on."""

    version_id: int
    definition: TableDefinition
    fingerprint: str
    seq: int
    gtid: str | None
    origin: VersionOrigin = VersionOrigin.DDL
