"""Looks from time to time whether a server still has what it sent over a connection that is waiting for more.
Not here: whether it has what was read before (`resume_landing.py`).

RESET BINARY LOGS AND GTIDS ends no connection. The server (9.7, MariaDB 11.8) goes on with heartbeats, and sends
nothing of its new binlog; only when that is longer than the former one, it ends the stream with an error.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.protocol.replication import BinlogStream
from strata_cdc.errors import SourceDivergedError, StrataError

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.replication import ServerState
    from strata_cdc.position.binlog_position import BinlogPosition

_REMEDY: Final = (
    "Its binlog was reset. Point the connection at a server that has them, or land this server under another source "
    "name, and begin there."
)


class HistoryWatch:
    """What a server is known to have had, and when it was queried last."""

    def __init__(self, address: ServerAddress, server: ServerState, seconds: float | None = None) -> None:
        """Begins with the server's state when a connection was made.

        Args:
            seconds: Between two queries; None: `history_seconds` of the address.
        """
        self._address, self._uuid = address, server.uuid
        self._had = server.executed
        """What it has reported as executed: a transaction may be sent before that."""
        self._seconds = address.limits.history_seconds if seconds is None else seconds
        self._looked = time.monotonic()

    def look(self, at: BinlogPosition | None) -> ServerState | None:
        """To be called while nothing comes; queries the server if the last query was some time ago.

        Args:
            at: Up to where its files have been read over this connection; None if nothing shows that.

        Returns:
            The server's state; None if it was not queried, or did not answer, or another server did.

        Raises:
            SourceDivergedError: It no longer has what it had.
        """
        if time.monotonic() - self._looked < self._seconds:
            return None
        self._looked = time.monotonic()
        try:
            with closing(BinlogStream.open(self._address)) as stream:
                server = stream.state()
                end = None if at is None or server.binlog_engine else stream.files().end
        except StrataError:
            # The connection that waits will report it.
            return None
        if server.uuid != self._uuid:
            # Another server has the address by now, and this one may still send.
            return None
        if end is not None and at is not None and end < at:
            raise SourceDivergedError(
                f"the server's binlog ends at {end}, and it was read up to {at}",
                file=at.file,
                offset=at.offset,
                remedy=_REMEDY,
            )
        lost = self._had - server.executed
        if lost:
            raise SourceDivergedError(
                f"the server lacks transactions that it had; it has {server.executed or 'none'}",
                gtid=str(lost),
                remedy=_REMEDY,
            )
        self._had = server.executed
        return server
