"""The compressed client protocol: packets inside outer packets, each in zlib or zstd or, if that saves nothing,
plain.
Not here: when it is used (`connection.py`), compressed transactions, which are events (`binlog/bytes/payload.py`)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import zstandard
from msgspec import Struct
from pymysql.constants import CLIENT

from strata_cdc.binlog.protocol.client import Client
from strata_cdc.errors import CorruptEventError, SourceSettingsError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

_HEADER_BYTES = 7
"""Length (3 bytes), number (1), length before compression or 0 for plain (3); manual, "Compressed Packet"."""
_LARGEST_BYTES = (1 << 24) - 1
_LEAST_BYTES = 50
"""MySQL's clients send less than this plain (`MIN_COMPRESS_LENGTH`)."""
_READ_BYTES = 1 << 16
_BEGIN_BYTES = 32
"""Bytes of a handshake response before the user's name; alone, they request TLS."""


class Algorithm(Struct, frozen=True):
    """One of the server's `protocol_compression_algorithms`."""

    name: str
    capability: int
    """The flag by which both sides agree on the algorithm."""
    level: bytes
    """What a client adds to its handshake response to request it."""
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes, int], bytes]
    """A function from a packet's body and its maximum size to its contents."""


ZLIB = Algorithm(
    "zlib",
    CLIENT.COMPRESS,
    b"",
    zlib.compress,
    lambda body, size: zlib.decompressobj().decompress(body, size),
)
ZSTD = Algorithm(
    "zstd",
    1 << 26,  # CLIENT_ZSTD_COMPRESSION_ALGORITHM, which PyMySQL does not name (include/mysql_com.h)
    bytes([3]),
    lambda data: zstandard.ZstdCompressor().compress(data),
    lambda body, size: zstandard.ZstdDecompressor().stream_reader(body).read(size),
)


class CompressedSocket:
    """What PyMySQL and the stream need of a socket, with the other side speaking the compressed protocol."""

    def __init__(self, sock: socket.socket, algorithm: Algorithm) -> None:
        """Takes over a connection that has just been authenticated."""
        self._sock, self._algorithm = sock, algorithm
        self._arrived = bytearray()
        self._inflated = memoryview(b"")
        self._number = 0

    def settimeout(self, seconds: float | None) -> None:
        """As for a socket; an incomplete packet is kept when the time is over."""
        self._sock.settimeout(seconds)

    def recv_into(self, room: memoryview) -> int:
        """Bytes of packets as they were before compression; 0 at the end.

        Raises:
            CorruptEventError: What arrives does not follow the protocol.
        """
        while not self._inflated:
            if not self._take_packet():
                data = self._sock.recv(_READ_BYTES)
                if not data:
                    return 0
                self._arrived += data
        size = min(len(room), len(self._inflated))
        room[:size] = self._inflated[:size]
        self._inflated = self._inflated[size:]
        return size

    def read(self, size: int) -> bytes:
        """This number of bytes, fewer only at the end: what PyMySQL needs of a socket's file."""
        content = bytearray(size)
        view, at = memoryview(content), 0
        while at < size:
            received = self.recv_into(view[at:])
            if not received:
                break
            at += received
        return bytes(content[:at])

    def sendall(self, data: bytes) -> None:
        """Sends packets."""
        if data[3] == 0:
            # The first packet of a command: both numberings begin again.
            self._number = 0
        for at in range(0, len(data), _LARGEST_BYTES):
            chunk = data[at : at + _LARGEST_BYTES]
            packed = self._algorithm.compress(chunk) if len(chunk) >= _LEAST_BYTES else chunk
            is_packed = len(packed) < len(chunk)
            body = packed if is_packed else chunk
            header = len(body).to_bytes(3, "little") + bytes([self._number & 0xFF])
            self._sock.sendall(header + (len(chunk) if is_packed else 0).to_bytes(3, "little") + body)
            self._number += 1

    def close(self) -> None:
        """Closes the connection."""
        self._sock.close()

    def _take_packet(self) -> bool:
        """Inflates the next packet, if all of it has arrived."""
        arrived = self._arrived
        if len(arrived) < _HEADER_BYTES:
            return False
        length, size = int.from_bytes(arrived[:3], "little"), int.from_bytes(arrived[4:7], "little")
        if len(arrived) < _HEADER_BYTES + length:
            return False
        body = bytes(arrived[_HEADER_BYTES : _HEADER_BYTES + length])
        self._number = arrived[3] + 1
        del arrived[: _HEADER_BYTES + length]
        if size:
            try:
                body = self._algorithm.decompress(body, size)
            except (zlib.error, zstandard.ZstdError) as error:
                raise CorruptEventError(f"a compressed packet is damaged: {error}") from None
            if len(body) != size:
                raise CorruptEventError(f"a compressed packet has {len(body)} bytes instead of {size}")
        self._inflated = memoryview(body)
        return True


class CompressedConnection(Client):
    """A connection that speaks the compressed protocol as soon as it is authenticated."""

    algorithm = ZLIB
    _is_at_body = False
    _has_answered = False

    def _read_bytes(self, num_bytes: int) -> bytes:
        # A header and a body alternately. The server lets the numbers of packets jump with each packet around them
        # (sql-common/net_serv.cc, `net_flush`), PyMySQL wants them one after the other.
        data: bytes = super()._read_bytes(num_bytes)
        if not self._is_at_body:
            data = data[:3] + bytes([self._next_seq_id])
        self._is_at_body = not self._is_at_body
        return data

    def write_packet(self, payload: bytes) -> None:
        """Sends a packet; the handshake response is the first that is more than a request for TLS."""
        if not self._has_answered and len(payload) > _BEGIN_BYTES:
            payload, self._has_answered = payload + self.algorithm.level, True
        super().write_packet(payload)

    def _request_authentication(self) -> None:
        algorithm = self.algorithm
        if not self.server_capabilities & algorithm.capability:
            raise SourceSettingsError(
                f"the server does not compress its protocol by {algorithm.name}",
                remedy=f"Leave `compression` out of the connection's URL, or add {algorithm.name} to the server's "
                "protocol_compression_algorithms.",
            )
        self.client_flag |= algorithm.capability
        super()._request_authentication()
        self._sock: Any = CompressedSocket(self._sock, algorithm)
        self._rfile: Any = self._sock


class ZstdConnection(CompressedConnection):
    """The same with zstd, which servers have from 8.0.18 on."""

    algorithm = ZSTD


CONNECTIONS = {ZLIB.name: CompressedConnection, ZSTD.name: ZstdConnection}
