"""A lock on the source's own server, for landings into a lake that several machines can reach.
Not here: the lock on a local folder (`files/lock.py`)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from strata_cdc.binlog.protocol.connection import connect, server_errors
from strata_cdc.errors import AlreadyRunningError, SourceUnavailableError

if TYPE_CHECKING:
    import pymysql

    from strata_cdc.binlog.protocol.connection import ServerAddress

_IDLE_SECONDS = 31_536_000


class SourceLock:
    """A lock with one name, on its own connection: the server closes a stream's connection when the stream ends, and
    what the stream brought is published only after that."""

    def __init__(
        self,
        address: ServerAddress,
        name: str,
        purpose: str = "lands the same source",
        *,
        wait_seconds: float = 0,
    ) -> None:
        """No lock is taken yet.

        Args:
            address: The server.
            name: Name of the lock.
            purpose: What its owner does, for the message that another process gets.
            wait_seconds: How long to wait for another owner, if that is longer than the address's limits say.
        """
        self._address, self._purpose = address, purpose
        self._wait_seconds = max(address.limits.owner_seconds, wait_seconds)
        # The server allows names of up to 64 characters.
        self._key = "strata-" + hashlib.sha256(name.encode()).hexdigest()[:40]
        self._connection: pymysql.Connection[Any] | None = None

    def acquire(self) -> None:
        """Takes the lock, or sees that it is still held.

        Raises:
            AlreadyRunningError: Another connection holds it.
            AccessDeniedError: Wrong user or password.
            SourceUnavailableError: The server does not answer.
        """
        if self._is_held():
            return
        self.release()
        self._connection = connect(self._address, read_seconds=self._address.limits.lock_seconds + self._wait_seconds)
        with server_errors(self._address), self._connection.cursor() as cursor:
            cursor.execute("SET SESSION wait_timeout = %s", (_IDLE_SECONDS,))
            cursor.execute("SELECT GET_LOCK(%s, %s), IS_USED_LOCK(%s)", (self._key, self._wait_seconds, self._key))
            granted, owner = cursor.fetchone()
        if granted != 1:
            self.release()
            raise AlreadyRunningError(
                f"connection {owner} of {self._address.host} {self._purpose}",
                remedy=f"Wait until it has ended; `KILL {owner}` on the server ends it.",
            )

    def release(self) -> None:
        """Releases the lock."""
        if self._connection is not None:
            self._connection._force_close()  # noqa: SLF001 - `close` raises where the connection is broken
            self._connection = None

    def _is_held(self) -> bool:
        if self._connection is None:
            return False
        try:
            with server_errors(self._address), self._connection.cursor() as cursor:
                cursor.execute("SELECT IS_USED_LOCK(%s) = CONNECTION_ID()", (self._key,))
                return bool(cursor.fetchone()[0])
        except SourceUnavailableError:
            return False
