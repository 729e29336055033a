"""The position of a server at this moment, queried before anything large is loaded.
Not here: its other state (`replication.py`)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.protocol.replication import BinlogStream
from strata_cdc.errors import StrataError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed

_AT_ONCE = 8


class ServerNow(Struct, frozen=True):
    """The position of a server when it was queried."""

    executed: Executed
    """What it had executed."""
    end: BinlogPosition | None
    """Its position in its files; None if each transaction has a GTID, because it is not needed then."""

    @property
    def position(self) -> Executed | BinlogPosition:
        """The position after everything that it had executed."""
        return self.executed if self.end is None else self.end


def server_now(address: ServerAddress) -> ServerNow:
    """Queries one server.

    Raises:
        StrataError: It does not answer, or writes no binlog.
    """
    with closing(BinlogStream.open(address)) as stream:
        state = stream.state()
        return ServerNow(state.executed, None if state.numbers_all else stream.files().end)


def servers_now(addresses: Mapping[str, ServerAddress]) -> dict[str, ServerNow]:
    """Queries some servers at once, by the names of their sources; those that do not answer are not in the result."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = dict(zip(addresses, pool.map(_answer, addresses.values()), strict=True))
    return {name: answer for name, answer in answers.items() if answer is not None}


def _answer(address: ServerAddress) -> ServerNow | None:
    try:
        return server_now(address)
    except StrataError:
        return None
