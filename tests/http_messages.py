"""HTTP/1.1 as the stores of tests speak it: connections stay open, and a message costs a few lines of Python and one
write. `http.server` and werkzeug's server take several times the processor time of what they answer with.
Not here: who answers (`s3_program.py`, `store_proxy.py`)."""

from __future__ import annotations

import socket
from contextlib import suppress
from http import HTTPStatus
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 60
_EMPTY = {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}


class Request(NamedTuple):
    """What a client sends; the names of headers are in small letters."""

    method: str
    path: str
    """With the query, as it was sent."""
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What it gets."""

    status: int
    headers: dict[str, str]
    body: bytes


class Connection(StreamRequestHandler):
    """A client's connection: its requests, one after the other."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Until the client or `answer` ends it."""
        with suppress(ConnectionError):
            while request := self._request():
                if not self.answer(request):
                    return

    def answer(self, request: Request) -> bool:
        """Answers a request; whether the connection stays open."""
        raise NotImplementedError

    def send(self, answer: Answer) -> None:
        """An answer, whose headers have the length of its body; the body itself is left out where the request was
        HEAD."""
        status = HTTPStatus(answer.status)
        self.wfile.write(_message(f"HTTP/1.1 {status.value} {status.phrase}", answer.headers, answer.body))

    def _request(self) -> Request | None:
        line = self.rfile.readline().decode("latin-1").split()
        if not line:
            return None
        method, path, _ = line
        headers = _read_headers(self.rfile)
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return Request(method, path, headers, _read_body(self.rfile, headers))


class Server(ThreadingTCPServer):
    """A thread for each connection."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


class Upstream:
    """A connection to a server, for one thread; opened when it is needed."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._socket: socket.socket | None = None
        self._stream: BinaryIO | None = None

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """The server's answer. A connection that the server has closed while nobody asked is opened again.

        Raises:
            ConnectionError: The server closes the connection instead of an answer.
        """
        sent = {"host": "{}:{}".format(*self._address), **headers, "content-length": str(len(body))}
        message = _message(f"{method} {path} HTTP/1.1", sent, body)
        if self._stream is not None:
            with suppress(ConnectionError):
                return self._exchange(method, message)
            self.close()
        return self._exchange(method, message)

    def close(self) -> None:
        if self._socket is not None and self._stream is not None:
            self._stream.close()
            self._socket.close()
        self._socket = self._stream = None

    def _exchange(self, method: str, message: bytes) -> Answer:
        if self._socket is None or self._stream is None:
            self._socket = socket.create_connection(self._address, timeout=TIMEOUT_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = self._socket.makefile("rb")
        self._socket.sendall(message)
        status, headers = _read_status(self._stream)
        is_empty = method == "HEAD" or status in _EMPTY
        answer = Answer(status, headers, b"" if is_empty else _read_body(self._stream, headers))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return answer


def _message(start: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{start}\r\n{lines}\r\n".encode("latin-1") + body


def _read_status(stream: BinaryIO) -> tuple[int, dict[str, str]]:
    while True:
        line = stream.readline().decode("latin-1").split(maxsplit=2)
        if not line:
            raise ConnectionError("closed before an answer")
        status, headers = int(line[1]), _read_headers(stream)
        if status != HTTPStatus.CONTINUE:
            return status, headers


def _read_headers(stream: BinaryIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    while line := stream.readline().rstrip(b"\r\n").decode("latin-1"):
        name, _, value = line.partition(":")
        key, text = name.lower(), value.strip()
        headers[key] = f"{headers[key]},{text}" if key in headers else text
    return headers


def _read_body(stream: BinaryIO, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return stream.read(int(headers.get("content-length") or 0))
    parts = []
    while size := int(stream.readline().split(b";")[0], 16):
        parts.append(stream.read(size))
        stream.readline()
    while stream.readline().rstrip(b"\r\n"):
        pass
    return b"".join(parts)
