"""Rows as a server has them: read gently, in ranges of one consistent SELECT each, without a lock and without a
transaction that stays open.
Not here: what is compared with them (`compare.py`), statements (`changes/select/`)."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql
from msgspec import Struct

from strata_cdc.binlog.protocol.connection import ODD_ANSWERS, as_strata_error, connect, fetch_rows
from strata_cdc.binlog.protocol.server_files import ServerFiles
from strata_cdc.binlog.protocol.visible_state import read_visible_state
from strata_cdc.changes.select.keys import select_key
from strata_cdc.changes.select.rows import SelectedRows, ServerSelect
from strata_cdc.changes.select.statement import prepare_session
from strata_cdc.errors import AccessDeniedError, BadData, SchemaMismatchError, SourceUnavailableError, one_line
from strata_cdc.position.binlog_position import ServerPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.quality.reconcile.literals import border_of
from strata_cdc.schema.live.engine import read_definition
from strata_cdc.schema.live.masking import REMEDY, masked_columns, shown_masked
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.verbatim import verbatim_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strata_cdc.binlog.protocol.client import Client
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.changes.select.keys import SelectKey
    from strata_cdc.position.port import Executed
    from strata_cdc.quality.reconcile.literals import Key
    from strata_cdc.schema.model.definition import TableDefinition, TableName

_KEYS_AT_ONCE = 200
_CHANGED = {
    1054: "a column is gone",
    1146: "the table is gone",
    1176: "its key is gone",
    1205: "somebody else holds it locked",
    1412: "it was altered",
}
_DENIED = frozenset({1142, 1143})
_FIRST_OF_CLIENT, _LAST_OF_CLIENT = 2000, 2999
_GONE = frozenset({0, 1040, 1053, 1077, 1079, 1080, 1129, 1130, 1152, 1158, 1159, 1160, 1161, 1927, 3169, 4031})
"""The server, or this session, is not there any more. PyMySQL gives 0 for a connection that it has closed."""


class TableChangedError(Exception):
    """Somebody altered, dropped or locked the table while it was read."""


class UnreadableTableError(BadData):
    """The server does not give the rows of a table; it gives those of others."""


class Pace(Struct, frozen=True):
    """How gently a server is read."""

    rows: int = 10_000
    """Of one SELECT."""
    pause: float = 0.0
    """Seconds between two of them."""
    lock_wait_seconds: int = 5
    """How long a table is waited for that somebody else holds locked."""


class ServerRows:
    """A session with a server that only reads."""

    def __init__(self, address: ServerAddress, pace: Pace) -> None:
        """Connects.

        Raises:
            SourceUnavailableError: The server does not answer.
            AccessDeniedError: Wrong user or password.
        """
        self._address, self._pace = address, pace
        self._connect()

    def _connect(self) -> None:
        self._connection = connect(self._address)
        self._client: Client = self._connection
        self.server_uuid = read_visible_state(self._run).identity
        with self._errors():
            prepare_session(self._connection)
        # A global SERIALIZABLE would lock rows, READ UNCOMMITTED would show what is rolled back later.
        self._run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        self._run(f"SET SESSION lock_wait_timeout = {self._pace.lock_wait_seconds}")

    def close(self) -> None:
        """Ends the session."""
        if self._connection.open:
            self._connection.close()

    def begin_anew(self) -> None:
        """After a table that was not read to its end: it is not known what the server still sends of it.

        Raises:
            SourceUnavailableError: The server does not answer, or is another one.
        """
        before = self.server_uuid
        self.close()
        self._connect()
        if self.server_uuid != before:
            raise SourceUnavailableError(
                f"{self._address} has become another server while tables were read", remedy="Run the same again."
            )

    def numbers_all(self) -> bool:
        """Whether each transaction that the server executes has a GTID."""
        return read_visible_state(self._run).numbers_all

    def executed(self) -> Executed:
        """What the server has executed. All of it can be seen by a SELECT that begins now: a transaction enters the set
        after its commit in InnoDB. What has no GTID can be seen as well: in gtid_mode ON none is left that is not
        committed (sql/sys_vars.cc, `Sys_var_gtid_mode`).

        Raises:
            TableChangedError: The server does not number its transactions any more.
        """
        now = read_visible_state(self._run)
        if not now.numbers_all:
            raise TableChangedError(f"the server went over to gtid_mode {now.gtid_mode}")
        return parse_executed(now.executed)

    def end(self) -> ServerPosition:
        """Where the binlog ends. Whatever a SELECT has seen until now is written before it.

        Raises:
            AccessDeniedError: The grant REPLICATION CLIENT is missing.
        """
        with self._errors():
            return ServerPosition(self.server_uuid, ServerFiles.from_server(self._connection).end)

    def definition(self, name: TableName) -> TableDefinition | None:
        """The table as it is now; None if there is no such table.

        Raises:
            UnreadableTableError: The server cannot show its definition, or what is stored in its columns.
        """
        with self._errors():
            masked = masked_columns(self._connection, name)
            if masked:
                raise UnreadableTableError(shown_masked(masked), remedy=REMEDY)
            return read_definition(self._connection, name)

    def whole(self, name: TableName, definition: TableDefinition) -> Iterator[pa.Table]:
        """All rows: by ranges of a key, each in a SELECT of its own; without a key, in one SELECT.

        Raises:
            TableChangedError: It is not the table of this definition any more.
            UndecodableTextError: A value is not text in its column's charset.
            UnreadableTableError: The server refuses to give its rows.
        """
        key = select_key(definition)
        if key is None:
            yield from self._select(_selection(name, definition))
        else:
            yield from self._range(name, definition, key, "", None)

    def ranges(
        self, name: TableName, definition: TableDefinition, starts: Sequence[Key | None], rows: int
    ) -> Iterator[pa.Table]:
        """Some rows from each of some keys on; one that begins in the one before it gives rows once more.

        Args:
            definition: With a primary key that `select_key` finds.
            starts: Values of the key; None for the beginning.
            rows: How many of each.
        """
        key = _require(select_key(definition))
        for start in starts:
            where = ""
            if start is not None:
                border = border_of(definition, key.columns, start)
                where = f"WHERE ({key.after(border)} OR ({key.equal(border)}))"
            yield from self._range(name, definition, key, where, rows)

    def of_keys(self, name: TableName, definition: TableDefinition, wanted: Sequence[Key]) -> Iterator[pa.Table]:
        """The rows of some keys."""
        key = _require(select_key(definition))
        for at in range(0, len(wanted), _KEYS_AT_ONCE):
            batch = wanted[at : at + _KEYS_AT_ONCE]
            either = " OR ".join(
                f"({key.equal(border_of(definition, key.columns, key_of_border))})" for key_of_border in batch
            )
            yield from self._select(_selection(name, definition, f"WHERE {either}"))
            time.sleep(self._pace.pause)

    def _range(
        self, name: TableName, definition: TableDefinition, key: SelectKey, where: str, most: int | None
    ) -> Iterator[pa.Table]:
        left = most
        while left is None or left > 0:
            size = self._pace.rows if left is None else min(left, self._pace.rows)
            tail = f"{key.hint()} {where} {key.order} LIMIT {size}"
            rows = SelectedRows(self._client, _selection(name, definition, tail, key.columns))
            yield from self._batches(rows, definition)
            if rows.rows < size or rows.border is None:
                return
            if left is not None:
                left -= rows.rows
            where = f"WHERE {key.after(rows.border)}"
            time.sleep(self._pace.pause)

    def _select(self, selection: ServerSelect) -> Iterator[pa.Table]:
        yield from self._batches(SelectedRows(self._client, selection), selection.definition)

    def _batches(self, rows: SelectedRows, definition: TableDefinition) -> Iterator[pa.Table]:
        schema = exact_schema(definition)
        with self._errors():
            for batch in rows:
                yield pa.Table.from_arrays(batch.columns, schema=schema)

    def _run(self, statement: str) -> Sequence[Sequence[Any]]:
        with self._errors():
            return fetch_rows(self._connection, statement)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SchemaMismatchError as error:
            raise TableChangedError(error.message) from None
        except pymysql.MySQLError as error:
            code = error.args[0] if error.args else 0
            if code in _CHANGED:
                raise TableChangedError(_CHANGED[code]) from None
            if code in _DENIED:
                raise AccessDeniedError(
                    f"a table cannot be read: {error.args[-1]}", remedy="Grant SELECT on it, or leave it out."
                ) from None
            if code in _GONE or _FIRST_OF_CLIENT <= code <= _LAST_OF_CLIENT:
                raise as_strata_error(error, self._address) from None
            raise UnreadableTableError(
                f"the server does not give its rows: {one_line(str(error.args[-1]))} ({code})",
                remedy="`CHECK TABLE` and a SELECT of all columns on the server show more.",
            ) from None
        except ODD_ANSWERS as error:
            raise UnreadableTableError(f"what the server answers cannot be read: {one_line(str(error))}") from error


def _selection(
    name: TableName, definition: TableDefinition, tail: str = "", border: tuple[str, ...] = ()
) -> ServerSelect:
    """With the texts of what columns do not hold."""
    return ServerSelect(name, definition, tail, border, verbatim=verbatim_names(definition))


def _require(key: SelectKey | None) -> SelectKey:
    if key is None:
        raise TypeError("a table without a key by which it can be read was sampled")
    return key
