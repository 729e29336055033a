"""A door in front of a MySQL server that hears each command before the server does, and may do something meanwhile.
Not here: what is done (the tests)."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_QUERY, _PREPARE, _EXECUTE = 0x03, 0x16, 0x17
_COMMAND_AT = 4
"""Byte of a packet behind its length and number."""


@contextmanager
def proxy(port: int, hear: Callable[[str], None]) -> Iterator[int]:
    """Listens on a port of its own, which it gives, and passes everything on to another one of this machine.

    Connections are to be without TLS and compression.

    Args:
        port: Of the server.
        hear: Is told of each statement before it is passed on: its text, or EXECUTE for a prepared one. The server
            hears of it once this returns.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=_accept, args=(listener, port, hear), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, port: int, hear: Callable[[str], None]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, port, hear), daemon=True).start()


def _serve(client: socket.socket, port: int, hear: Callable[[str], None]) -> None:
    with client, socket.create_connection(("127.0.0.1", port)) as server:
        back = threading.Thread(target=_pass, args=(server, client, None), daemon=True)
        back.start()
        _pass(client, server, hear)
        back.join()


def _pass(source: socket.socket, target: socket.socket, hear: Callable[[str], None] | None) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            # A client sends a command at once, and none before the last one is answered.
            if hear is not None and len(data) > _COMMAND_AT and data[3] == 0:
                _tell(data, hear)
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _tell(data: bytes, hear: Callable[[str], None]) -> None:
    if data[_COMMAND_AT] in (_QUERY, _PREPARE):
        hear(data[_COMMAND_AT + 1 :].decode("utf-8", "replace"))
    elif data[_COMMAND_AT] == _EXECUTE:
        hear("EXECUTE")
