"""TCP ports of this machine's loopback address, for what is about to listen on one.
Not here: remembering them (`state.py`)."""

from __future__ import annotations

import secrets
import socket
from typing import Final

_OWN: Final = range(20_000, 32_000)
"""Below those that Linux gives to connections (net.ipv4.ip_local_port_range): none of them takes one of these between
this look and the server's start, nor while a server is being started again."""
_TRIES: Final = 50


def free_port(preferred: int = 0) -> int:
    """The preferred port when nobody listens on it, else any other."""
    chance = secrets.SystemRandom()
    for port in [*([preferred] if preferred else []), *chance.sample(_OWN, _TRIES), 0]:
        with socket.socket() as probe:
            # A port whose last connections are still being forgotten counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port of 127.0.0.1 is free")
