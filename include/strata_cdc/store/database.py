"""Opening the store on any SQL database, with the database's errors turned into ours.
Not here: tables (`tables.py`), their versions (`migrations.py`)."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import ExitStack, contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import StaticPool

from strata_cdc.binlog.protocol.connection import ODD_ANSWERS, ServerAddress, as_unsafe_error, open_connection
from strata_cdc.errors import (
    AccessDeniedError,
    SettingsError,
    StoreFormatError,
    StoreUnavailableError,
    StrataError,
    one_line,
)
from strata_cdc.store.migrations import FORMAT, check_format, migrate, stored_format
from strata_cdc.store.statements import COMPILED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

DEFAULT_DATABASE: Final = "strata"
"""The store's database on a MySQL server, if the URL names none."""

_ANSWER_SECONDS = 3600
"""A server that has not answered for this long is given up; a change of the tables' format may take a while."""
_LOCK_SECONDS = 60
"""How long a process waits for another process that makes the tables, and an SQLite writer for another writer."""
_RETRY_SECONDS = 0.01
_LOGS_STATEMENTS: Final = "strata_logs_statements"
"""Key of what is known of a connection."""

_DENIED = {1045, 1698, 3118}
"""Server errors (share/messages_to_clients.txt): wrong password, no such user by socket, account locked."""
_NOT_GRANTED = {1044, 1142, 1143, 1227}
"""Server errors: no right to a database, to a table, to a column, for an operation."""
_READ_ONLY = {1290, 1792, 1836}
_NO_DATABASE = 1049
_NO_STORE: Final = "there is no store"


class OnMissing(Enum):
    """What opening does when there is no store at the URL."""

    CREATE = "create"
    REFUSE = "refuse"
    EMPTY = "empty"
    """An empty store in memory is used instead: for callers that only read and must not make a store."""


def open_store(url: str, on_missing: OnMissing = OnMissing.CREATE) -> sa.Engine:
    """The store at an SQLAlchemy URL, its tables in this version's format.

    `mysql://user:password@host/` means the database `strata` there, made if it is missing and the user may;
    `sqlite:///file` is a file without a server, `sqlite://` is in memory. Opening reads one row; a table is read only
    when it is needed.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: Wrong user or password, or no right to the database.
        StoreFormatError: There is no store and none is to be made; the store has a newer format; it is not Strata's.
        SettingsError: The text is not a URL of a database.
    """
    if on_missing is OnMissing.EMPTY:
        store = find_store(url)
        return _empty_store() if store is None else store
    parsed = _parse(url)
    engine = _engine(parsed)
    try:
        with store_errors(engine):
            if on_missing is OnMissing.CREATE and parsed.get_backend_name() == "mysql":
                _make_database(parsed)
            _prepare(engine, parsed, on_missing)
    except ODD_ANSWERS as error:
        raise StoreUnavailableError(
            f"the store at {describe(engine)} does not answer like a database: {one_line(str(error))}",
            remedy="Check that the URL is that of a MySQL server.",
        ) from error
    return engine


def find_store(url: str) -> sa.Engine | None:
    """As `open_store`, for callers that only read: None if there is no store, and nothing is made."""
    try:
        return open_store(url, OnMissing.REFUSE)
    except StoreFormatError as error:
        if _NO_STORE in error.message:
            return None
        raise


def find_format(url: str) -> int | None:
    """The format of the store at a URL, which is not changed; None if there is no store.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: Wrong user or password, or no right to the database.
        StoreFormatError: The database is not Strata's.
        SettingsError: The text is not a URL of a database.
    """
    parsed = _parse(url)
    if _is_absent_file(parsed):
        return None
    engine = _engine(parsed)
    try:
        with reading(engine) as connection:
            return stored_format(connection)
    except StoreFormatError as error:
        if _NO_STORE in error.message:
            return None
        raise
    finally:
        engine.dispose()


def describe(engine: sa.Engine) -> str:
    """The store's URL without its password, for messages."""
    return describe_url(engine.url)


def describe_url(url: str | sa.URL) -> str:
    """A store's URL without its password, for messages.

    Raises:
        SettingsError: The text is not a URL of a database.
    """
    return (_parse(url) if isinstance(url, str) else url).render_as_string(hide_password=True)


@contextmanager
def store_errors(engine: sa.Engine) -> Iterator[None]:
    """Turns the database's errors in a `with` block into ours; a StrataError passes."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise _translated(error, engine.url) from None


def _parse(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError:
        # Never the text: it may hold a password.
        raise SettingsError(
            "the store's URL cannot be read",
            remedy="Write it as mysql://USER:PASSWORD@HOST:PORT/strata or sqlite:///FILE; "
            "special characters of a password as %XX.",
        ) from None
    if url.get_backend_name() not in ("mysql", "mariadb"):
        return url
    if url.drivername not in ("mysql", "mysql+pymysql"):
        # Another driver would not get the options that protect the connection.
        raise SettingsError(f"there is no driver for a store on {url.drivername}", remedy="Write mysql://...")
    return url.set(drivername="mysql+pymysql", database=url.database or DEFAULT_DATABASE)


def _empty_store() -> sa.Engine:
    """A store in memory that is as empty after `dispose` as before it, and not without its tables: who has read a
    stream may ask for a definition after its end."""
    engine = open_store("sqlite://")
    with engine.connect() as connection:
        image = cast("sqlite3.Connection", connection.connection.driver_connection).serialize()
    event.listen(engine, "connect", lambda fresh, _: fresh.deserialize(image))
    return engine


def _engine(url: sa.URL) -> sa.Engine:
    backend = url.get_backend_name()
    options: dict[str, Any] = {"hide_parameters": True, "execution_options": {"compiled_cache": COMPILED}}
    if backend == "sqlite":
        options["connect_args"] = {"timeout": _LOCK_SECONDS}
        if url.database in (None, "", ":memory:"):
            # Otherwise each connection would have its own memory.
            options |= {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    elif backend == "mysql":
        # The server closes idle connections; a plan may take longer than that between two look-ups.
        options |= {"pool_pre_ping": True, "pool_recycle": 3600, "creator": _creator(url)}
    try:
        engine = sa.create_engine(url, **options)
    except (sa.exc.ArgumentError, ImportError, TypeError) as error:
        raise SettingsError(
            f"there is no driver for a store on {url.get_backend_name()}: {type(error).__name__}",
            remedy="Use MySQL or SQLite, or install the database's SQLAlchemy driver.",
        ) from None
    if backend == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    elif backend == "mysql":
        event.listen(engine, "begin", _begin_mysql)
    return engine


def _creator(url: sa.URL) -> Callable[[], Any]:
    """The function that makes a connection to a store on MySQL: as all other connections, with what SQLAlchemy
    expects."""
    import pymysql  # noqa: PLC0415 - the driver is loaded with the first store on MySQL

    address = ServerAddress.from_url(url.render_as_string(hide_password=False))
    # Count the rows that an UPDATE matched, not those that it changed.
    return partial(
        open_connection, address, read_timeout=_ANSWER_SECONDS, client_flag=pymysql.constants.CLIENT.FOUND_ROWS
    )


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # Transactions are begun by `_begin_sqlite`: the driver's own BEGIN lets DDL and reads run outside of transactions.
    connection.isolation_level = None
    cursor = connection.cursor()
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """The only statement for which SQLite may not wait: another connection makes the same switch of a new file."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    # IMMEDIATE if the caller is going to write: a read that becomes a write cannot wait for another writer.
    connection.exec_driver_sql("BEGIN IMMEDIATE" if _writes(connection) else "BEGIN")


def _begin_mysql(connection: sa.Connection) -> None:
    """Makes a writer lock rows, and no gaps between them: at InnoDB's default, looking for a row that does not exist
    locks the gap into which other sources of the same store insert theirs, and two of them wait for each other."""
    if not _writes(connection):
        return
    if _LOGS_STATEMENTS not in connection.info:
        binlog_format = connection.exec_driver_sql("SELECT @@session.binlog_format").scalar()
        connection.info[_LOGS_STATEMENTS] = binlog_format == "STATEMENT"
    # Error 1665 (share/messages_to_clients.txt): InnoDB refuses writes at this level if statements are logged.
    if not connection.info[_LOGS_STATEMENTS]:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")


def _writes(connection: sa.Connection) -> bool:
    return bool(connection.get_execution_options().get("strata_writes", False))


@contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that writes; all of it or nothing.

    Raises:
        StoreUnavailableError: The database does not answer, or another writer does not end.
        AccessDeniedError: The user may not write.
    """
    with store_errors(engine), engine.execution_options(strata_writes=True).begin() as connection:
        yield connection


@contextmanager
def reading(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One transaction that reads.

    Raises:
        StoreUnavailableError: The database does not answer.
        AccessDeniedError: The user may not read.
    """
    with store_errors(engine), engine.connect() as connection:
        yield connection


def read_rows(engine: sa.Engine, query: sa.Select[Any]) -> Sequence[Any]:
    """The rows of a query, read in a transaction of their own. Raises the errors of `reading`."""
    with reading(engine) as connection:
        return connection.execute(query).all()


class Ledger:
    """Something that one store has, for reading and writing."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def _rows(self, query: sa.Select[Any]) -> Sequence[Any]:
        """As `read_rows`."""
        return read_rows(self._engine, query)

    def _value(self, query: sa.Select[Any]) -> Any:
        """The only value of a query; None if there is none."""
        rows = self._rows(query)
        return rows[0][0] if rows else None


def upsert(connection: sa.Connection, table: sa.Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Updates the row with a key, or inserts it: the same on every database."""
    same = sa.and_(*(table.c[name] == value for name, value in key.items()))
    # Not by the count of an UPDATE: MySQL counts changed rows, and writing the same values again changes none.
    if connection.execute(sa.select(sa.literal(1)).where(same).with_for_update()).first() is None:
        connection.execute(table.insert().values({**key, **values}))
    else:
        connection.execute(table.update().where(same).values(dict(values)))


def insert_if_absent(table: sa.Table) -> sa.Insert:
    """An INSERT that does nothing, and does not fail, if another process has inserted the row."""
    return table.insert().prefix_with("IGNORE", dialect="mysql").prefix_with("OR IGNORE", dialect="sqlite")


def _make_database(url: sa.URL) -> None:
    """Makes the database on a MySQL server, if it is not there."""
    probe = _engine(url)
    try:
        probe.connect().close()
    except sa.exc.DBAPIError as error:
        if _code(error) != _NO_DATABASE:
            raise
    else:
        return
    finally:
        probe.dispose()
    server = _engine(url.set(database=""))
    try:
        with server.connect() as connection:
            name = server.dialect.identifier_preparer.quote(str(url.database))
            connection.exec_driver_sql(
                f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            )
    finally:
        server.dispose()


def _prepare(engine: sa.Engine, url: sa.URL, on_missing: OnMissing) -> None:
    if on_missing is OnMissing.REFUSE and _is_absent_file(url):
        # Connecting would make an empty file.
        raise _missing(engine) if Path(str(url.database)).parent.is_dir() else _unopened(describe(engine))
    with engine.connect() as connection:
        format_number = stored_format(connection)
    if format_number is not None:
        check_format(format_number)
        if format_number == FORMAT:
            return
    elif on_missing is OnMissing.REFUSE:
        raise _missing(engine)
    with _migrating(engine) as connection:
        migrate(connection)


def _is_absent_file(url: sa.URL) -> bool:
    is_file = url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
    return is_file and not Path(str(url.database)).exists()


@contextmanager
def _migrating(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction in which no other process makes or changes the tables."""
    with ExitStack() as held:
        if engine.dialect.name == "mysql":
            # MySQL's DDL commits by itself, so a transaction excludes nobody. The lock has its own connection:
            # it must last until the transaction has committed.
            _take_lock(held.enter_context(engine.connect()))
        yield held.enter_context(engine.execution_options(strata_writes=True).begin())


def _take_lock(connection: sa.Connection) -> None:
    """Excludes other processes until the connection is returned, which frees its locks."""
    lock = sa.func.get_lock(f"strata.{connection.engine.url.database}"[:64], _LOCK_SECONDS)
    if connection.execute(sa.select(lock)).scalar() != 1:
        raise StoreUnavailableError(f"another process has been making the store's tables for {_LOCK_SECONDS} s")
    # A pooled connection stays open: without this the lock would stay too.
    connection.detach()


def _missing(engine: sa.Engine) -> StoreFormatError:
    return StoreFormatError(
        f"{_NO_STORE} at {describe(engine)}",
        remedy="Check the URL; `strata track` makes a store when it stores the first version.",
    )


def _code(error: sa.exc.DBAPIError) -> int | None:
    arguments = getattr(error.orig, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else None


def _grant(url: sa.URL) -> str:
    """What an administrator runs, in words: in GRANT, `_` and `%` of a database's name are wildcards, of both
    families, but not where MySQL has partial revokes."""
    name = (url.database or "").replace("`", "``")
    literal = re.sub(r"[_%]", r"\\\g<0>", name)
    statement = f"GRANT ALL ON {name if name.isalnum() else f'`{literal}`'}.* TO {url.username}"
    unless = "" if literal == name else f" (where partial_revokes is ON: ON `{name}`.*)"
    return f"{statement}{unless}, with the account's host unless that is %"


def _translated(error: sa.exc.DBAPIError, url: sa.URL) -> StrataError:
    """Turns a database's error into Strata's. Only the database's text is repeated, never a URL or a statement's
    values."""
    where = url.render_as_string(hide_password=True)
    code = _code(error)
    unsafe = as_unsafe_error(error.orig, f"the store at {where}")
    if unsafe is not None:
        return unsafe
    if code in _DENIED:
        return AccessDeniedError(
            f"the store at {where} refuses the user: {_words(error)}",
            remedy="Check the user and password of the store's connection.",
        )
    if code in _NOT_GRANTED:
        return AccessDeniedError(
            f"a grant is missing for the store at {where}: {_words(error)}",
            remedy=f"As an administrator: {_grant(url)}; or put the store elsewhere: set `store` or `store_connection` "
            "of the source.",
        )
    if code in _READ_ONLY:
        return AccessDeniedError(
            f"the store at {where} is on a server that is read-only",
            remedy="Put the store on a server that can be written: set `store` or `store_connection` of the source.",
        )
    if code == _NO_DATABASE:
        return StoreFormatError(
            f"{_NO_STORE} at {where}",
            remedy="Check the URL; `strata track` makes a store when it stores the first version.",
        )
    return _translated_file(error, where) or StoreUnavailableError(
        f"the store at {where} does not answer: {_words(error)}",
        remedy="Check that the database runs and can be reached from here, then run the same again.",
    )


def _translated_file(error: sa.exc.DBAPIError, where: str) -> StrataError | None:
    """SQLite's errors about its file; None for every other error."""
    if not isinstance(error.orig, sqlite3.DatabaseError):
        return None
    text = str(error.orig)
    if "unable to open" in text:
        return _unopened(where)
    if "not a database" in text:
        return StoreFormatError(f"{where} is not an SQLite database", remedy="Check the path in the store's URL.")
    return None


def _unopened(where: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"the store at {where} cannot be opened: its folder does not exist, or the file may not be read and written",
        remedy="Check the path in the store's URL; Strata makes the file, but no folder.",
    )


def _words(error: sa.exc.DBAPIError) -> str:
    arguments = getattr(error.orig, "args", ())
    return one_line(str(arguments[-1])) if arguments else type(error.orig).__name__


def without_index(column: sa.ColumnElement[str], value: str) -> sa.ColumnElement[bool]:
    """Equality for queries that read all rows anyway. Reading row by row through an index is ten times slower, and
    databases choose that if the store has few sources."""
    return sa.func.coalesce(column, "") == value
