"""Result sets of SELECT in the binary protocol, as the bytes that arrive, so that values are exact.
Not here: connections (`connection.py`), reading rows out of the bytes (`binlog/kernels/result_rows.py`,
`changes/select/`)."""

from __future__ import annotations

import struct
from io import BufferedReader
from typing import TYPE_CHECKING, Any

import pymysql
from msgspec import Struct
from pymysql.constants import CR
from pymysql.err import OperationalError
from pymysql.protocol import FieldDescriptorPacket

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes
    from strata_cdc.binlog.protocol.client import Client

_PREPARE, _EXECUTE, _CLOSE = 0x16, 0x17, 0x19
_PREPARED = struct.Struct("<xIHH")
"""After the zero: number of the statement, columns, parameters (manual, "COM_STMT_PREPARE Response")."""


class ResultColumn(Struct, frozen=True):
    """The server's description of a column of a result set."""

    name: str
    type_code: int
    collation_id: int
    is_unsigned: bool


class ResultSet:
    """A running statement; its rows arrive as fast as they are read, and are never all in memory."""

    def __init__(self, connection: Client, statement: str) -> None:
        """Prepares and executes it.

        Raises:
            pymysql.err.MySQLError: The server refuses it, or does not answer.
        """
        self._connection = connection
        self._statement_id, self.columns = _prepare(connection, statement)
        self._is_open = True
        self._is_begun = False
        if not self.columns:
            self._close_statement()
            raise OperationalError(CR.CR_MALFORMED_PACKET, "a statement that should return rows returns none")
        # No cursor on the server; the count of iterations is always one.
        connection._execute_command(_EXECUTE, struct.pack("<IBI", self._statement_id, 0, 1))  # noqa: SLF001 - PyMySQL has no prepared statements
        _skip(connection, 1 + len(self.columns) + 1)

    def read_into(self, room: Bytes) -> int:
        """Reads some bytes of packets, at least one.

        Raises:
            pymysql.err.OperationalError: The connection is gone.
        """
        connection: Any = self._connection
        if connection._rfile is None:  # noqa: SLF001 - as above, and below
            raise OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
        try:
            connection._sock.settimeout(connection._read_timeout)  # noqa: SLF001
            size = self._read_into(connection._rfile, memoryview(room))  # type: ignore[arg-type]  # noqa: SLF001
        except OSError as error:
            connection._force_close()  # noqa: SLF001
            raise OperationalError(
                CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query ({error})"
            ) from error
        if size == 0:
            connection._force_close()  # noqa: SLF001
            raise OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
        return size

    def _read_into(self, reader: Any, room: memoryview) -> int:
        if not isinstance(reader, BufferedReader):
            # The compressed protocol's.
            return int(reader.recv_into(room))
        if self._is_begun:
            return int(reader.raw.readinto(room) or 0)
        # What arrived with the head of the result set; `readinto1` would wait for more although it has some.
        self._is_begun = True
        size = min(len(reader.peek()), len(room))
        room[:size] = reader.read(size)
        return size

    def fail(self, packet: bytes) -> None:
        """Raises the error of an error packet.

        Raises:
            pymysql.err.MySQLError: Always.
        """
        self._is_open = False
        pymysql.err.raise_mysql_exception(packet)

    def finish(self) -> None:
        """After the last packet: the connection is free for the next statement."""
        if self._is_open:
            self._close_statement()

    def abandon(self) -> None:
        """Leaves the rest unread: the connection is closed, because what the server still sends cannot be skipped."""
        if self._is_open:
            self._is_open = False
            self._connection._force_close()  # noqa: SLF001 - `close` would talk to the server

    def _close_statement(self) -> None:
        self._is_open = False
        self._connection._execute_command(_CLOSE, struct.pack("<I", self._statement_id))  # noqa: SLF001 - as above


def _prepare(connection: Client, statement: str) -> tuple[int, tuple[ResultColumn, ...]]:
    connection._execute_command(_PREPARE, statement)  # noqa: SLF001 - as above
    answer = connection._read_packet().get_all_data()  # noqa: SLF001
    statement_id, columns, parameters = _PREPARED.unpack_from(answer)
    if parameters:
        _skip(connection, parameters + 1)
    result_columns = tuple(_column(connection) for _ in range(columns))
    if columns:
        _skip(connection, 1)
    return statement_id, result_columns


def _column(connection: Client) -> ResultColumn:
    packet = connection._read_packet(FieldDescriptorPacket)  # noqa: SLF001 - as above
    return ResultColumn(packet.name, packet.type_code, packet.charsetnr, bool(packet.flags & _UNSIGNED))


def _skip(connection: Client, packets: int) -> None:
    for _ in range(packets):
        connection._read_packet()  # noqa: SLF001 - as above


_UNSIGNED = 32
"""UNSIGNED_FLAG (include/mysql_com.h)."""
