"""QUERY events: a statement, and what of its session the replica needs.
Not here: what the statement does (`schema/ddl/`), which statements end a transaction (`transactions.py`)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.cursor import ByteCursor
from strata_cdc.binlog.events.model import AlterPhase, Query, QueryContext
from strata_cdc.errors import CorruptEventError

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.binlog.bytes.format import FormatDescription

_FIXED_BYTES = 13
"""Thread 4, seconds 4, length of database 1, error 2, length of the status variables 2."""
_OVER_MAX_DATABASES = 254
"""UPDATED_DB_NAMES says so instead of listing more than 16 names (5.6.3)."""


class _Variable(IntEnum):
    """Codes of status variables (libs/mysql/binlog/event/statement_events.h, `Query_event_status_vars`; those from 128
    on are MariaDB's, sql/log_event.h)."""

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    MASTER_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    COMMIT_TS = 14
    COMMIT_TS2 = 15
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    DDL_LOGGED_WITH_XID = 17
    DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    HRNOW = 128
    XID = 129
    GTID_FLAGS3 = 130
    CHARACTER_SET_COLLATIONS = 131


def parse_query(body: bytes, form: FormatDescription, event_type: int = EventType.QUERY) -> Query:
    """Reads QUERY (or EXECUTE_LOAD_QUERY) from what lies between its header and its checksum.

    Raises:
        CorruptEventError: A length runs beyond the end.
    """
    cursor = ByteCursor(body)
    thread_id = cursor.uint(4)
    cursor.next_bytes(4)  # seconds that it took
    database_bytes = cursor.uint(1)
    error_code = cursor.uint(2)
    # 4.1 had no status variables; its post-header says so.
    post_header = form.header_length(event_type)
    variables_bytes = cursor.uint(2) if post_header >= _FIXED_BYTES else 0
    if post_header > cursor.at:
        cursor.next_bytes(post_header - cursor.at)
    context = _read_variables(ByteCursor(cursor.next_bytes(variables_bytes)))
    database = cursor.text(database_bytes)
    if cursor.uint(1) != 0:
        raise CorruptEventError("the name of the default database in a QUERY has no end")
    return Query(
        database=database, statement=cursor.rest(), error_code=error_code, context=context, thread_id=thread_id
    )


def _read_variables(cursor: ByteCursor) -> QueryContext:
    variables: dict[str, Any] = {}
    while cursor.left():
        read = _READERS.get(cursor.uint(1))
        if read is None:
            # A variable of a later server: its length is not known, so nothing after it can be read. The server
            # itself stops here too (Query_event's constructor).
            break
        read(cursor, variables)
    # EXPLICIT_DEFAULTS_FOR_TIMESTAMP is a number here.
    explicit = variables.pop("explicit_defaults_for_timestamp", None)
    return QueryContext(explicit_defaults_for_timestamp=None if explicit is None else bool(explicit), **variables)


def _number(size: int, name: str) -> Callable[[ByteCursor, dict[str, Any]], None]:
    def read(cursor: ByteCursor, variables: dict[str, Any]) -> None:
        variables[name] = cursor.uint(size)

    return read


def _skip(size: int) -> Callable[[ByteCursor, dict[str, Any]], None]:
    def read(cursor: ByteCursor, _: dict[str, Any]) -> None:
        cursor.next_bytes(size)

    return read


def _skip_text(trailing: int = 0) -> Callable[[ByteCursor, dict[str, Any]], None]:
    def read(cursor: ByteCursor, _: dict[str, Any]) -> None:
        cursor.next_bytes(cursor.uint(1) + trailing)

    return read


def _charsets(cursor: ByteCursor, variables: dict[str, Any]) -> None:
    variables["client_charset"] = cursor.uint(2)
    variables["connection_collation"] = cursor.uint(2)
    variables["server_collation"] = cursor.uint(2)


def _time_zone(cursor: ByteCursor, variables: dict[str, Any]) -> None:
    variables["time_zone"] = cursor.next_bytes(cursor.uint(1)).decode("utf-8", "replace")


def _invoker(cursor: ByteCursor, variables: dict[str, Any]) -> None:
    user, host = (cursor.next_bytes(cursor.uint(1)).decode("utf-8", "replace") for _ in range(2))
    variables["invoker"] = f"{user}@{host}" if host else user


def _skip_databases(cursor: ByteCursor, _: dict[str, Any]) -> None:
    count = cursor.uint(1)
    if count != _OVER_MAX_DATABASES:
        for _each in range(count):
            cursor.terminated()


_PHASES = {2: AlterPhase.START, 4: AlterPhase.COMMIT, 8: AlterPhase.ROLLBACK}


def _alter_phase(cursor: ByteCursor, variables: dict[str, Any]) -> None:
    flags = cursor.uint(1)
    phase = next((phase for flag, phase in _PHASES.items() if flags & flag), None)
    if phase in {AlterPhase.COMMIT, AlterPhase.ROLLBACK}:
        cursor.next_bytes(8)  # the sequence number of the GTID with the START
    variables["alter_phase"] = phase


def _charset_collations(cursor: ByteCursor, variables: dict[str, Any]) -> None:
    variables["charset_collations"] = tuple((cursor.uint(2), cursor.uint(2)) for _ in range(cursor.uint(1)))


_READERS: dict[int, Callable[[ByteCursor, dict[str, Any]], None]] = {
    _Variable.FLAGS2: _number(4, "flags2"),
    _Variable.SQL_MODE: _number(8, "sql_mode"),
    _Variable.CATALOG: _skip_text(trailing=1),
    _Variable.AUTO_INCREMENT: _skip(4),
    _Variable.CHARSET: _charsets,
    _Variable.TIME_ZONE: _time_zone,
    _Variable.CATALOG_NZ: _skip_text(),
    _Variable.LC_TIME_NAMES: _skip(2),
    _Variable.CHARSET_DATABASE: _number(2, "database_collation"),
    _Variable.TABLE_MAP_FOR_UPDATE: _number(8, "table_map_for_update"),
    _Variable.MASTER_DATA_WRITTEN: _skip(4),
    _Variable.INVOKER: _invoker,
    _Variable.UPDATED_DB_NAMES: _skip_databases,
    _Variable.MICROSECONDS: _skip(3),
    _Variable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: _number(1, "explicit_defaults_for_timestamp"),
    _Variable.DDL_LOGGED_WITH_XID: _number(8, "ddl_xid"),
    _Variable.DEFAULT_COLLATION_FOR_UTF8MB4: _number(2, "utf8mb4_collation"),
    _Variable.SQL_REQUIRE_PRIMARY_KEY: _skip(1),
    _Variable.DEFAULT_TABLE_ENCRYPTION: _skip(1),
    _Variable.HRNOW: _number(3, "microseconds"),
    _Variable.XID: _number(8, "ddl_xid"),
    _Variable.GTID_FLAGS3: _alter_phase,
    _Variable.CHARACTER_SET_COLLATIONS: _charset_collations,
}
