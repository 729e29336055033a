"""A server that speaks just enough of MySQL's protocol to say what a test wants it to say.
Not here: tests."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from strata_cdc.binlog.protocol.connection import ServerAddress, TlsMode
from strata_cdc.binlog.protocol.limits import ServerLimits
from tests.binlog.binlogs import SERVER, Binlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PASSWORD = "sEcReT-of-tests"
OK = b"\0\0\0\2\0\0\0"
EOF = b"\xfe\0\0\2\0"
# LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS, PLUGIN_AUTH; no TLS.
CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x20000 | 0x80000


def greeting(plugin: bytes = b"caching_sha2_password", version: bytes = b"9.7.4") -> bytes:
    low, high = CAPABILITIES & 0xFFFF, CAPABILITIES >> 16
    head = b"\x0a" + version + b"\0" + struct.pack("<I", 7) + b"12345678\0"
    rest = struct.pack("<HBHHB", low, 255, 2, high, 21) + bytes(10) + b"123456789012\0"
    return head + rest + plugin + b"\0"


def error(code: int, text: bytes) -> bytes:
    return b"\xff" + struct.pack("<H", code) + b"#HY000" + text


class Peer:
    """The server's side of one connection."""

    def __init__(self, sock: socket.socket, heard: bytearray) -> None:
        self.sock, self.heard, self.number = sock, heard, 0

    def send(self, payload: bytes) -> None:
        """One packet, numbered behind the last one in either direction."""
        self.sock.sendall(len(payload).to_bytes(3, "little") + bytes([self.number & 255]) + payload)
        self.number += 1

    def receive(self) -> bytes:
        """The payload of the client's next packet; b"" when it is gone."""
        head = self._take(4)
        payload = self._take(int.from_bytes(head[:3], "little")) if head else b""
        self.number = head[3] + 1 if head else 0
        return payload

    def log_in(self) -> None:
        self.send(greeting())
        self.receive()
        self.send(OK)

    def result(self, *rows: tuple[object, ...]) -> None:
        """A result set of texts and whole numbers."""
        columns = len(rows[0]) if rows else 2
        self.send(bytes([columns]))
        for number in range(columns):
            name = f"c{number}".encode()
            texts = b"\3def" + b"\0" * 3 + bytes([len(name)]) + name + b"\0"
            kind = 8 if rows and isinstance(rows[0][number], int) else 253
            self.send(texts + b"\x0c" + struct.pack("<HIBHB", 255, 1024, kind, 0, 0) + b"\0\0")
        self.send(EOF)
        for row in rows:
            cells = (b"\xfb" if cell is None else text(str(cell).encode()) for cell in row)
            self.send(b"".join(cells))
        self.send(EOF)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                return b""
            data += piece
        self.heard += data
        return data


def text(data: bytes) -> bytes:
    return (bytes([len(data)]) if len(data) < 251 else b"\xfc" + struct.pack("<H", len(data))) + data


PATIENT = ServerLimits(connect_seconds=10, silence_seconds=10, lock_seconds=10)
"""A test that waits in vain ends; on a busy machine an answer takes its time."""


@contextmanager
def hostile(serve: Callable[[Peer], None], limits: ServerLimits = PATIENT) -> Iterator[tuple[ServerAddress, bytearray]]:
    """A server that does `serve` with each connection; its address, and all that it has heard."""
    listener, heard = socket.create_server(("127.0.0.1", 0)), bytearray()
    port = listener.getsockname()[1]

    def handle(client: socket.socket) -> None:
        with client, suppress(OSError):
            serve(Peer(client, heard))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=handle, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield ServerAddress("127.0.0.1", port, "u", PASSWORD, tls=TlsMode.PREFERRED, limits=limits), heard


def source(
    dump: Callable[[Peer], None] = lambda _: None, *, gtid_mode: str = "ON", executed: str = f"{SERVER}:1-9", **replies
) -> Callable[[Peer], None]:
    """A source that answers as MySQL does until it is asked for its stream; `replies` are rows by a word of a query."""
    state = (SERVER, "9.7.4", gtid_mode, 1, "", 1_700_000_000_000_000)
    known = {"GET_LOCK": [(1, 7)], "server_uuid": [state], "gtid_purged": [(executed, "")]}
    known |= {"BINARY LOGS": [("binlog.000001", 157)], **replies}

    def serve(peer: Peer) -> None:
        peer.log_in()
        while command := peer.receive():
            if command[0] in (0x12, 0x1E):
                dump(peer)
                return
            said = command[1:].decode(errors="replace")
            rows = next((found for word, found in known.items() if word in said), None)
            if callable(rows):
                rows(peer)
            elif rows is None:
                peer.send(OK)
            else:
                peer.result(*rows)

    return serve


def event(kind: int, body: bytes, *, length: int | None = None, flags: int = 0, log_pos: int = 0) -> bytes:
    """An event without a checksum, in its packet's form."""
    size = 19 + len(body) if length is None else length
    return b"\0" + struct.pack("<IBIIIH", 1_700_000_000, kind, 1, size, log_pos, flags) + body


def rotate(name: bytes) -> bytes:
    return event(4, struct.pack("<Q", 4) + name, flags=0x20)


def format_event() -> bytes:
    """Of a file without checksums."""
    return b"\0" + bytes(Binlog(checksum=False).data[4:])
