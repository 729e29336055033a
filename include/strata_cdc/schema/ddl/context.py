"""The settings under which the server ran a DDL statement, from its QUERY event: they decide what the text means.
Not here: the text's grammar (`ddl/`), the effects of the settings (`apply/`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.model import AlterPhase
from strata_cdc.errors import DdlError
from strata_cdc.flavour import NEWEST, Flavour
from strata_cdc.schema.ddl.ill_formed import decode_utf8mb4
from strata_cdc.schema.ddl.lexer import NO_BACKSLASH_ESCAPES
from strata_cdc.schema.model.charsets import (
    COLLATION_NAMES,
    charset_of_collation,
    collation_name,
    decode_statement,
    default_collation,
)

if TYPE_CHECKING:
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.events.model import Query

REAL_AS_FLOAT = 0x1
STRICT_TRANS_TABLES = 0x200000
_STRICT = STRICT_TRANS_TABLES | 0x400000  # or STRICT_ALL_TABLES
# Set while a server replays old binlogs, in which utf8 means utf8mb4 (8.0, sql/query_options.h).
_UTF8_AS_UTF8MB4 = 1 << 33

_TIME_TRUNCATE_FRACTIONAL = 1 << 32
_TIME_ROUND_FRACTIONAL = 1 << 34  # MariaDB (sql/sql_class.h)
ORACLE = 0x200  # MariaDB (sql/sql_class.h, `MODE_ORACLE`)
MAXDB = 0x1000  # MariaDB, as above
# Bits of MariaDB's flags2 (sql/sql_priv.h, `OPTION_EXPLICIT_DEF_TIMESTAMP`, `OPTION_IF_EXISTS`).
_EXPLICIT_TIMESTAMPS_FLAG = 1 << 24
_IF_EXISTS_FLAG = 1 << 28

# The default of explicit_defaults_for_timestamp became ON in 8.0.2; the event has it only since 8.0.
_EXPLICIT_TIMESTAMPS_SINCE = (8, 0, 2)
_COMMITS_ARE_LOGGED_SINCE = (8, 0, 11)


class DdlContext(Struct, frozen=True):
    """The session that ran a statement, as far as it affects tables."""

    default_database: str = ""
    sql_mode: int = 0
    flavour: Flavour = NEWEST
    server_collation: str | None = None
    """The collation for CREATE DATABASE without one; None for the default of the server's version."""
    database_collation: str | None = None
    """`collation_database`, which is logged only if the session has changed it."""
    utf8mb4_collation: str | None = None
    """`default_collation_for_utf8mb4`."""
    client_charset: str = "utf8mb4"
    """Charset of string literals without an introducer (that of the connection, if it is known)."""
    connection_collation: str | None = None
    """`collation_connection`, that of string literals; None if it is not known."""
    no_break_space_is_blank: bool = False
    """Whether U+00A0 ends a name, as in the statement's charset; else it is a letter."""
    explicit_defaults_for_timestamp: bool = True
    lower_case_table_names: int = 0
    """0: names are case-sensitive; 1 and 2: the server compares and logs them in lower case."""
    thread_id: int | None = None
    """The session, to know which of its temporary tables hide base tables; None if it is not known."""
    uses_temporary: bool | None = None
    """Whether the statement may use a temporary table, according to its event; None if there is no event.

    Also True after DROP TABLE or CONNECTION_ID() in the same call of a procedure (`THD::thread_specific_used`, which
    only the next statement of the client resets)."""
    time_zone: str | None = None
    """Of the session, in the form of SET time_zone; None if the statement did not use it, or if it is not known."""
    began_at: int | None = None
    """Of MariaDB: when the statement began, microseconds UTC; exact only if the statement used its microseconds. None
    if there is no event."""
    committed_by_engine: bool | None = None
    """A storage engine committed the statement (`Q_DDL_LOGGED_WITH_XID`, since 8.0): it altered no temporary table. A
    CREATE ... IF NOT EXISTS that no engine committed has made nothing, or a table of an engine without atomic DDL
    (sql/sql_table.cc, `mysql_create_table`). None if the server does not log it."""
    charset_collations: tuple[tuple[str, str], ...] = ()
    """`character_set_collations` of MariaDB: charsets, and the collations of text that names only its charset."""
    sql_if_exists: bool = False
    """Of MariaDB: DROP and ALTER of a table that does not exist do nothing, although no IF EXISTS is written."""
    failed: bool = False
    """Of MariaDB: the statement ended with an error after a part of its work. A CREATE OR REPLACE has dropped the old
    table and made no new one."""
    may_be_like: bool = False
    """The server wrote it, of MariaDB maybe, instead of CREATE TABLE ... LIKE of a table that is not in the log. (Rows
    follow what MariaDB wrote instead of CREATE TABLE ... SELECT.)"""
    takes_effect: bool = True
    """False for an ALTER TABLE of MariaDB that is only announced, or is undone (`AlterPhase`)."""

    @property
    def real_as_float(self) -> bool:
        """REAL is FLOAT, not DOUBLE."""
        return bool(self.sql_mode & REAL_AS_FLOAT)

    @property
    def truncates_fractions(self) -> bool:
        """Whether surplus digits of a second's fraction are cut. MySQL rounds by default, MariaDB does not."""
        if self.flavour.is_mariadb():
            return not self.sql_mode & _TIME_ROUND_FRACTIONAL
        return bool(self.sql_mode & _TIME_TRUNCATE_FRACTIONAL)

    @property
    def reads_utf8_as_utf8mb4(self) -> bool:
        """The charset `utf8` is utf8mb4; MariaDB has another mode in this bit."""
        return bool(self.sql_mode & _UTF8_AS_UTF8MB4) and self.flavour.is_mysql()

    @property
    def has_wide_literals(self) -> bool:
        """Whether ASCII characters of literals have several bytes: MariaDB sometimes keeps these bytes as labels."""
        return self.flavour.is_mariadb() and self.client_charset in _WIDE - {"binary"}

    @property
    def refuses_long_keys(self) -> bool:
        """A key part that is too long is an error; it is not cut with a warning (`Strict_error_handler`, since 5.7)."""
        return bool(self.sql_mode & _STRICT) and self.flavour.is_mysql(5, 7, 2)

    def default_collation(self, charset: str) -> str:
        """The collation of `charset` if no collation is written."""
        return dict(self.charset_collations).get(charset) or default_collation(
            charset, self.flavour, self.utf8mb4_collation
        )

    def collation_of_server(self) -> str:
        """The collation of a new database."""
        if self.server_collation is not None:
            return self.server_collation
        return default_collation("utf8mb4", self.flavour) if self.flavour.is_mysql(8, 0, 1) else "latin1_swedish_ci"


def statement_text(query: Query, flavour: Flavour = NEWEST) -> str:
    """The statement as text: its bytes are in the client's charset. `flavour` is that of the server that wrote it.

    Statements that the server itself writes are UTF-8, whatever the client's charset is (sql/sql_show.cc,
    `store_create_info`). So are those of clients with the charset `binary`. Bytes that have no meaning in utf8mb4 are
    kept (`ill_formed.py`); in ascii they become `?`, as in the server; in other charsets they become U+FFFD: the parser
    refuses it in names, and elsewhere it does no harm.
    """
    charset = _client_charset(query.context.client_charset)
    if charset in _WIDE:  # no client can have these; the server refuses them (sql/sys_vars.cc)
        charset = "utf8mb4"
    if query.statement.isascii():
        return query.statement.decode("ascii")
    if _is_written_by_server(query, flavour):
        charset = "utf8mb4"
    if charset == "utf8mb4":
        return decode_utf8mb4(query.statement)
    text = decode_statement(query.statement, charset)
    return text.replace("\ufffd", "?") if charset == "ascii" else text


def lossy_text(query: Query, flavour: Flavour = NEWEST) -> str:
    """As `statement_text`; of a statement that is not text in the client's charset, what can be shown of it."""
    try:
        return statement_text(query, flavour)
    except DdlError as fault:
        return fault.ddl


# Charsets in whose character table the no-break space is a blank (strings/ctype-extra.cc and similar files, `_MY_SPC`);
# in cp1251, cp1256, cp1257, koi8r and others it is a letter, and so it is in those with several bytes.
_WITH_A_BLANK = frozenset({
    "armscii8", "cp1250", "cp850", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew", "hp8", "keybcs2", "latin1",
    "latin2", "latin5", "latin7",
})  # fmt: skip
_WIDE = frozenset({"ucs2", "utf16", "utf16le", "utf32", "binary"})
_WRITTEN_FOR_A_QUERY = b" START TRANSACTION"
_GENERATED_KEY = b"my_row_id"
"""The quotes depend on `sql_mode` and `sql_quote_show_create`."""
_GENERATED_KEY_DEFINITION = b" bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,"


_QUERY_OF_MARIADB = re.compile(rb'CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?[`"][^\n]* \(\n  [`"]')


def _is_written_by_server(query: Query, flavour: Flavour) -> bool:
    """Whether the server wrote it instead of CREATE TABLE ... SELECT or ... LIKE of a temporary table, or it is a
    CREATE TABLE to which the server added a primary key (`sql_generate_invisible_primary_key`). The server writes one
    line for each column, and the options in one line. A client's CREATE TABLE has the flag for a temporary table only
    in a procedure."""
    if flavour.is_mariadb():
        is_numbered = query.context.ddl_xid is not None  # as statements of clients are
        return not is_numbered and bool(_QUERY_OF_MARIADB.match(query.statement)) and _is_utf8(query.statement)
    head, _, options = query.statement.partition(b"\n)")
    _, _, columns = head.partition(b" (\n  ")
    name, definition, _ = columns.partition(_GENERATED_KEY_DEFINITION)
    has_key = bool(definition) and name.strip(b'`"') == _GENERATED_KEY
    return has_key or _is_like_of_temporary(query) or _WRITTEN_FOR_A_QUERY in options.partition(b"\n")[0]


def _is_like_of_temporary(query: Query) -> bool:
    """Whether MySQL wrote it for a LIKE of a temporary table: opening one sets the flag (sql/sql_base.cc,
    `open_temporary_table`). The charset is omitted (sql/sql_table.cc, `mysql_create_like_table`)."""
    head, _, options = query.statement.partition(b"\n)")
    start, _, columns = head.partition(b" (\n  ")
    has_form = columns and start.startswith(b"CREATE TABLE ") and options.startswith(b" ENGINE=")
    return bool(query.thread_specific and has_form and _is_utf8(query.statement))


def _may_be_like(query: Query, flavour: Flavour) -> bool:
    if flavour.is_mariadb():
        return _is_written_by_server(query, flavour) and query.ends_transaction is not False
    return _is_like_of_temporary(query)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _client_charset(collation_id: int | None) -> str:
    return charset_of_collation(COLLATION_NAMES.get(collation_id or 0, "utf8mb4_general_ci"))


def context_of(
    query: Query,
    description: FormatDescription,
    *,
    lower_case_table_names: int = 0,
    ran_first_on: Flavour | None = None,
    explicit_defaults_for_timestamp: bool | None = None,
) -> DdlContext:
    """The context of a statement, from its event.

    Args:
        query: The event.
        description: Of the binlog file with the event.
        lower_case_table_names: Of the server; no event has it.
        ran_first_on: From the transaction's GTID event, which names the server that ran the statement first; None if it
            does not.
        explicit_defaults_for_timestamp: Of the server, for events of servers before 8.0 that do not carry it.
    """
    carried = query.context
    flavour = ran_first_on or description.flavour
    explicit = carried.explicit_defaults_for_timestamp
    if explicit is None and flavour.is_mariadb() and carried.flags2 is not None:
        explicit = bool(carried.flags2 & _EXPLICIT_TIMESTAMPS_FLAG)
    if explicit is None:
        explicit = explicit_defaults_for_timestamp
    if explicit is None:
        explicit = flavour.is_mysql(*_EXPLICIT_TIMESTAMPS_SINCE)
    collation = carried.connection_collation or carried.client_charset or 0
    charset = charset_of_collation(COLLATION_NAMES.get(collation, "utf8mb4_general_ci"))
    sql_mode = carried.sql_mode or 0
    written_in = _client_charset(carried.client_charset)
    written_by_server = _is_written_by_server(query, flavour)
    if written_by_server:
        charset = written_in = "utf8mb4"
        explicit |= flavour.is_mariadb()  # it writes TIMESTAMP NOT NULL for a column without a default
        sql_mode &= ~NO_BACKSLASH_ESCAPES  # the server always escapes, in any session mode (`append_unescaped`)
    return DdlContext(
        default_database=query.database,
        sql_mode=sql_mode,
        flavour=flavour,
        server_collation=collation_name(carried.server_collation, flavour),
        database_collation=collation_name(carried.database_collation, flavour),
        utf8mb4_collation=collation_name(carried.utf8mb4_collation, flavour),
        charset_collations=_charset_collations(carried.charset_collations or (), flavour),
        client_charset=charset,
        connection_collation=collation_name(carried.connection_collation, flavour),
        no_break_space_is_blank=written_in in _WITH_A_BLANK,
        explicit_defaults_for_timestamp=explicit,
        lower_case_table_names=lower_case_table_names,
        thread_id=query.thread_id,
        uses_temporary=query.thread_specific,
        time_zone=carried.time_zone,
        began_at=_began_at(query) if flavour.is_mariadb() else None,
        committed_by_engine=_committed_by_engine(query, description.flavour),
        sql_if_exists=flavour.is_mariadb() and bool((carried.flags2 or 0) & _IF_EXISTS_FLAG),
        may_be_like=_may_be_like(query, flavour),
        failed=flavour.is_mariadb() and query.error_code != 0,
        takes_effect=carried.alter_phase in {None, AlterPhase.COMMIT},
    )


def _committed_by_engine(query: Query, writer: Flavour) -> bool | None:
    # MariaDB numbers statements on temporary tables, too.
    if not writer.is_mysql(*_COMMITS_ARE_LOGGED_SINCE):
        return None
    # CREATE TABLE ... SELECT is a transaction, with a commit of its own; of a table that exists nothing is logged.
    return query.context.ddl_xid is not None or _WRITTEN_FOR_A_QUERY in query.statement


def _began_at(query: Query) -> int | None:
    if query.began_at is None:
        return None
    return query.began_at * 1_000_000 + (query.context.microseconds or 0)


def _charset_collations(pairs: tuple[tuple[int, int], ...], flavour: Flavour) -> tuple[tuple[str, str], ...]:
    names = ((collation_name(default, flavour), collation_name(chosen, flavour)) for default, chosen in pairs)
    return tuple((charset_of_collation(default), chosen) for default, chosen in names if default and chosen)
