"""Numbers that MySQL and MariaDB write into binlogs: event types, column types, flags, sizes.
Not here: their layout (`format.py`, `binlog/events/parse.py`)."""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

MAGIC: Final = b"\xfebin"
"""The first four bytes of a binlog."""
ENCRYPTED_MAGIC: Final = b"\xfdbin"
"""The first four bytes of a binlog that is encrypted at rest (8.0.14, sql/rpl_log_encryption.h)."""
ENGINE_MAGIC: Final = b"\xfe\xfe\x0d\x01"
"""The first four bytes of a file of MariaDB's binlog in its storage engine (client/mysqlbinlog-engine.cc)."""
HEADER_BYTES: Final = 19
CHECKSUM_BYTES: Final = 4
LARGEST_EVENT_BYTES: Final = (1 << 30) + HEADER_BYTES + CHECKSUM_BYTES
"""No server sends more of one event, and no replica accepts more: the protocol's largest `max_allowed_packet` (9.7:
`Binlog_sender` uses that, whatever the server's own value is)."""
LARGEST_HEAD_BYTES: Final = 32 << 20
"""More than a ROTATE, a FORMAT_DESCRIPTION or a PREVIOUS_GTIDS ever has."""


class EventType(IntEnum):
    """Type codes of binlog v4 (libs/mysql/binlog/event/binlog_event.h); from 160 on MariaDB's own (sql/log_event.h)."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    PRE_GA_WRITE_ROWS = 20
    PRE_GA_UPDATE_ROWS = 21
    PRE_GA_DELETE_ROWS = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    TAGGED_GTID = 42
    ANNOTATE_ROWS = 160
    BINLOG_CHECKPOINT = 161
    DOMAIN_GTID = 162
    """MariaDB's GTID, which has a replication domain."""
    GTID_LIST = 163
    START_ENCRYPTION = 164
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED_V1 = 166
    UPDATE_ROWS_COMPRESSED_V1 = 167
    DELETE_ROWS_COMPRESSED_V1 = 168
    PARTIAL_ROW_DATA = 172


GTID_EVENTS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.TAGGED_GTID, EventType.DOMAIN_GTID})
"""Each begins a transaction."""
NUMBERED_GTIDS: Final = GTID_EVENTS - {EventType.ANONYMOUS_GTID}
EXECUTED_LISTS: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.GTID_LIST})
"""What had been executed before the file, after its FORMAT_DESCRIPTION."""
COMPRESSED_EVENTS: Final = {
    EventType.QUERY_COMPRESSED: EventType.QUERY,
    EventType.WRITE_ROWS_COMPRESSED_V1: EventType.WRITE_ROWS_V1,
    EventType.UPDATE_ROWS_COMPRESSED_V1: EventType.UPDATE_ROWS_V1,
    EventType.DELETE_ROWS_COMPRESSED_V1: EventType.DELETE_ROWS_V1,
}
"""MariaDB's events with a compressed part (`log_bin_compress`), and the types that they have when they are plain."""


ROW_EVENTS: Final = frozenset(
    {
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.PARTIAL_UPDATE_ROWS,
    }
)


class EventFlag(IntFlag):
    """Flags of an event's header."""

    BINLOG_IN_USE = 0x1
    """In FORMAT_DESCRIPTION: the file was not closed."""
    THREAD_SPECIFIC = 0x4
    """Of QUERY: it uses a temporary table of its session (`LOG_EVENT_THREAD_SPECIFIC_F`)."""
    ARTIFICIAL = 0x20
    """Made by the server for the connection; it is not in the file."""
    RELAY_LOG = 0x40
    """A replica itself wrote it into its relay log; it does not come from the source."""
    IGNORABLE = 0x80
    """A reader that does not know the type may skip it."""


STATEMENT_END: Final = 0x1
"""Flag of a row event: the last of its statement; the table maps before it are no longer needed."""


class FieldType(IntEnum):
    """Type codes of columns (include/field_types.h)."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    # MariaDB's compressed columns (sql/field.h).
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class ChecksumAlgorithm(IntEnum):
    """The byte that ends FORMAT_DESCRIPTION from 5.6.1 on."""

    OFF = 0
    CRC32 = 1
