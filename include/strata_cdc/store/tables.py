"""Tables of the store: the version table and the ledgers.
Not here: making them (`migrations.py`), reading and writing them (`ledgers.py`, `schema/history/sql_store.py`)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR

# Times are whole microseconds since 1970 UTC (names end in `_at`): exact, ordered and free of time zones in every
# database, where DATETIME(6) differs between them.

_NUMBER = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite gives ids by itself only to INTEGER."""
_LONG = Text().with_variant(LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")
"""DDL text and GTID sets have no bound; MySQL's TEXT ends at 64 KiB."""


def _name(length: int) -> String:
    """A text that compares byte by byte: `Orders` and `orders` are two tables where the server says so."""
    return String(length).with_variant(VARCHAR(length, collation="utf8mb4_bin"), "mysql", "mariadb")


_SOURCE = _name(64)
_MYSQL_NAME = _name(64)
_GTID = _name(96)
"""UUID (36), tag (32), number (19) and two colons."""
_FINGERPRINT = _name(64)
_BINLOG_FILE = _name(255)

METADATA = MetaData()


def _table(name: str, *parts: Column[Any] | Index | UniqueConstraint, comment: str | None = None) -> Table:
    options: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
    return Table(name, METADATA, *parts, comment=comment, **options)


store_format = _table(
    "store_format",
    Column("id", Integer, primary_key=True, autoincrement=False, comment="always 1"),
    Column("format", Integer, nullable=False),
)

# Schema history ---------------------------------------------------------------------------------

schema_version = _table(
    "schema_version",
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("source", _SOURCE, nullable=False),
    Column("seq", BigInteger, nullable=False, comment="holds for transactions from this ordinal on"),
    Column("gtid", _GTID, comment="of the DDL; NULL for anonymous ones and for what is no DDL"),
    Column("statement_no", Integer, nullable=False, comment="DDL in its transaction, from 1; 0 comes before it"),
    Column("gtid_executed", _LONG, nullable=False, comment="up to and with this version"),
    Column("binlog_file", _BINLOG_FILE),
    Column("binlog_pos", BigInteger, comment="where the QUERY event starts in the server's file"),
    Column("committed_at", BigInteger, nullable=False),
    Column("origin", _name(16), nullable=False),
    Column("ddl", _LONG),
    Column("default_database", _MYSQL_NAME),
    Column("sql_mode", BigInteger),
    Column("server_version", Integer, comment="as in executable comments: 90704"),
    Column("missing", _LONG, comment="GTIDs that a hole in the stream has swallowed"),
    Column("time_zone", _name(64), comment="of the session, where the statement used it"),
    Column("server_id", BigInteger, comment="of the server that ran the statement first"),
    Column("thread_id", BigInteger, comment="CONNECTION_ID() of its session there"),
    Column("invoker", _name(400), comment="user@host, where the event has it: never of what is done to tables"),
    UniqueConstraint("source", "gtid", "statement_no", name="schema_version_gtid"),
    Index("schema_version_seq", "source", "seq", "statement_no"),
)

table_version = _table(
    "table_version",
    Column("version_id", BigInteger, primary_key=True, autoincrement=False),
    Column("database_name", _MYSQL_NAME, primary_key=True, comment="'' speaks for every database"),
    Column("table_name", _MYSQL_NAME, primary_key=True, comment="'' speaks for every table of the database"),
    Column("source", _SOURCE, nullable=False),
    Column("fingerprint", _FINGERPRINT, comment="NULL: there is no such table, or its shape is not known"),
    Column("renamed_from", _name(130), comment="database.table that it was before this version"),
    Column("gap", _LONG, comment="why the shape is not known"),
    Column("column_ids", _LONG, comment="in order: 1-5,9 or, copies of 1 to 3, 10-12<1; NULL: not given yet"),
    Column("effect", _LONG, comment="JSON: what it does to the table's rows; empty: nothing; NULL: not decided yet"),
    Index("table_version_name", "source", "database_name", "table_name", "version_id"),
)

table_schema = _table(
    "table_schema",
    Column("fingerprint", _FINGERPRINT, primary_key=True),
    Column("format", Integer, nullable=False),
    Column("definition", _LONG, nullable=False),
)

database_version = _table(
    "database_version",
    Column("version_id", BigInteger, primary_key=True, autoincrement=False),
    Column("database_name", _MYSQL_NAME, primary_key=True, comment="'' speaks for every database"),
    Column("source", _SOURCE, nullable=False),
    Column("state", _name(8), nullable=False, comment="present, dropped, unknown"),
    Column("character_set", _name(64)),
    Column("collation", _name(64)),
    Index("database_version_name", "source", "database_name", "version_id"),
    comment="defaults that new tables inherit",
)

view_version = _table(
    "view_version",
    Column("version_id", BigInteger, primary_key=True, autoincrement=False),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("view_name", _MYSQL_NAME, primary_key=True),
    Column("source", _SOURCE, nullable=False),
    Column("state", _name(8), nullable=False, comment="present, dropped"),
    Column("definition", _LONG, comment="JSON: its query, and what decides what it means; NULL: not known"),
    Index("view_version_name", "source", "database_name", "view_name", "version_id"),
    comment="views share the names of tables",
)

# Ledgers ----------------------------------------------------------------------------------------

tracked_position = _table(
    "tracked_position",
    Column("source", _SOURCE, primary_key=True),
    Column("revision", BigInteger, nullable=False, comment="counts writes, so that two trackers cannot both win"),
    Column("seq", BigInteger, nullable=False, comment="last transaction read"),
    Column("gtid_executed", _LONG, nullable=False),
    Column("binlog_file", _BINLOG_FILE),
    Column("binlog_pos", BigInteger, comment="after the last transaction that was read"),
    Column("committed_at", BigInteger, nullable=False),
    Column("server_version", Integer, nullable=False),
    Column("lower_case_table_names", Integer, nullable=False),
    Column("last_column_id", BigInteger, comment="the newest that was given; NULL: none was given yet"),
)

tracked_file = _table(
    "tracked_file",
    Column("source", _SOURCE, primary_key=True),
    Column("first_seq", BigInteger, primary_key=True, comment="of the first transaction that starts in it"),
    Column("ordinal", Integer, primary_key=True, comment="order of files that begin with the same transaction"),
    Column("binlog_file", _BINLOG_FILE, nullable=False),
    Column("identity", _name(64), nullable=False, comment="tells files of one name apart, of several servers"),
    Column("begin_pos", BigInteger, nullable=False),
    Column("end_pos", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("gtid_before", _LONG, nullable=False, comment="executed before begin_pos"),
    Column("gtid_executed", _LONG, nullable=False, comment="executed up to end_pos"),
    Column("committed_at", BigInteger, nullable=False, comment="commit clock at end_pos"),
    Index("tracked_file_name", "source", "binlog_file"),
    comment="which part of which binlog file has been read, and where it lies in the stream",
)

snapshot = _table(
    "snapshot",
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("source", _SOURCE, nullable=False),
    Column("gtid_before", _LONG, nullable=False, comment="executed before the first read"),
    Column("gtid_executed", _LONG, nullable=False, comment="executed after the last read"),
    Column("taken_at", BigInteger, nullable=False),
    Column("server_version", Integer, nullable=False),
    Column("lower_case_table_names", Integer, nullable=False),
    Column("state", _name(16), nullable=False, comment="pending, applied, useless"),
    Column("tables", Integer, nullable=False),
    Column(
        "content",
        _LONG,
        comment="JSON: databases, tables, views; of an applied one facts that are in no version, or NULL",
    ),
    Column("outcome", _LONG, comment="how the tracker used it"),
    Index("snapshot_state", "source", "state"),
)

drift = _table(
    "drift",
    Column("snapshot_id", BigInteger, primary_key=True, autoincrement=False),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("source", _SOURCE, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("gtid_executed", _LONG, nullable=False),
    Column("replayed", _FINGERPRINT, comment="NULL: no such table by the stream"),
    Column("found", _FINGERPRINT, comment="NULL: no such table on the server"),
    Index("drift_source", "source", "snapshot_id"),
)

statement_change = _table(
    "statement_change",
    Column("source", _SOURCE, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("binlog_pos", BigInteger, primary_key=True),
    Column("gtid", _GTID),
    Column("binlog_file", _BINLOG_FILE, nullable=False),
    Column("tables", _LONG, nullable=False, comment="JSON list of database.table, empty if none is known"),
    Column("statement", _LONG, nullable=False),
    comment="rows changed by a statement: the binlog does not hold them",
)

row_removal = _table(
    "row_removal",
    Column("source", _SOURCE, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("binlog_pos", BigInteger, primary_key=True),
    Column("gtid", _GTID),
    Column("tables", _LONG, nullable=False, comment="JSON list of database.table"),
    Column("statement", _LONG, nullable=False),
    Column("effects", _LONG, comment="JSON list: what it does to the rows of each table; NULL: not decided yet"),
    comment="rows removed by TRUNCATE, DROP PARTITION and their kin: no row event tells of them",
)

partition_change = _table(
    "partition_change",
    Column("source", _SOURCE, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("binlog_pos", BigInteger, primary_key=True),
    Column("database_name", _MYSQL_NAME, nullable=False, comment="'': those before it were not stored"),
    Column("table_name", _MYSQL_NAME, nullable=False),
    Column("statement", _LONG, nullable=False),
    Column("sql_mode", BigInteger, nullable=False),
    Column("server_version", Integer, comment="as in executable comments: 90704"),
    Column("time_zone", _name(64), comment="of the session, where the statement used it"),
    comment="ALTER TABLE that names partitions: no version tells of it",
)

temporary_tables = _table(
    "temporary_tables",
    Column("source", _SOURCE, primary_key=True),
    Column("sessions", _LONG, nullable=False, comment="JSON: what the sessions have at tracked_position"),
    comment="temporary tables that the binlog shows: they hide others from statements",
)

closed_interval = _table(
    "closed_interval",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True),
    Column("end_at", BigInteger, nullable=False),
    Column("first_seq", BigInteger, nullable=False, comment="last transaction before the interval"),
    Column("last_seq", BigInteger, nullable=False, comment="last transaction of the interval"),
    Column("gtid_executed", _LONG, nullable=False, comment="at its end"),
    Column("closed_at", BigInteger, nullable=False),
    Index("closed_interval_end", "source", "end_at"),
)

table_interval = _table(
    "table_interval",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True, comment="of the closed interval"),
    Column(
        "database_name", _MYSQL_NAME, primary_key=True, comment="'' with table_name '': all of its rows are counted"
    ),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("rows", BigInteger, nullable=False, comment="by the counts of the binlog's own events"),
    Column(
        "state", _name(16), nullable=False, comment="owed, published, failed, held, unwanted, discarded; counted for ''"
    ),
    Column("reason", _LONG, comment="why it failed or is held"),
    Column("published_rows", BigInteger, nullable=False, comment="of them that readers see"),
    Column("run", _name(255), comment="the run that published it, or failed to"),
    Column("history", BigInteger, nullable=False, comment="newest schema version that its plan knew"),
    Column("changed_at", BigInteger, nullable=False),
    Index("table_interval_state", "source", "state", "database_name", "table_name", "start_at"),
    comment="what of each table and closed interval is published, owed, failed or held",
)

verdict = _table(
    "verdict",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True),
    Column("table_name", _name(130), primary_key=True, comment="database.table; '' for the interval as a whole"),
    Column("outcome", _name(16), nullable=False),
    Column("judged_at", BigInteger, nullable=False),
    Column("details", _LONG, nullable=False, comment="JSON"),
)

quarantine_decision = _table(
    "quarantine_decision",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True, comment="of the closed interval"),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("run", _name(255), primary_key=True, comment="whose rows it is about"),
    Column("verb", _name(16), primary_key=True, comment="release, discard"),
    Column("because", _LONG, nullable=False),
    Column("decided_by", _name(255), nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False, comment="that nobody had published"),
    Column("done_at", BigInteger, comment="NULL: begun, and not carried out"),
    comment="what people decided on rows that were withheld",
)

read_again = _table(
    "read_again",
    Column("source", _SOURCE, primary_key=True),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("seq", BigInteger, comment="the last transaction in the mirror; NULL: there is none"),
    Column("reason", _LONG, nullable=False),
    Column("noticed_at", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False, comment="dumps that were begun for it"),
    Column("tried_at", BigInteger, comment="when the last of them began"),
    Column("error", _LONG, comment="why it failed; NULL: it is at work, or was killed"),
    comment="tables whose rows no log tells, until a dump has read them",
)

published_interval = _table(
    "published_interval",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True),
    Column("table_name", _name(130), primary_key=True),
    Column("delta_version", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("published_at", BigInteger, nullable=False),
    Column("details", _LONG, nullable=False, comment="JSON"),
    Index("published_interval_table", "source", "table_name", "start_at"),
    # Serves `PublishedLedger.newest`.
    Index("published_interval_version", "source", "table_name", "delta_version"),
)

file_merge = _table(
    "file_merge",
    Column("source", _SOURCE, primary_key=True),
    Column("start_at", BigInteger, primary_key=True, comment="of the interval that was made of shorter ones"),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("end_at", BigInteger, nullable=False),
    Column("merged_at", BigInteger, comment="when its files were merged; NULL: they are not yet"),
    comment="tables with files of shorter intervals: to be merged, or merged and still to be deleted",
)

table_comparison = _table(
    "table_comparison",
    Column("source", _SOURCE, primary_key=True),
    Column("database_name", _MYSQL_NAME, primary_key=True),
    Column("table_name", _MYSQL_NAME, primary_key=True),
    Column("compared_at", BigInteger, nullable=False),
    Column("outcome", _name(16), nullable=False, comment="match, mismatch, inconclusive"),
    Column("compared", BigInteger, nullable=False, comment="rows that were compared"),
    Column("different", BigInteger, nullable=False, comment="of them"),
    Column("is_sample", Integer, nullable=False, comment="1: only some of the rows were compared"),
    comment="the newest comparison of each table with its server",
)

notified_position = _table(
    "notified_position",
    Column("source", _SOURCE, primary_key=True),
    Column("gtid_executed", _LONG, comment="the server's stream up to here was watched; NULL: never"),
    Column("version_id", BigInteger, comment="the newest schema version whose event is known to be sent; NULL: none"),
    comment="up to where DDL has been reported",
)

source_lake = _table(
    "source_lake",
    Column("source", _SOURCE, primary_key=True),
    Column("lake", _name(36), nullable=False, comment="the id that the lake's own file has, too"),
    Column("noticed_at", BigInteger, nullable=False),
    Column("written", Integer, nullable=False, comment="0: the lake's file may not be there yet"),
    comment="which lake a source's rows are in: the store is of no use with another one",
)
