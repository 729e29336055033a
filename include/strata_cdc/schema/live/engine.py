"""The schema engine: reads the schema of a live server as it was at a known GTID set, or at a file and offset.
CREATE statements that it asks for are read by the DDL reader.
Not here: the consequences for the history (`schema/tracker/track.py`), storing it until then
(`schema/history/snapshot_ledger.py`)."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pymysql
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.binlog.protocol.server_files import ServerFiles
from strata_cdc.binlog.protocol.visible_state import read_schema_state
from strata_cdc.errors import AccessDeniedError, DdlError, SchemaGapError, SourceSettingsError, SourceUnavailableError
from strata_cdc.flavour import Flavour
from strata_cdc.schema.apply.create import definition_from
from strata_cdc.schema.ddl.changes import CreateTable
from strata_cdc.schema.ddl.context import DdlContext
from strata_cdc.schema.ddl.read import read_ddl
from strata_cdc.schema.history.versions import SYSTEM_DATABASES, DatabaseEntry, NamePresence
from strata_cdc.schema.live.exact_texts import ExactTexts
from strata_cdc.schema.live.grants import PARTIAL_REVOKES, Grants, Sight
from strata_cdc.schema.live.masking import MASKED
from strata_cdc.schema.live.names import TABLE_TYPES
from strata_cdc.schema.model.charsets import charset_of_collation, collation_named
from strata_cdc.schema.model.create_sql import quoted
from strata_cdc.schema.model.definition import Column, GeneratedKind, Key, KeyKind, KeyPart, TableDefinition, TableName
from strata_cdc.schema.model.engines import CASCADES_LOGGED_SINCE
from strata_cdc.schema.model.view import ViewDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from strata_cdc.binlog.protocol.visible_state import Rows
    from strata_cdc.position.binlog_position import BinlogPosition

# Tables of a MariaDB as SHOW CREATE TABLE writes them, read by the grammar of the statements in its binlog: what a
# snapshot and a replay make of a table is the same. information_schema of MariaDB lacks hidden keys, periods and
# options.
_GONE = frozenset({1049, 1146})
"""ER_BAD_DB_ERROR, ER_NO_SUCH_TABLE."""
_BROKEN = frozenset({1017, 1030, 1033, 1034, 1194, 1195, 1932})
"""A file is missing or wrong, or a table is marked as crashed: no other table is affected."""


def read_written(
    connection: pymysql.Connection[Any], names: Sequence[TableName], flavour: Flavour
) -> tuple[dict[TableName, TableDefinition], dict[TableName, str]]:
    """The tables that are still there, and why some of them are not understood.

    Args:
        connection: To the server; it gets an empty sql_mode, in which the statements are written.
        flavour: Of the server.

    Raises:
        pymysql.err.MySQLError: The user may not see a table, or the connection was lost.
    """
    definitions: dict[TableName, TableDefinition] = {}
    doubtful: dict[TableName, str] = {}
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = '', sql_quote_show_create = 1")
        for name in names:
            try:
                statement = _statement(cursor, name)
                if statement is None:
                    continue
                definitions[name] = _definition(statement, DdlContext(name.database, flavour=flavour))
            except DdlError as fault:
                doubtful[name] = f"its CREATE TABLE is not understood: {fault.message}"
            except pymysql.MySQLError as error:
                if error.args[0] not in _BROKEN:
                    raise
                doubtful[name] = f"the server cannot open it: {error.args[1]}"
    return definitions, doubtful


def _statement(cursor: pymysql.cursors.Cursor, name: TableName) -> str | None:
    try:
        cursor.execute(f"SHOW CREATE TABLE {quoted(name.database)}.{quoted(name.table)}")
    except pymysql.MySQLError as error:
        if (error.args[0] if error.args else 0) in _GONE:
            return None
        raise
    [(_, statement)] = cursor.fetchall()
    return str(statement)


def _definition(statement: str, context: DdlContext) -> TableDefinition:
    """The table that a statement makes; without its partitions, as no snapshot has them.

    Raises:
        DdlError: The statement is not understood.
    """
    [change] = read_ddl(statement, context)
    if not isinstance(change, CreateTable) or change.from_query:
        raise DdlError("it is no CREATE TABLE with columns", ddl=statement)
    return replace(definition_from(change, None), options="")


# The texts of a server's views, as the server prints them. MySQL and MariaDB keep a view as a text with every name in
# full, and print it so in `information_schema.VIEWS`; it is empty if the user lacks SHOW VIEW. Names that CREATE VIEW
# gave to the columns are in the text only on MariaDB.
_OF_USERS: Final = "v.TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema')"
_TEXTS: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, VIEW_DEFINITION, COLLATION_CONNECTION FROM information_schema.VIEWS v "  # noqa: S608 - constants only
    f"WHERE {_OF_USERS}"
)
_COLUMNS: Final = (
    "SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME FROM information_schema.VIEWS v "  # noqa: S608 - constants only
    "JOIN information_schema.COLUMNS c ON c.TABLE_SCHEMA = v.TABLE_SCHEMA AND c.TABLE_NAME = v.TABLE_NAME "
    f"WHERE {_OF_USERS} ORDER BY c.TABLE_SCHEMA, c.TABLE_NAME, c.ORDINAL_POSITION"
)


def read_views(rows: Rows, names: Sequence[TableName]) -> dict[TableName, ViewDefinition | None]:
    """The definitions of views.

    Args:
        rows: Runs a query.
        names: The views.

    Returns:
        For each view its definition; None if the user does not see it.
    """
    if not names:
        return {}
    columns: dict[TableName, list[str]] = {}
    for database, view, column in rows(_COLUMNS):
        columns.setdefault(TableName(database, view), []).append(column)
    texts = {
        TableName(database, view): ViewDefinition(
            text,
            tuple(columns.get(TableName(database, view), ())),
            database,
            collation=collation_named(collation),
            is_printed=True,
        )
        for database, view, text, collation in rows(_TEXTS)
        if text
    }
    return {name: texts.get(name) for name in names}


PAGE_TABLES: Final = 250
"""Number of tables whose columns are read with one query: limits memory here and on the server."""
_LOCK_WAIT_SECONDS = 5
_ATOMIC_SINCE = (8, 0, 0)
"""Since 8.0 information_schema reads the data dictionary in InnoDB, so that a transaction sees one state of it."""
_EXTRA: Final = 6
"""The place of `EXTRA` among what is read of a column."""

_ON_UPDATE = re.compile(r"on update (\S+)", re.IGNORECASE)
_ROW_FORMAT = re.compile(r"row_format=(\w+)", re.IGNORECASE)


class ServerTraits(Struct, frozen=True):
    """The server's settings that affect names and types."""

    flavour: Flavour
    lower_case_table_names: int
    uuid: str
    numbers_all: bool
    """Whether each transaction that it executes gets a GTID."""


class ReadingMoment(Enum):
    """How the moment of a reading is given."""

    BY_SERVER = "the GTID set where the server numbers all transactions, else file and offset"
    BY_FILE = "file and offset, because transactions without a GTID may lie before it"


class _ListedTable(NamedTuple):
    """A row of `information_schema.TABLES`."""

    name: TableName
    kind: str
    engine: str | None
    row_format: str | None
    """If it is written."""
    collation: str | None


class _Dictionary:
    """The tables in a server's information_schema, as the session sees them."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self._connection = connection
        self._texts = ExactTexts(connection)
        self.server = _read_server(connection, self._rows)

    def _list_tables(self, names: Sequence[TableName] = ()) -> list[_ListedTable]:
        """All tables and views, or only those with some names."""
        rows = self._rows(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_OPTIONS, TABLE_COLLATION "  # noqa: S608 - constants and %s only
            f"FROM information_schema.TABLES {f'WHERE {_names_condition(names)} ' if names else ''}"
            "ORDER BY TABLE_SCHEMA, TABLE_NAME",
            _names_values(names),
        )
        return [
            _ListedTable(TableName(database, table), kind, engine, _row_format(options), collation)
            for database, table, kind, engine, options, collation in rows
        ]

    def definition(self, name: TableName) -> TableDefinition | None:
        """One base table; None if it does not exist."""
        listed = [table for table in self._list_tables([name]) if table.kind in TABLE_TYPES]
        definition = self._page(listed).get(name) if listed else None
        if name in self._texts.doubtful:
            raise SchemaGapError(self._texts.doubtful[name], table=str(name))
        if not self._sight().sees_all_columns_of(name):
            raise AccessDeniedError(
                f"whether there is a table {name}, and with which columns, is hidden from the user of the connection",
                remedy="Grant SELECT on it, or REVOKE no rights on its database.",
            )
        return definition

    def _sight(self) -> Sight:
        is_literal = self._rows(PARTIAL_REVOKES) == [("partial_revokes", "ON")]
        return Grants.parse((str(line) for (line,) in self._rows("SHOW GRANTS")), is_literal=is_literal).sight()

    def _page(self, page: Sequence[_ListedTable]) -> dict[TableName, TableDefinition]:
        names = [listed.name for listed in page]
        if self.server.flavour.is_mariadb():
            with _server_errors():
                definitions, doubtful = read_written(self._connection, names, self.server.flavour)
                self._texts.doubtful.update(doubtful)
                return self._texts.complete(definitions)
        columns, masked = self._columns_of(names)
        keys = self._keys_of(names)
        definitions = {
            listed.name: TableDefinition(
                columns=tuple(columns[listed.name]),
                keys=tuple(keys.get(listed.name, ())),
                character_set=charset_of_collation(listed.collation) if listed.collation else None,
                collation=listed.collation,
                engine=listed.engine,
                row_format=listed.row_format,
            )
            for listed in page
            if listed.name in columns
        }
        with _server_errors():
            return self._texts.complete(definitions, masked)

    def _columns_of(
        self, names: Sequence[TableName]
    ) -> tuple[dict[TableName, list[Column]], set[tuple[TableName, str]]]:
        """The columns of tables, and those of them that have a masking policy."""
        srid = "SRS_ID" if self.server.flavour.is_mysql(*_ATOMIC_SINCE) else "NULL"
        query = (
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, "  # noqa: S608 - constants and %s only
            f"COLLATION_NAME, COLUMN_DEFAULT, EXTRA, GENERATION_EXPRESSION, COLUMN_COMMENT, {srid} "
            f"FROM information_schema.COLUMNS WHERE {_names_condition(names)} "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
        )
        columns: dict[TableName, list[Column]] = {}
        masked: set[tuple[TableName, str]] = set()
        for database, table, *row in self._rows(query, _names_values(names)):
            name, column = TableName(database, table), _column(row)
            columns.setdefault(name, []).append(column)
            if MASKED in str(row[_EXTRA]):
                masked.add((name, column.name))
        return columns, masked

    def _keys_of(self, names: Sequence[TableName]) -> dict[TableName, list[Key]]:
        newer = "IS_VISIBLE, EXPRESSION" if self.server.flavour.is_mysql(8, 0, 13) else "'YES', NULL"
        query = (
            "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, INDEX_TYPE, COLUMN_NAME, SUB_PART, COLLATION, "  # noqa: S608 - constants and %s only
            f"{newer} FROM information_schema.STATISTICS WHERE {_names_condition(names)} "
            "ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
        )
        keys: dict[TableName, dict[str, list[Any]]] = {}
        for database, table, index, *part in self._rows(query, _names_values(names)):
            keys.setdefault(TableName(database, table), {}).setdefault(index, []).append(part)
        return {name: _ordered(_key(index, parts) for index, parts in of.items()) for name, of in keys.items()}

    def _rows(self, query: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        with _server_errors():
            return fetch_rows(self._connection, query, values)

    def _run(self, statement: str) -> None:
        with _server_errors(), self._connection.cursor() as cursor:
            cursor.execute(statement)


class LiveSchema(_Dictionary):
    """One reading of a server's schema.

    Everything in it was true at some moment between two GTID sets. Tables that no DDL between the two changed were like
    this all the time between them. Or all of it was true at one position of a binlog file."""

    def __init__(
        self,
        connection: pymysql.Connection[Any],
        exclude: Callable[[str], Collection[str]] = lambda _: (),
        moment: ReadingMoment = ReadingMoment.BY_SERVER,
    ) -> None:
        """Begins the reading.

        Args:
            connection: To the server; the reading changes its session, so it cannot be used for anything else.
            exclude: From the server's UUID to databases that are excluded, besides the server's own.
            moment: How the moment is given.

        Raises:
            SourceSettingsError: The server runs without GTIDs, and DDL cannot be locked out while its position in the
                binlog is read: then it is not known at which position this was true.
            SourceUnavailableError: The connection to the server was lost.
        """
        super().__init__(connection)
        self._exclude = SYSTEM_DATABASES | set(exclude(self.server.uuid))
        self.sight = self._sight()
        self.position: BinlogPosition | None = None
        """The position of the reading, if it is not given by GTID sets."""
        self._is_by_file = moment is ReadingMoment.BY_FILE or not self.server.numbers_all
        self.gtid_before, self._exact = self._begin()
        self._listed = [listed for listed in self._list_tables() if listed.name.database not in self._exclude]
        # GTID sets cannot show a DDL between the transaction and the queries on the tables themselves.
        self._read = dict(self._pages()) if self._is_by_file else None
        listed = [listed.name for listed in self._listed if listed.kind == "VIEW"]
        self._views = read_views(self._rows, listed)
        if self._exact:
            self._run("UNLOCK INSTANCE")

    def databases(self) -> list[DatabaseEntry]:
        """The databases with their defaults."""
        rows = self._rows(
            "SELECT SCHEMA_NAME, DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA"
        )
        return [
            DatabaseEntry(name, NamePresence.PRESENT, character_set, collation)
            for name, character_set, collation in rows
            if name not in self._exclude
        ]

    def views(self) -> dict[TableName, ViewDefinition | None]:
        """The views with their texts, as far as the user sees them."""
        return self._views

    def unlogged_cascades(self) -> list[TableName]:
        """The tables whose rows are deleted or changed by foreign keys without row events."""
        if self._logs_cascades():
            return []
        rows = self._rows(
            "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS "
            "WHERE DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL') ORDER BY 1, 2"
        )
        return [TableName(database, table) for database, table in rows if database not in self._exclude]

    def _logs_cascades(self) -> bool:
        if not self.server.flavour.is_mysql(*CASCADES_LOGGED_SINCE):
            return False
        [[is_native]] = self._rows("SELECT @@GLOBAL.innodb_native_foreign_keys")
        return not int(is_native)

    def tables(self) -> Iterator[tuple[TableName, TableDefinition]]:
        """Every base table that the user can see completely, page by page."""
        return self._pages() if self._read is None else iter(self._read.items())

    def _pages(self) -> Iterator[tuple[TableName, TableDefinition]]:
        names = [
            listed
            for listed in self._listed
            if listed.kind in TABLE_TYPES and self.sight.sees_all_columns_of(listed.name)
        ]
        for at in range(0, len(names), PAGE_TABLES):
            yield from self._page(names[at : at + PAGE_TABLES]).items()

    @property
    def doubtful(self) -> dict[TableName, str]:
        """Tables read so far for which the server does not report all labels or defaults completely, and why."""
        return self._texts.doubtful

    def end(self) -> str:
        """Ends the reading and returns the GTID set that had been executed by then."""
        self._run("COMMIT")
        # Results of queries on the tables themselves are as of now.
        return self.gtid_before if self._exact and not self._texts.has_queried else self._executed()

    # The moment ---------------------------------------------------------------------------------

    def _begin(self) -> tuple[str, bool]:
        """Opens a transaction that sees one state of the schema.

        Returns:
            The GTID set that had been executed before, and whether DDL was locked out between it and the state that is
            read.
        """
        if not self.server.flavour.is_mysql(*_ATOMIC_SINCE) and not self._is_by_file:
            return self._executed(), False
        self._run(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
        locked = self.server.flavour.is_mysql(*_ATOMIC_SINCE) and self._lock_ddl()
        executed = self._executed()
        if self._is_by_file:
            self.position = self._read_position(locked=locked)
        self._run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        return executed, locked

    def _lock_ddl(self) -> bool:
        """Locks out DDL while the transaction begins; if the moment is a position of a file, until everything is read.
        Sessions that write rows are not blocked. Needs BACKUP_ADMIN."""
        try:
            self._run("LOCK INSTANCE FOR BACKUP")
        except (AccessDeniedError, SourceUnavailableError):
            # No grant, or a DDL runs longer than we wait: then the two GTID sets enclose everything that happened in
            # between.
            self._connection.ping(reconnect=False)
            return False
        return True

    def _read_position(self, *, locked: bool) -> BinlogPosition:
        """The end of the server's binlog. A DDL is written there before it is visible: so without a lock, the last DDLs
        before that position could be missing in the reading."""
        if not locked:
            raise SourceSettingsError(
                "gtid_mode is not ON, and DDL could not be locked out while a snapshot read its binlog position",
                remedy="Grant BACKUP_ADMIN (MySQL 8.0 and later) and run it again while no long DDL runs; or set "
                "gtid_mode=ON; or track binlog files with `--baseline FILE.sql`.",
            )
        with _server_errors():
            return ServerFiles.from_server(self._connection).end

    def _executed(self) -> str:
        return read_schema_state(self._rows).executed


def read_definition(connection: pymysql.Connection[Any], name: TableName) -> TableDefinition | None:
    """One base table as the server has it now; None if it does not exist.

    Raises:
        AccessDeniedError: The user may not see it, or not all of its columns.
        SchemaGapError: The server does not report all of its labels and defaults.
        SourceUnavailableError: The connection to the server was lost.
    """
    return _Dictionary(connection).definition(name)


class _server_errors:  # noqa: N801 - reads as a function: `with _server_errors():`
    """Converts the driver's errors into errors of Strata."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if not isinstance(error, pymysql.MySQLError):
            return
        code = error.args[0] if error.args else 0
        message = str(error.args[-1]) if error.args else type(error).__name__
        if code in {1044, 1142, 1143, 1227}:
            raise AccessDeniedError(
                f"the server refuses to tell its schema: {message}",
                remedy="Grant SELECT on the databases that are to be tracked.",
            ) from None
        raise SourceUnavailableError(
            f"the server's schema cannot be read: {message}", remedy="Run `strata doctor`, then the same again."
        ) from None


def _read_server(connection: pymysql.Connection[Any], rows: Rows) -> ServerTraits:
    with _server_errors():
        [[version, lower_case]] = fetch_rows(connection, "SELECT VERSION(), @@GLOBAL.lower_case_table_names")
    state = read_schema_state(rows)
    return ServerTraits(Flavour.parse(str(version)), int(lower_case), state.identity, state.numbers_all)


def _row_format(options: object) -> str | None:
    written = _ROW_FORMAT.search(_text(options or ""))
    return written[1].lower() if written else None


def _names_condition(names: Sequence[TableName]) -> str:
    by_database = _by_database(names)
    parts = [f"(TABLE_SCHEMA = %s AND TABLE_NAME IN ({', '.join(['%s'] * len(of))}))" for of in by_database.values()]
    return " OR ".join(parts)


def _names_values(names: Sequence[TableName]) -> list[str]:
    return [text for database, tables in _by_database(names).items() for text in (database, *tables)]


def _by_database(names: Sequence[TableName]) -> dict[str, list[str]]:
    by_database: dict[str, list[str]] = {}
    for name in names:
        by_database.setdefault(name.database, []).append(name.table)
    return by_database


def _column(row: Sequence[Any]) -> Column:
    name, column_type, nullable, character_set, collation, default, extra, expression, comment, srid = row
    words = str(extra).upper().split()
    on_update = _ON_UPDATE.search(str(extra))
    generated = None
    if "GENERATED" in words:
        generated = GeneratedKind.STORED if "STORED" in words else GeneratedKind.VIRTUAL
    return Column(
        name=str(name),
        column_type=_text(column_type),
        nullable=nullable == "YES",
        character_set=character_set,
        collation=collation,
        default=None if default is None else _text(default),
        # Before 8.0.13 only CURRENT_TIMESTAMP could be an expression, and EXTRA did not show it.
        default_is_expression="DEFAULT_GENERATED" in words or _is_now(default, column_type),
        auto_increment="AUTO_INCREMENT" in words,
        on_update=on_update[1] if on_update else None,
        generated=generated,
        generation_expression=_text(expression) if expression else None,
        invisible="INVISIBLE" in words,
        comment=str(comment),
        srid=None if srid is None else int(srid),
    )


def _text(value: object) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _is_now(default: object, column_type: object) -> bool:
    temporal = _text(column_type).startswith(("timestamp", "datetime"))
    return temporal and default is not None and _text(default).upper().startswith("CURRENT_TIMESTAMP")


def _key(name: str, parts: Sequence[Sequence[Any]]) -> Key:
    non_unique, index_type, *_ = parts[0]
    kind = KeyKind.INDEX
    if name == "PRIMARY":
        kind = KeyKind.PRIMARY
    elif index_type in {"FULLTEXT", "SPATIAL"}:
        kind = KeyKind(index_type.lower())
    elif not int(non_unique):
        kind = KeyKind.UNIQUE
    return Key(
        name=name,
        kind=kind,
        parts=tuple(
            KeyPart(
                column=column,
                expression=_text(expression) if expression is not None else None,
                # Spatial keys show 32, the size of their internal prefix.
                prefix_length=int(sub_part) if sub_part is not None and kind is not KeyKind.SPATIAL else None,
                descending=direction == "D",
            )
            for _, _, column, sub_part, direction, _, expression in parts
        ),
        invisible=parts[0][5] == "NO",
    )


def _ordered(keys: Iterable[Key]) -> list[Key]:
    """The primary key, then the others by name: the only order that does not depend on the statements that made
    them."""
    return sorted(keys, key=lambda key: (key.kind is not KeyKind.PRIMARY, key.name))
