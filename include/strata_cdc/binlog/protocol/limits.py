"""How long a server is waited for, and how much of its answers is taken.
Not here: which server that is (`connection.py`), what is done about it (`client.py`, `replication.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Of all connections to one address."""

    connect_seconds: float = 10
    """Until the server has taken the connection, and for each of its answers until it has let the user in."""
    login_seconds: float = 60
    """For all of them together."""
    write_seconds: float = 60
    answer_bytes: int = 1 << 30
    """The protocol's largest packet; more than the schema of any server."""
    lock_seconds: float = 60
    """For an answer about a lock, besides the time that the server was asked to wait for it."""
    silence_seconds: float = 60
    """A stream that carries nothing for so long, not even heartbeats, is dead."""
    idle_seconds: float = 600
    """So long a server may pass over what has landed, with heartbeats only, on the way to the end of its binlog. It
    reads a gigabyte in some seconds."""
