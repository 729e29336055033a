"""TCP ports of this machine's loopback address, for what is about to listen on one.
Not here: remembering them (`state.py`)."""

from __future__ import annotations

import socket


def free_port(preferred: int = 0) -> int:
    """The preferred port when nobody listens on it, else any other."""
    with socket.socket() as probe:
        # A port whose last connections are still being forgotten counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
