"""A client of the replication protocol of MySQL and MariaDB: requests the stream, yields it in large chunks.
Not here: what is done with them (`landing/recorder.py`), connecting (`connection.py`)."""

from __future__ import annotations

import random
import re
import socket
import struct
import time
import uuid
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pymysql
from msgspec import Struct

from strata_cdc.binlog.bytes.codes import HEADER_BYTES, LARGEST_EVENT_BYTES, LARGEST_HEAD_BYTES, EventType
from strata_cdc.binlog.kernels.layout import PacketState
from strata_cdc.binlog.kernels.packets import PACKET_HEADER_BYTES, UNNUMBERED, Packet, split_packets
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.protocol import hosting
from strata_cdc.binlog.protocol.binlog_expiry import VARIABLES, expire_seconds
from strata_cdc.binlog.protocol.connection import ProtocolCompression, as_strata_error, connect, server_errors
from strata_cdc.binlog.protocol.engine_binlog import EngineBinlog
from strata_cdc.binlog.protocol.engine_file import ENGINE_BEGIN, STORAGE_ENGINE, is_in_engine_file, refuse_positions
from strata_cdc.binlog.protocol.server_files import FIRST_OFFSET, ServerFiles, begins_at
from strata_cdc.errors import (
    AccessDeniedError,
    BinlogPurgedError,
    BinlogUnreadableError,
    CorruptEventError,
    SourceDivergedError,
    SourceSettingsError,
    SourceUnavailableError,
    one_line,
)
from strata_cdc.flavour import Flavour, Vendor
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.owned import owned_gtids, with_gtids

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import numpy.typing as npt

    from strata_cdc.binlog.kernels.records import Records
    from strata_cdc.binlog.protocol.compression import CompressedSocket
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed

_BUFFER_BYTES = 4 << 20
_FILL_BYTES = 1 << 20
_COM_BINLOG_DUMP = 0x12
_COM_REGISTER_REPLICA = 0x15
_COM_BINLOG_DUMP_GTID = 0x1E
_NON_BLOCKING = 0x01
_ANNOTATE_ROWS = 0x02
"""MariaDB sends ANNOTATE_ROWS events, too: without them, events that have no end position lie nowhere."""
_BY_GTID = 0x04
_MARIADB_CAPABILITY = 4
"""The replica reads MariaDB's GTID events (sql/slave.h, MARIA_SLAVE_CAPABILITY_GTID); else the server rewrites them."""
_NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
"""Not by the local time, which comes twice when clocks are put back."""
_HEARTBEAT_SECONDS = 2
"""With heartbeats the server also notices that its reader is gone, and frees one of its 151 connections; a reader that
waits looks more often anyhow."""
_WAIT_SECONDS = 0.5
"""If nothing arrives, the reader decides at each multiple of this on the machine's clock whether to wait longer: for
all servers at the same moments, and independently of heartbeats."""
_OFFSETS = 1 << 32
"""COM_BINLOG_DUMP has four bytes for an offset; only the command for GTID sets has eight."""
_MADE_UP = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_NO_REPLICATION = frozenset({1045, 1227})
"""The server reports "access denied for user" if a user that has logged in lacks the grant (sql/rpl_replica.cc)."""
_CANNOT_SEND = 1236
"""ER_SOURCE_FATAL_ERROR_READING_BINLOG: purged files, and other reasons that are only in its text."""
_MIXED = "Cannot replicate"
"""Beginning of the server's message if a GTID meets gtid_mode OFF, or no GTID meets ON or a request by GTID set
(sql/rpl_binlog_sender.cc, `check_event_type`)."""


_DIVERGED = re.compile("not in the master's binlog|is missing the GTID")
"""Part of MariaDB's message if its binlog does not have a GTID of the requested position (sql/sql_repl.cc)."""


class ServerState(Struct, frozen=True):
    """The state of a server and its binlog."""

    uuid: str
    """MySQL's UUID, or MariaDB's `server_uid`, which servers in containers may have in common."""
    version: str
    gtid_mode: str
    """MariaDB, which numbers all of its transactions: ON."""
    executed: Executed
    purged: Executed
    now: int
    """Its clock, microseconds UTC."""
    expire_seconds: int | None = None
    """Seconds after a binlog's last event until the server may delete the file; None: not by itself."""
    server_id: int = 0
    """MariaDB: its number among the servers that replicate from each other."""
    committed: Executed | None = None
    """Holds each transaction whose time of commit is before `now`; None if the server does not show which: MariaDB logs
    the time of a session, servers before 8.0.1 that of the statement, and only a GTID shows what commits just now."""
    binlog_engine: str = ""
    """MariaDB: the storage engine that keeps the binlog; empty if it lies in files. Such a server does not say what it
    has purged: `purged` is empty, and a request for what is gone is refused."""

    @classmethod
    def from_server(cls, connection: pymysql.Connection[Any]) -> Self:
        """Queries the server.

        Raises:
            SourceSettingsError: The server writes no binlog.
        """
        if is_mariadb(connection):
            return cls._read_mariadb(connection)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT @@GLOBAL.server_uuid, @@GLOBAL.version, @@GLOBAL.gtid_mode, @@GLOBAL.log_bin,"
                f" @@GLOBAL.gtid_owned, {_NOW}"
            )
            server_uuid, version, gtid_mode, log_bin, owned, now = cursor.fetchone()
            # After the clock and what is owned: see `owned_gtids`.
            cursor.execute("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")
            executed, purged = map(parse_executed, cursor.fetchone())
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", ((*VARIABLES, *hosting.VARIABLES),))
            variables = {str(name): str(value) for name, value in cursor.fetchall()}
        kept = _kept_seconds(connection, variables)
        _require_binlog(log_bin)
        mode, committed = str(gtid_mode).upper(), None
        if mode == "ON" and Flavour.parse(version).is_mysql(8, 0, 1):
            committed = with_gtids(executed, owned_gtids(owned))
        return cls(server_uuid, version, mode, executed, purged, int(now), kept, committed=committed)

    @classmethod
    def _read_mariadb(cls, connection: pymysql.Connection[Any]) -> Self:
        # What its binlog has: `gtid_current_pos` may name a GTID that was never in there.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT @@GLOBAL.server_uid, @@GLOBAL.server_id, @@GLOBAL.version, @@GLOBAL.log_bin,"
                f" @@GLOBAL.gtid_binlog_pos, {_NOW}"
            )
            identity, server_id, version, log_bin, executed, now = cursor.fetchone()
            _require_binlog(log_bin)
            cursor.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", ((*VARIABLES, STORAGE_ENGINE),))
            variables = {str(name): str(value) for name, value in cursor.fetchall()}
            engine, purged = variables.pop(STORAGE_ENGINE, ""), None
            if not engine:
                files = ServerFiles.from_server(connection)
                cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (files.begin.file, FIRST_OFFSET))
                [purged] = cursor.fetchone()
        sets = parse_executed(str(executed)), parse_executed(str(purged or ""))
        return cls(identity, version, "ON", *sets, int(now), expire_seconds(variables), server_id, None, engine)

    @property
    def vendor(self) -> Vendor:
        """Who makes the server."""
        return Flavour.parse(self.version).vendor

    @property
    def numbers_all(self) -> bool:
        """Whether every transaction that it executes from now on has a GTID."""
        return self.gtid_mode == "ON"

    def require_gtids(self) -> None:
        """Checks that the server has GTIDs, for what needs them.

        Raises:
            SourceSettingsError: It executes transactions without GTIDs.
        """
        if not self.numbers_all:
            raise SourceSettingsError(
                f"the server does not number all of its transactions (gtid_mode is {self.gtid_mode})",
                remedy="Run `strata doctor` for how to switch it on without a restart.",
            )


def is_mariadb(connection: pymysql.Connection[Any]) -> bool:
    """Whether the server is MariaDB, by its greeting: `5.5.5-10.11.18-MariaDB`."""
    return Flavour.parse(str(connection.get_server_info())).vendor is Vendor.MARIADB


def _require_binlog(log_bin: object) -> None:
    if not log_bin:
        raise SourceSettingsError(
            "the server writes no binlog (log_bin is OFF)", remedy="Run `strata doctor` for how to fix it."
        )


class EventBytes(Struct, frozen=True):
    """Bytes of events as they lie in the server's file, in order; an event may continue in the next chunk. A server
    without files has none of their end positions: they are made here (`engine_binlog.py`)."""

    data: memoryview
    """Only valid until the next chunk is requested."""
    missing: int
    """Bytes of its last event that are still to come, by the event's length."""


class Control(Struct, frozen=True):
    """A whole event that comes between transactions, and is none of their bytes (`kernels.packets.CONTROLS`)."""

    event: bytes


class Quiet(Struct, frozen=True):
    """Nothing came for half a second."""


class Until(Enum):
    """Where a stream ends."""

    END_OF_BINLOG = "the server has sent all that it has"
    CLOSED = "the reader closes it; transactions that the server executes in the meantime follow"
    ENOUGH = "the reader closes it as soon as it has what it wants; a server that sends only heartbeats is an error"


class Gaps(Enum):
    """What a MariaDB server does if its binlog lacks the GTID of the requested position, and has later ones of the same
    writer. It would then begin at the first of these, and leave out what others wrote before it."""

    REFUSED = "it ends the stream with an error"
    ALLOWED = "it begins there: for a request whose GTID is only a bound"


class BinlogStream:
    """The stream of one server, from a position on."""

    def __init__(
        self, address: ServerAddress, connection: pymysql.Connection[Any], server_id: int | None = None
    ) -> None:
        """Takes over a connection; nothing else may use it any more."""
        self._address, self._server_id = address, server_id
        self._connection = connection
        self._silent_seconds = 0.0
        self._engine: EngineBinlog | None = None

    @classmethod
    def open(cls, address: ServerAddress, *, server_id: int | None = None) -> Self:
        """Connects.

        Args:
            address: The server.
            server_id: The number with which this side is a replica; None: a random one from 2**30 on. MariaDB ends the
                former connection with the same number.

        Raises:
            AccessDeniedError: Wrong user or password.
            SourceUnavailableError: The server does not answer.
        """
        return cls(address, connect(address, read_seconds=address.limits.silence_seconds), server_id)

    def state(self) -> ServerState:
        """The server's state; only before `read`."""
        with server_errors(self._address):
            return ServerState.from_server(self._connection)

    def files(self) -> ServerFiles:
        """Which files the server has; only before `read`.

        Raises:
            AccessDeniedError: The grant REPLICATION CLIENT is missing.
        """
        with server_errors(self._address):
            return ServerFiles.from_server(self._connection)

    def begins_event(self, at: BinlogPosition) -> bool:
        """Whether an event begins at a position that the server has written; nothing else may be requested afterwards.

        Raises:
            StrataError: As `read_events`, except if the server finds no event there.
        """
        try:
            for item in self.read_events(at):
                header = bytes(item.data[:HEADER_BYTES]) if isinstance(item, EventBytes) else b""
                if isinstance(item, Control) and int.from_bytes(item.event[13:17], "little"):
                    # An event that is made for the connection is not in the file.
                    header = b"" if item.event[4] in _MADE_UP else item.event[:HEADER_BYTES]
                if header:
                    return begins_at(header, at.offset)
        except (BinlogUnreadableError, CorruptEventError):
            return False
        return False

    def close(self) -> None:
        """Breaks the connection; the server notices, and stops sending."""
        self._connection._force_close()  # noqa: SLF001 - `close` would send COM_QUIT into the stream

    def read_events(
        self,
        start: bytes | str | BinlogPosition,
        until: Until = Until.END_OF_BINLOG,
        *,
        after: BinlogPosition | None = None,
        gaps: Gaps = Gaps.REFUSED,
    ) -> Iterator[EventBytes | Control | Quiet]:
        """Requests the stream from a position on, and yields it.

        Args:
            start: A position in the form of the server's protocol (`events.gtid.stream_request`), for all transactions
                that are not in it; or the position of an event in the server's files, for everything from there on.
            until: Where it ends.
            after: Where the last transaction before it ends. Only a server that has no positions is counted from there,
                if that is a place in such a stream.
            gaps: Of MariaDB.

        Raises:
            AccessDeniedError: The grant REPLICATION SLAVE is missing.
            BinlogPurgedError: What comes next was purged meanwhile.
            SourceDivergedError: MariaDB's binlog does not have what the stream continues after.
            SourceSettingsError: The server may not send what comes next because of its gtid_mode, or has no files.
            SourceUnavailableError: The connection broke, or the server ended the stream with an error.
            CorruptEventError: What arrives does not follow the protocol.
        """
        with server_errors(self._address):
            self._negotiate(start, gaps)
            if is_mariadb(self._connection):
                self._engine = self._engine_binlog(start, after)
            self._ask(start, _NON_BLOCKING if until is Until.END_OF_BINLOG else 0)
            received = self._receive(self._connection._sock)  # noqa: SLF001 - PyMySQL reads packet by packet, too slow
            yield from received if until is Until.CLOSED else self._unless_idle(received)

    def _unless_idle(self, items: Iterator[EventBytes | Control | Quiet]) -> Iterator[EventBytes | Control | Quiet]:
        since = time.monotonic()
        for item in items:
            if isinstance(item, EventBytes):
                yield item
                # Without the time that the reader took.
                since = time.monotonic()
                continue
            longest = self._address.limits.idle_seconds
            if time.monotonic() - since > longest:
                raise SourceUnavailableError(
                    f"{self._address} sent heartbeats for {longest} s, but neither transactions nor an end",
                    remedy="What had arrived is kept. Run the same again; if it happens again, look at the server.",
                )
            yield item

    def _engine_binlog(self, start: bytes | str | BinlogPosition, after: BinlogPosition | None) -> EngineBinlog | None:
        """How the stream is counted if the server has no files; None if it has."""
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL VARIABLES LIKE %s", (STORAGE_ENGINE,))
            if not any(engine for _, engine in cursor.fetchall()):
                return None
            if not isinstance(start, str):
                raise refuse_positions("it sends nothing from a file and an offset on")
            # The server takes what the session says for the form of its events, which have no checksums.
            cursor.execute("SET @master_binlog_checksum = 'NONE'")
            cursor.execute("SELECT UNIX_TIMESTAMP()")
            [now] = cursor.fetchone()
        return EngineBinlog(after if after is not None and is_in_engine_file(after) else ENGINE_BEGIN, int(now))

    def _negotiate(self, start: bytes | str | BinlogPosition, gaps: Gaps) -> None:
        heartbeat = _HEARTBEAT_SECONDS * 1_000_000_000
        with self._connection.cursor() as cursor:
            # Each variable under both of its names: 8.0.26 renamed them, 8.4 reads the new ones only.
            for word, replica in (("source", "replica"), ("master", "slave")):
                cursor.execute(f"SET @{word}_binlog_checksum = @@GLOBAL.binlog_checksum")
                cursor.execute(
                    f"SET @{word}_heartbeat_period = {heartbeat}, @{replica}_uuid = %s", (str(uuid.uuid4()),)
                )
            if is_mariadb(self._connection):
                cursor.execute(
                    f"SET @mariadb_slave_capability = {_MARIADB_CAPABILITY},"
                    f" @slave_gtid_strict_mode = {int(gaps is Gaps.REFUSED)}, @slave_gtid_ignore_duplicates = 0"
                )
            if isinstance(start, str):
                cursor.execute("SET @slave_connect_state = %s", (start,))

    def _ask(self, start: bytes | str | BinlogPosition, flags: int) -> None:
        # Any number that no replica has; the server distinguishes connections by the UUID that was set above.
        server_id = self._server_id or random.SystemRandom().randrange(1 << 30, 1 << 32)
        registration = struct.pack("<I", server_id) + b"\0\0\0" + struct.pack("<HII", 0, 0, 0)
        try:
            self._connection._execute_command(_COM_REGISTER_REPLICA, registration)  # noqa: SLF001 - not a command of SQL
            self._connection._read_ok_packet()  # noqa: SLF001 - as above
        except pymysql.err.OperationalError as error:
            if error.args[0] not in _NO_REPLICATION:
                raise
            user = self._address.user
            raise AccessDeniedError(
                f"{self._address} does not let {user} read its binlog: the grant REPLICATION SLAVE is missing",
                remedy=f"As an administrator: `GRANT REPLICATION SLAVE ON *.* TO {user}`, with the account's host "
                "unless that is %; `strata doctor` shows all grants that are needed, with the host.",
            ) from error
        flags |= _ANNOTATE_ROWS if is_mariadb(self._connection) else 0
        self._connection._execute_command(*_request(start, flags, server_id))  # noqa: SLF001 - as above

    def _receive(self, sock: socket.socket | CompressedSocket) -> Iterator[EventBytes | Control | Quiet]:
        data = np.empty(_BUFFER_BYTES, np.uint8)
        out = np.empty(_BUFFER_BYTES, np.uint8)
        states = records(PacketState, 1)
        is_plain = self._address.compression is ProtocolCompression.UNCOMPRESSED
        states[0].number = 1 if is_plain else UNNUMBERED
        states[0].largest = LARGEST_EVENT_BYTES
        states[0].log_pos = self._engine.begin if self._engine else 0
        begin = end = 0
        while True:
            received = self._fill(sock, data[end:].data)
            if received == 0:
                yield from self._head(None)
                yield Quiet()
                continue
            end += received
            status, begin = yield from self._split(data, begin, end, out, states)
            if status == Packet.END_OF_STREAM:
                yield from self._head(None)
                return
            if status != Packet.MORE:
                raise self._error(self._packet(data, begin)) if status == Packet.ERROR_PACKET else self._fault(status)
            data[: end - begin] = data[begin:end].copy()
            begin, end = 0, end - begin
            if end == len(data):
                data, out = self._enlarged(data), np.empty(2 * len(data), np.uint8)

    def _split(
        self,
        data: npt.NDArray[np.uint8],
        begin: int,
        end: int,
        out: npt.NDArray[np.uint8],
        states: Records[PacketState],
    ) -> Generator[EventBytes | Control, None, tuple[int, int]]:
        """Yields what is complete in data[begin:end]; returns why it stops, and where."""
        while True:
            status, count, at = split_packets(data, begin, end, out, states)
            if count:
                yield from self._head(out)
                yield EventBytes(out[:count].data, int(states[0].event_left))
            if status != Packet.CONTROL:
                return int(status), int(at)
            event = self._packet(data, int(at))
            begin = int(at) + PACKET_HEADER_BYTES + len(event)
            yield from self._controls(event[1:], int(states[0].log_pos))

    def _controls(self, event: bytes, at: int) -> Iterator[Control]:
        """An event between transactions; `at` is where the next one begins, if positions are counted here."""
        return map(Control, (event,) if self._engine is None else self._engine.add_event(event, at))

    def _head(self, following: npt.NDArray[np.uint8] | None) -> Iterator[Control]:
        """The head of a file that a server without files does not send, before the first event after it."""
        if self._engine is None:
            return iter(())
        seconds = None if following is None else int.from_bytes(following[:4].tobytes(), "little")
        return map(Control, self._engine.head(seconds))

    def _fill(self, sock: socket.socket | CompressedSocket, room: memoryview) -> int:
        """Reads what has arrived, waiting at most half a second; 0 if nothing arrives.

        TLS returns one record at a time, and a server sends each event in its own record: everything that has arrived
        is read at once, so that a reader with a backlog gets many transactions together.
        """
        sock.settimeout(_WAIT_SECONDS - time.monotonic() % _WAIT_SECONDS)
        try:
            total = sock.recv_into(room)
        except TimeoutError:
            self._note_silence()
            return 0
        self._silent_seconds = 0.0
        if total == 0:
            raise SourceUnavailableError(
                f"{self._address}, or something between here and there, closed the connection",
                remedy="What had arrived is kept. Run the same again.",
            )
        if not isinstance(sock, socket.socket):
            # A compressed socket returns a packet of many events at once.
            return total
        return total + self._read_more(sock, room[total : max(total, min(len(room), _FILL_BYTES))])

    @staticmethod
    def _read_more(sock: socket.socket, room: memoryview) -> int:
        """Reads what has arrived without waiting; an error shows with the next call."""
        total = 0
        sock.settimeout(0)
        with suppress(OSError):
            while total < len(room) and (received := sock.recv_into(room[total:])):
                total += received
        return total

    def _note_silence(self) -> None:
        self._silent_seconds += _WAIT_SECONDS
        if self._silent_seconds >= self._address.limits.silence_seconds:
            raise SourceUnavailableError(
                f"{self._address} sent nothing for {self._address.limits.silence_seconds} s, not even a heartbeat",
                remedy="What had arrived is kept. Run the same again.",
            ) from None

    def _enlarged(self, data: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if len(data) >= LARGEST_HEAD_BYTES:
            raise CorruptEventError(f"what {self._address} sends does not follow the replication protocol")
        larger = np.empty(2 * len(data), np.uint8)
        larger[: len(data)] = data
        return larger

    def _fault(self, status: int) -> CorruptEventError:
        if status == Packet.TOO_LARGE:
            return CorruptEventError(
                f"{self._address} sends an event of more than {LARGEST_EVENT_BYTES:,} bytes, as no server does"
            )
        return CorruptEventError(f"what {self._address} sends does not follow the replication protocol")

    @staticmethod
    def _packet(data: np.ndarray[Any, np.dtype[np.uint8]], at: int) -> bytes:
        begin = at + PACKET_HEADER_BYTES
        return data[begin : begin + int.from_bytes(data[at : at + 3].tobytes(), "little")].tobytes()

    def _error(self, packet: bytes) -> Exception:
        """Byte 0xFF, the number, `#` and five characters of SQL state, the text."""
        code = int.from_bytes(packet[1:3], "little")
        text = packet[9:] if packet[3:4] == b"#" else packet[3:]
        message = one_line(text.decode("utf-8", "replace"))
        if code != _CANNOT_SEND:
            return as_strata_error(RuntimeError(code, message), self._address)
        if "purge" in message and self._engine:
            return BinlogPurgedError(
                f"{self._address} has purged what comes next: {message}",
                remedy="Land it from a replica that still has it. Otherwise land the server under another source name, "
                'with `land_from = "snapshot"`: it begins with a snapshot, and not with the oldest binlog.',
            )
        if "purge" in message:
            return BinlogPurgedError(
                f"{self._address} purged the next events while they were requested: {message}",
                remedy="Run the same again: it says from where on the server still has its binlog.",
            )
        if _DIVERGED.search(message):
            return SourceDivergedError(
                f"{self._address} does not have what the stream continues after: {message}",
                remedy="Its binlog was reset, or it is another server than the one that was read. Point the connection "
                "at a server that has it, or land this server under another source name.",
            )
        if message.startswith(_MIXED):
            return SourceSettingsError(
                f"{self._address} does not send the next events: {message}",
                remedy="It sends transactions with and without a GTID where gtid_mode is OFF_PERMISSIVE or "
                "ON_PERMISSIVE: leave it there until they have landed.",
            )
        return BinlogUnreadableError(
            f"{self._address} cannot send its binlog: {message} ({code})",
            remedy="What had arrived is kept. Run the same again; the server's error log may say more.",
        )


def _kept_seconds(connection: pymysql.Connection[Any], variables: Mapping[str, str]) -> int | None:
    """Seconds after a binlog's last event until it may be gone: by the server's variables, or by the service that runs
    it; 0 if the service does not say."""
    service = hosting.hosting_of(variables, str(connection.host))
    if service is None or not service.has_own_retention:
        return expire_seconds(variables)
    return (hosting.retention_hours(connection) or 0) * 3600


def _request(start: bytes | str | BinlogPosition, flags: int, server_id: int) -> tuple[int, bytes]:
    """The command that requests the stream, and its arguments.

    Raises:
        SourceSettingsError: The protocol cannot request so large an offset.
    """
    if isinstance(start, bytes):
        head = struct.pack("<HIIQI", flags | _BY_GTID, server_id, 0, FIRST_OFFSET, len(start))
        return _COM_BINLOG_DUMP_GTID, head + start
    if isinstance(start, str):
        # The position is in a variable of the session.
        return _COM_BINLOG_DUMP, struct.pack("<IHI", FIRST_OFFSET, flags, server_id)
    if start.offset >= _OFFSETS:
        raise SourceSettingsError(
            f"the stream continues at {start}, but only offsets below 4 GiB can be requested of a server",
            remedy="Land under another source name from here on; transactions of gigabytes should be split.",
        )
    return _COM_BINLOG_DUMP, struct.pack("<IHI", start.offset, flags, server_id) + start.file.encode()
