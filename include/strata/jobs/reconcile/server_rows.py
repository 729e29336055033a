"""Rows as a server has them: read gently, in pieces that one consistent SELECT gives each, without a lock and without a
transaction that stays open.
Not here: what is compared with them (`compare.py`), the SQL of keys (`keys.py`)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # noqa: TID253  only those who compare import this module
import pymysql
from msgspec import Struct
from pymysql.cursors import SSCursor

from strata.errors import AccessDeniedError
from strata.gtid.sets import GtidSet
from strata.jobs.prove.compare_rows import FROM_SELECT
from strata.jobs.reconcile.keys import KeyColumns
from strata.rows.arrow import arrow_type
from strata.schema.live.engine import read_definition
from strata.schema.model.create_sql import quoted
from strata.schema.model.types import TypeKind, parse_column_type
from strata.tables.convert import state_schema
from strata.tables.layout import column_name
from strata.wire.connection import as_strata_error, connect
from strata.wire.server_files import ServerFiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strata.gtid.position import BinlogPosition
    from strata.jobs.reconcile.keys import Key
    from strata.schema.model.definition import Column, TableDefinition, TableName
    from strata.wire.connection import ServerAddress

_LOCK_WAIT_SECONDS = 5
_KEYS_AT_ONCE = 200
_CHANGED = {1054: "a column is gone", 1146: "the table is gone", 1205: "it is locked", 1412: "it was altered"}
_DENIED = frozenset({1142, 1143})


class TableChangedError(Exception):
    """Somebody altered, dropped or locked the table while it was read."""


class Pace(Struct, frozen=True):
    """How gently a server is read."""

    rows: int = 10_000
    """Of one SELECT."""
    pause: float = 0.0
    """Seconds between two of them."""


class ServerRows:
    """A session with a server that only reads."""

    def __init__(self, address: ServerAddress, pace: Pace) -> None:
        """Connects.

        Raises:
            SourceUnavailableError: The server does not answer.
            AccessDeniedError: Wrong user or password.
        """
        self._address, self._pace = address, pace
        self._connection = connect(address)
        # A global SERIALIZABLE would lock rows, READ UNCOMMITTED would show what is rolled back later.
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        # Keys with zero dates are compared, and times are those of the change tables.
        self._run(f"SET SESSION lock_wait_timeout = {_LOCK_WAIT_SECONDS}")
        self._run("SET SESSION time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")

    def close(self) -> None:
        """Ends the session."""
        self._connection.close()

    def numbers_all(self) -> bool:
        """Whether each transaction that the server executes has a GTID."""
        [[mode]] = self._run("SELECT @@GLOBAL.gtid_mode")
        return str(mode).upper() == "ON"

    def executed(self) -> GtidSet:
        """What the server has executed. All of it can be seen by a SELECT that begins now: a transaction enters the set
        behind its commit in InnoDB."""
        [[text]] = self._run("SELECT @@GLOBAL.gtid_executed")
        return GtidSet.parse(str(text).replace("\n", ""))

    def end(self) -> BinlogPosition:
        """Where the binlog ends. Whatever a SELECT has seen until now is written in front of it.

        Raises:
            AccessDeniedError: The grant REPLICATION CLIENT is missing.
        """
        with self._errors():
            return ServerFiles.read(self._connection).end

    def definition(self, name: TableName) -> TableDefinition | None:
        """The table as it is now; None if there is none."""
        return read_definition(self._connection, name)

    def whole(self, name: TableName, definition: TableDefinition) -> Iterator[pa.Table]:
        """All rows: by ranges of the primary key, each in a SELECT of its own; without a key, in one SELECT.

        Raises:
            TableChangedError: It is not the table of this definition any more.
        """
        if not definition.primary_key:
            yield from self._select(name, definition, "", "")
            return
        keys = KeyColumns(definition)
        yield from self._ranges(name, definition, keys, None, None)

    def ranges(
        self, name: TableName, definition: TableDefinition, starts: Sequence[Key | None], rows: int
    ) -> Iterator[pa.Table]:
        """Some rows from each of some keys on; one that begins in the one before it gives rows once more.

        Args:
            name: The table.
            definition: With a primary key.
            starts: Values of the key; None for the beginning.
            rows: How many of each.
        """
        for start in starts:
            yield from self._ranges(name, definition, KeyColumns(definition), start, rows)

    def of_keys(self, name: TableName, definition: TableDefinition, wanted: Sequence[Key]) -> Iterator[pa.Table]:
        """The rows of some keys."""
        keys = KeyColumns(definition)
        for at in range(0, len(wanted), _KEYS_AT_ONCE):
            yield from self._select(name, definition, f"WHERE {keys.among(wanted[at : at + _KEYS_AT_ONCE])}", "")
            time.sleep(self._pace.pause)

    def _ranges(
        self, name: TableName, definition: TableDefinition, keys: KeyColumns, start: Key | None, most: int | None
    ) -> Iterator[pa.Table]:
        condition = "" if start is None else f"WHERE {keys.behind(start, inclusive=True)}"
        left = most
        while left is None or left > 0:
            size = self._pace.rows if left is None else min(left, self._pace.rows)
            last = None
            found = 0
            for rows in self._select(name, definition, condition, f"ORDER BY {keys.order} LIMIT {size}"):
                last = _last_key(rows, definition)
                found += rows.num_rows
                yield rows
            if found < size or last is None:
                return
            if left is not None:
                left -= found
            condition = f"WHERE {keys.behind(last)}"
            time.sleep(self._pace.pause)

    def _select(self, name: TableName, definition: TableDefinition, where: str, tail: str) -> Iterator[pa.Table]:
        columns = ", ".join(map(_selected, definition.columns))
        table = f"{quoted(name.database)}.{quoted(name.table)}"
        statement = f"SELECT {columns} FROM {table} {where} {tail}"  # noqa: S608  quoted names and literals of ours
        with self._errors(), self._connection.cursor(SSCursor) as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(self._pace.rows):
                yield _as_table(rows, definition)

    def _run(self, statement: str) -> Sequence[Sequence[Any]]:
        with self._errors(), self._connection.cursor() as cursor:
            cursor.execute(statement)
            found: Sequence[Sequence[Any]] = cursor.fetchall()
            return found

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except pymysql.MySQLError as error:
            code = error.args[0] if error.args else 0
            if code in _CHANGED:
                raise TableChangedError(_CHANGED[code]) from None
            if code in _DENIED:
                raise AccessDeniedError(
                    f"a table cannot be read: {error.args[-1]}", remedy="Grant SELECT on it, or leave it out."
                ) from None
            raise as_strata_error(error, self._address) from None


def _selected(column: Column) -> str:
    """A FLOAT is printed with six digits, which are not all it has."""
    name = quoted(column.name)
    return f"({name} + 0e0)" if parse_column_type(column.column_type).kind is TypeKind.FLOAT else name


def _as_table(rows: Iterable[Sequence[Any]], definition: TableDefinition) -> pa.Table:
    arrays = [
        FROM_SELECT[parse_column_type(column.column_type).kind](values, arrow_type(column))
        for column, values in zip(definition.columns, zip(*rows, strict=True), strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=state_schema(definition))


def _last_key(rows: pa.Table, definition: TableDefinition) -> Key:
    key = tuple(rows[column_name(name)][-1].as_py() for name in definition.primary_key)
    if None in key:
        raise TableChangedError("a key holds a zero date, which the change tables do not tell from another")
    return key
