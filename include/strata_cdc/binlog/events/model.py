"""Typed events of a binlog, as values.
Not here: their bytes (`parse.py`), grouping into transactions (`transactions.py`)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Self

from msgspec import Struct

from strata_cdc.flavour import Vendor

if TYPE_CHECKING:
    from strata_cdc.flavour import Flavour
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid


class GtidEvent(Struct, frozen=True):
    """The head of a transaction: GTID, TAGGED_GTID or ANONYMOUS_GTID of MySQL."""

    gtid: Gtid | None
    """None for an anonymous transaction."""
    last_committed: int
    sequence_number: int
    immediate_commit_timestamp: int
    """Microseconds since 1970 UTC; 0 where the server is too old to write it (before 8.0.1)."""
    original_commit_timestamp: int
    transaction_length: int
    """Bytes from this event's start to the end of the transaction; 0 where the server does not write it."""
    ran_first_on: Flavour | None
    """The server that ran the transaction first (`immediate_server_version`); None if not known."""


class AlterPhase(StrEnum):
    """What a statement of MariaDB is if ALTER is logged twice, before its work and after it (`binlog_alter_two_phase`);
    the text is the same."""

    START = "START ALTER"
    """Nothing has changed yet: other transactions, also of the same table, may follow before the end."""
    COMMIT = "COMMIT ALTER"
    """It has succeeded."""
    ROLLBACK = "ROLLBACK ALTER"
    """It has failed, and changed nothing."""


class DomainGtidEvent(Struct, frozen=True):
    """The head of a transaction of MariaDB (sql/log_event.cc, `Gtid_log_event`)."""

    gtid: Gtid
    standalone: bool
    """One statement follows, and no event that commits it."""
    transactional: bool
    ddl: bool
    """Marked as DDL by the server, which marks not all of it."""
    prepared_xa: bool
    """XA PREPARE ends it."""
    completed_xa: bool
    """It is an XA COMMIT or XA ROLLBACK."""
    commit_id: int | None
    """Equal for transactions that were committed together."""
    alter_phase: AlterPhase | None
    started_by: int | None
    """The number of the START ALTER that a COMMIT ALTER or ROLLBACK ALTER ends, in the same domain."""
    thread_id: int | None


class XaStep(StrEnum):
    """What a transaction of the binlog does to an XA transaction."""

    PREPARE = "XA PREPARE"
    """It has its rows, which take effect with `XA COMMIT`."""
    COMMIT = "XA COMMIT"
    ROLLBACK = "XA ROLLBACK"


class XaMark(Struct, frozen=True):
    """The step, and the XID as the server writes it: `X'6f70',X'',1`.

    One phase (`XA COMMIT ... ONE PHASE`) is no step: such a transaction is like any other.
    """

    step: XaStep
    xid: str

    def __str__(self) -> str:
        """As the statement: `XA COMMIT X'6f70',X'',1`."""
        return f"{self.step} {self.xid}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads what `str` gave."""
        step = next(step for step in XaStep if text.startswith(f"{step} "))
        return cls(step, text[len(step) + 1 :])


class PreviousGtids(Struct, frozen=True):
    """What had been executed before the file: PREVIOUS_GTIDS, or MariaDB's GTID_LIST."""

    gtid_set: Executed


class Rotate(Struct, frozen=True):
    """The name of the next file and the offset at which it continues."""

    file: str
    offset: int


class Stop(Struct, frozen=True):
    """The server was shut down here; it continued in another file."""


class QueryContext(Struct, frozen=True):
    """What a QUERY event has besides its text (status variables); None where it does not."""

    flags2: int | None = None
    """Options of the session; what the bits mean depends on the vendor (`schema/ddl/context.py`)."""
    sql_mode: int | None = None
    client_charset: int | None = None
    """Collation id of `character_set_client`: the bytes of the statement are in its charset."""
    connection_collation: int | None = None
    server_collation: int | None = None
    database_collation: int | None = None
    utf8mb4_collation: int | None = None
    """`default_collation_for_utf8mb4`."""
    explicit_defaults_for_timestamp: bool | None = None
    ddl_xid: int | None = None
    table_map_for_update: int | None = None
    alter_phase: AlterPhase | None = None
    """Of MariaDB, for an ALTER TABLE in two phases."""
    charset_collations: tuple[tuple[int, int], ...] | None = None
    """`character_set_collations` of MariaDB: pairs of the collation id that is a charset's built-in default, and of the
    session's default for that charset. Only of statements that name a charset without a collation."""
    time_zone: str | None = None
    """Of the session; only of statements that used it (`THD::time_zone_used`)."""
    microseconds: int | None = None
    """Of MariaDB: the part of a second at which the statement began; only of statements that used it, and not if it is
    zero."""
    invoker: str | None = None
    """`user@host`; only of statements that need it to give their object a definer (`THD::need_binlog_invoker`: views,
    triggers, routines, events, accounts), never of what is done to tables."""


class Query(Struct, frozen=True):
    """A statement: DDL, BEGIN, COMMIT, XA, or rows changed in statement format."""

    database: str
    """The session's default database, '' if none."""
    statement: bytes
    error_code: int
    context: QueryContext
    thread_id: int | None = None
    """The session, which owns temporary tables."""
    thread_specific: bool | None = None
    """Whether it uses a temporary table of its session (`LOG_EVENT_THREAD_SPECIFIC_F`); None where the header was not
    looked at."""
    server_id: int | None = None
    """Of the server that ran it first, by its event's header; None where that was not looked at."""
    began_at: int | None = None
    """When it began, seconds UTC, by its event's header; None where that was not looked at."""
    ends_transaction: bool | None = None
    """Whether it is the last event of its transaction, as DDL without rows is; None where that was not looked at."""


class Xid(Struct, frozen=True):
    """The commit of a transaction that the storage engines prepared."""

    xid: int


class XaPrepare(Struct, frozen=True):
    """The end of the first phase of an XA transaction, or of its only one."""

    format_id: int
    gtrid: bytes
    bqual: bytes
    one_phase: bool


class RowsQuery(Struct, frozen=True):
    """The text of the statement whose row events follow (`binlog_rows_query_log_events`, or MariaDB's
    `binlog_annotate_row_events`)."""

    statement: bytes


class Incident(Struct, frozen=True):
    """The server reports that something is missing from its binlog."""

    number: int
    """1 is LOST_EVENTS, the only one there is."""
    message: str


class ServerHeartbeat(Struct, frozen=True):
    """Sent over a connection when there is nothing else to send: the server's position."""

    file: str
    offset: int | None
    """None in the older form, which has it in the header."""


class ViewChange(Struct, frozen=True):
    """A change of the members of a replication group."""

    view_id: str
    sequence_number: int


class TableMap(Struct, frozen=True):
    """The physical shape that the following row events have (MySQL, `Table_map_event`)."""

    table_id: int
    flags: int
    database: str
    table: str
    types: tuple[int, ...]
    """Binlog type code of each column; for MYSQL_TYPE_STRING the real type (ENUM 247, SET 248) is resolved."""
    metadata: tuple[int, ...]
    """Type-dependent: length in bytes for VARCHAR and CHAR, precision << 8 | scale for decimals, whole bytes << 8 |
    left-over bits for BIT, digits of the fraction for times, bytes of the length for BLOB and the like, bytes of the
    number for ENUM and SET; 0 for the others."""
    nullable: tuple[bool, ...]
    unsigned: tuple[bool, ...] | None
    """Per column, False for those that are not numeric; None where the server is too old to write it."""
    collations: tuple[int, ...] | None
    """Collation id per column, 0 for those without; None if not written. ENUM and SET only under FULL."""
    names: tuple[str, ...] | None
    """FULL only."""
    labels: tuple[tuple[bytes, ...] | None, ...] | None
    """FULL only: members of ENUM and SET columns, in the column's charset."""
    primary_key: tuple[int, ...] | None
    """FULL only: indexes of columns."""
    visible: tuple[bool, ...] | None
    """FULL only."""
    geometry_types: tuple[int, ...] | None
    """Of the GEOMETRY columns only, in their order."""
    vector_dimensions: tuple[int, ...] | None
    """Of the VECTOR columns only, in their order."""
    body: bytes
    """The event's body after the table id and flags: equal bytes are an equal shape."""
    vendor: Vendor = Vendor.MYSQL
    """Of the server that wrote it: which metadata it writes, and which hidden columns, depends on that."""


class TableRows(Struct, frozen=True):
    """What a transaction did to one table."""

    database: str
    table: str
    row_events: int
    rows: int
    """Changed rows; an update counts once."""


class SplitPoint(Struct, frozen=True):
    """An event boundary inside a large transaction from which decoding can start."""

    offset: int
    """Bytes in the segment: a row event or a TABLE_MAP."""
    row: int
    """Ordinal of the first row after it in the transaction."""
    table_maps: tuple[int, ...]
    """Offsets of the TABLE_MAP events that are in force there."""


class TransactionRecord(Struct, frozen=True):
    """One row of the transaction index."""

    seq: int
    """Ordinal in the landed stream of the source, from 1; in plain files from 1."""
    gtid: Gtid | None
    begin: int
    """Offset in the segment (bytes) of the GTID event, or of the first event where there is none."""
    end: int
    """Offset after the last event of the transaction."""
    binlog_file: str
    """The server's name for the file."""
    binlog_pos: int
    """Offset of `begin` in the server's file."""
    committed_at: int
    """Microseconds UTC on the commit clock."""
    commit_timestamp: int
    """The transaction's own immediate commit timestamp, microseconds UTC."""
    tables: tuple[TableRows, ...]
    ddl_offsets: tuple[int, ...]
    """Offsets in the segment of QUERY events that are not BEGIN, COMMIT, SAVEPOINT, XA and the like."""
    splits: tuple[SplitPoint, ...]
    incident: str | None = None
    """The server's message if it lost events here (INCIDENT): changes are missing from the stream."""
    mark: XaMark | None = None
    """Its XA step. The rows of a transaction that prepares count with the `XA COMMIT` that follows, if any."""

    @property
    def server_end(self) -> int:
        """Offset of `end` in the server's file."""
        return self.binlog_pos + self.end - self.begin

    @property
    def has_changes(self) -> bool:
        """Whether it may have changed anything: it has rows or statements, or the server lost events of it."""
        return bool(self.tables or self.ddl_offsets or self.incident is not None)

    @property
    def is_only_rows(self) -> bool:
        """Whether rows are all that it has: no statement, nothing of XA, and the server lost nothing."""
        return not self.ddl_offsets and self.incident is None and self.mark is None
