"""How long to wait for a server, and how large its answers may be.
Not here: which server that is (`connection.py`), what happens at a limit (`client.py`, `replication.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """The limits of all connections to one address."""

    connect_seconds: float = 10
    """Until the server has taken the connection, and for each of its answers until it has let the user in."""
    login_seconds: float = 60
    """For all these answers together."""
    write_seconds: float = 60
    answer_bytes: int = 1 << 30
    """The protocol's largest packet; more than the schema of any server."""
    lock_seconds: float = 60
    """For an answer about a lock, besides the time that the server itself waits for it."""
    owner_seconds: float = 5
    """So long at least the server waits for another owner of a lock: it takes a moment to notice that a killed client
    has ended."""
    silence_seconds: float = 60
    """A stream that brings nothing for this time, not even heartbeats, is dead."""
    idle_seconds: float = 600
    """How long a server may skip what has landed, sending only heartbeats, on the way to the end of its binlog. It
    reads a gigabyte in some seconds."""
    history_seconds: float = 30
    """While a stream brings nothing new, so often the server is asked whether it still has what it had."""
