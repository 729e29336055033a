"""Versions of tables, databases and views along one source's stream, as values.
Not here: what a table looks like (`schema/model/definition.py`), keeping them (`sql_store.py`), asking for them
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

EVERY_TABLE: Final = TableName("", "")
"""Stands for all tables of a source that no newer version names."""

SYSTEM_DATABASES: Final = frozenset({"mysql", "sys", "performance_schema", "information_schema"})
"""Never decoded as user data: the server's own, and where the store lives by default."""


def every_table_of(database: str) -> TableName:
    """Stands for all tables of a database that no newer version names."""
    return TableName(database, "")


class VersionOrigin(StrEnum):
    """How a version became known."""

    BASELINE = "baseline"
    """What there was at the start of the stream, or what a snapshot found to differ from the replay."""
    DDL = "ddl"
    """Replayed from the stream."""
    METADATA = "metadata"
    """From a TABLE_MAP with FULL metadata."""
    RELOAD = "reload"
    """From a snapshot, of a table that nothing had touched between here and there."""
    GAP = "gap"
    """Unknown from here: a statement that was not understood, or a hole in the stream."""

    @property
    def shown(self) -> str:
        """For people."""
        return {VersionOrigin.DDL: "DDL", VersionOrigin.METADATA: "row metadata", VersionOrigin.RELOAD: "snapshot"}.get(
            self, self.value
        )


class TableEntry(Struct, frozen=True):
    """What one version says of one table."""

    name: TableName
    definition: TableDefinition | None = None
    """None: there is no such table from here on, or (`gap`) its definition is not known."""
    gap: str | None = None
    """Why the definition is not known."""
    renamed_from: TableName | None = None
    columns: ColumnIds | None = None
    """Of the definition's columns; None without one, and where nobody has given them yet."""
    effect: RowEffect | None = None
    """What it does to the table's rows; None where nobody has decided it yet."""


class NamePresence(StrEnum):
    """Whether a database or view is there."""

    PRESENT = "present"
    DROPPED = "dropped"
    UNKNOWN = "unknown"


class DatabaseEntry(Struct, frozen=True):
    """The defaults that a database gives to new tables; the name '' speaks for every database."""

    name: str
    presence: NamePresence
    character_set: str | None = None
    collation: str | None = None


class ViewEntry(Struct, frozen=True):
    """A view: it takes a name that a table could have."""

    name: TableName
    presence: NamePresence


class VersionPlace(Struct, frozen=True):
    """Where in its source's stream a version begins to hold."""

    seq: int
    """It holds for transactions with this ordinal and later ones; 0 is before the first."""
    statement_no: int
    """Of the DDL in its transaction, from 1; 0 comes before the transaction's own DDL."""
    gtid_executed: str
    """GTID set up to and with it."""
    committed_at: int
    """Microseconds UTC on the commit clock."""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    """Offset in the server's file where the QUERY event starts."""


class Before(Struct, frozen=True):
    """Which places lie before a position; all do if nothing is said."""

    seq: int | None = None
    """Those of this transaction, and of earlier ones."""
    committed_at: int | None = None
    """Those that are earlier (microseconds UTC)."""
    first_seq: int | None = None
    """Those of earlier transactions; and those of the file below, in front of its offset, up to `last_seq`."""
    last_seq: int = 0
    binlog_file: str = ""
    binlog_pos: int = 0

    def holds_for(self, place: VersionPlace) -> bool:
        """Whether a place is one of them."""
        if self.seq is not None:
            return place.seq <= self.seq
        if self.committed_at is not None:
            return place.committed_at < self.committed_at
        if self.first_seq is None or place.seq < self.first_seq:
            return True
        in_file = place.binlog_file == self.binlog_file and place.binlog_pos is not None
        return in_file and place.seq <= self.last_seq and (place.binlog_pos or 0) < self.binlog_pos


class Session(Struct, frozen=True):
    """Who ran a statement, as far as its QUERY event tells: MySQL writes no account for what is done to tables."""

    server_id: int | None
    """Of the server that ran it first."""
    thread_id: int | None
    """The session there: `CONNECTION_ID()`, as the logs of that server name it. A restart begins anew."""
    invoker: str | None
    """`user@host`, where the event has it."""


class Version(Struct, frozen=True):
    """One row of the version table with all that it changes."""

    place: VersionPlace
    origin: VersionOrigin
    gtid: str | None = None
    ddl: str | None = None
    default_database: str | None = None
    sql_mode: int | None = None
    server_version: int | None = None
    time_zone: str | None = None
    session: Session | None = None
    missing: str | None = None
    """GTID set that a hole in the stream has swallowed."""
    tables: tuple[TableEntry, ...] = ()
    databases: tuple[DatabaseEntry, ...] = ()
    views: tuple[ViewEntry, ...] = ()

    @property
    def is_statement(self) -> bool:
        """Whether a DDL made it, understood or not, which is stored once however often it is read."""
        return self.place.statement_no > 0 and self.origin in {VersionOrigin.DDL, VersionOrigin.GAP}


class TrackedPosition(Struct, frozen=True):
    """How far a source's stream has been read."""

    source: str
    seq: int = 0
    """Ordinal of the last transaction."""
    gtid_executed: str = ""
    binlog_file: str | None = None
    binlog_pos: int | None = None
    """Offset behind it in the server's file."""
    committed_at: int = 0
    server_version: int = 0
    lower_case_table_names: int = 0
    revision: int = 0
    """Counts the store's writes."""
    last_column_id: int = 0
    """The newest that was given."""


class TrackedFile(Struct, frozen=True):
    """A part of a server's binlog file that has been read, and where it lies in the stream."""

    binlog_file: str
    identity: str
    """As of `FileStart`."""
    begin_pos: int
    end_pos: int
    first_seq: int
    """Of the first transaction that starts in it; the next one to come if none does."""
    last_seq: int
    gtid_before: str
    gtid_executed: str
    committed_at: int
    """Commit clock at its end."""


def grouped_by_file(parts: Iterable[TrackedFile]) -> list[list[TrackedFile]]:
    """Parts of files of one name, by the file that they are of."""
    found: dict[str, list[TrackedFile]] = {}
    for part in parts:
        found.setdefault(part.identity, []).append(part)
    return list(found.values())


class StatementChange(Struct, frozen=True):
    """Rows that a statement changed, so that the binlog does not hold them."""

    seq: int
    gtid: str | None
    binlog_file: str
    binlog_pos: int
    tables: tuple[TableName, ...]
    """Empty where none could be told."""
    statement: str


class RowRemoval(Struct, frozen=True):
    """What a DDL did to rows of one table without row events: TRUNCATE, DROP PARTITION and their kin."""

    seq: int
    gtid: str | None
    binlog_pos: int
    name: TableName
    statement: str
    effect: RowEffect


class PartitionChange(Struct, frozen=True):
    """An ALTER TABLE that names partitions, as it was written; without a table: none in front of it was noted."""

    seq: int
    binlog_pos: int
    name: TableName
    statement: str
    sql_mode: int
    server_version: int | None
    time_zone: str | None


class Drift(Struct, frozen=True):
    """A table that a snapshot found other than the replayed stream has it."""

    snapshot_id: int
    name: TableName
    seq: int
    gtid_executed: str
    replayed: TableDefinition | None
    found: TableDefinition | None


class SnapshotOutcome(Struct, frozen=True):
    """What the tracker made of a snapshot."""

    snapshot_id: int
    state: str
    outcome: str
    seq: int = 0
    """From which transaction on it speaks."""
    cascades: tuple[TableName, ...] = ()
    """Tables that it found which foreign keys change without row events."""


class SessionTables(Struct, array_like=True, frozen=True):
    """The temporary tables of one session."""

    thread_id: int | None
    names: tuple[tuple[str, str], ...]
    """Database and table."""
    known: tuple[tuple[str, str], ...] = ()
    """Of each the definition as JSON, or why it is not known; the other text is empty. None of any: a former version
    wrote the names alone."""


class TemporarySessions(Struct, frozen=True, rename={"knows_all": "all"}):
    """What sessions have of temporary tables at a position, for whoever goes on with the stream later."""

    knows_all: bool = False
    """Whether all of them were seen from the start of the server on."""
    sessions: tuple[SessionTables, ...] = ()


class VersionBatch(Struct, frozen=True):
    """What one transaction of the store takes: everything up to a position in the stream, or nothing."""

    position: TrackedPosition
    versions: tuple[Version, ...] = ()
    files: tuple[TrackedFile, ...] = ()
    statements: tuple[StatementChange, ...] = ()
    removals: tuple[RowRemoval, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    drifts: tuple[Drift, ...] = ()
    snapshots: tuple[SnapshotOutcome, ...] = ()
    temporary_tables: TemporarySessions | None = None
    """None where they are as before."""


class StoredEntry(Struct, frozen=True, gc=False):
    """One row of a table's timeline as it is stored: light, without definition and DDL text.

    There are many, and nothing in one refers back to it: garbage collection need not look at them.
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
    """As `ColumnIds.to_text`; None without a definition."""
    effect_text: str | None = None
    """As `RowEffect.to_text`."""

    @property
    def columns(self) -> ColumnIds | None:
        """The ids of the definition's columns."""
        return None if self.column_ids is None else ColumnIds.from_text(self.column_ids)

    @property
    def effect(self) -> RowEffect:
        """What it does to the table's rows.

        Raises:
            DamagedFileError: The store has something else.
        """
        if self.effect_text is None:
            return read_again("nobody has decided what became of the rows")
        return RowEffect.from_text(self.effect_text)

    @property
    def order(self) -> tuple[int, int, int, TableName]:
        """Later entries overrule earlier ones: a correction has the place of what it corrects, and a later id. Within a
        version a table's own entry overrules one on all tables, whose name '' comes first."""
        return self.seq, self.statement_no, self.version_id, self.name

    @property
    def is_statement(self) -> bool:
        """Whether a DDL made it, understood or not; not a baseline, a snapshot or a hole."""
        return self.statement_no > 0 and self.origin in {VersionOrigin.DDL, VersionOrigin.GAP}

    @property
    def made_by(self) -> str:
        """What made it, for people: a transaction, a snapshot at a GTID set."""
        if self.gtid is not None or self.is_statement or self.gap is not None:
            return self.gtid or f"transaction {self.seq}"
        return f"known since the {self.origin.shown} at {self.gtid_executed or 'the start of the stream'}"


class SchemaVersion(Struct, frozen=True):
    """The definition of one table from one version on."""

    version_id: int
    definition: TableDefinition
    fingerprint: str
    seq: int
    gtid: str | None
    origin: VersionOrigin = VersionOrigin.DDL
