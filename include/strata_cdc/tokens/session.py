"""What a session has just committed: from the server's report with each commit if the driver keeps it
(`session_track_gtids`), else everything that the server had executed after it.
Not here: what others have committed (`queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import pymysql
from msgspec import Struct
from pymysql.constants import CLIENT

from strata_cdc.position.token import Token
from strata_cdc.tokens.made import ANY_SOURCE, of_executed
from strata_cdc.tokens.queries import _run, _source_position

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.tokens.queries import Connection

_STATE_CHANGED: Final = 0x4000
"""SERVER_SESSION_STATE_CHANGED of an OK packet's status: the changes follow its text."""
_GTIDS: Final = 3
"""SESSION_TRACK_GTIDS."""
_TRACKED: WeakKeyDictionary[Any, _ReportedState] = WeakKeyDictionary()


class _ReportedState(Struct):
    """What the server has reported to a connection."""

    thread_id: int
    """Id of the session: a session that was connected again tracks nothing."""
    gtids: str | None = None


def own(
    connection: Connection,
    *,
    source: str = ANY_SOURCE,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> Token:
    """The token of what this session has just committed: a server that has it shows this session's writes.

    From a connection of PyMySQL that was made with `client_flag=CLIENT.SESSION_TRACK` and given to `remember` before
    the commit, it is the GTID of the last transaction. From any other connection, also mysqlclient's, it is everything
    that the server has executed by now: a superset, which is also correct, but who waits for it waits for others too.

    Args:
        connection: The connection that has committed.
        source: As for `include`.
        lineage: As for `include`.
        copied_from: As for `include`. These sources need not have the GTID of the session's own commit.
    """
    if isinstance(connection, pymysql.Connection):
        known = _TRACKED.get(connection)
        if known is not None and known.gtids is not None and known.thread_id == connection.thread_id():
            return of_executed(source, known.gtids, lineage=lineage, copied_from=copied_from)
    return Token((_source_position(connection, source, lineage, copied_from),))


def remember(connection: Connection) -> bool:
    """From now on keeps the server's reports of the session's commits. Call it again after the connection was made
    again.

    Returns:
        Whether this is possible: the driver is PyMySQL, and the connection was made with
        `client_flag=CLIENT.SESSION_TRACK`.
    """
    if not isinstance(connection, pymysql.Connection) or not connection.client_flag & CLIENT.SESSION_TRACK:
        return False
    _run(connection, "SET SESSION session_track_gtids = OWN_GTID")
    known = _TRACKED.get(connection)
    _TRACKED[connection] = _ReportedState(connection.thread_id())
    if known is None:
        _listen(connection)
    return True


def _listen(connection: Any) -> None:
    """Reads each OK packet: `commit()` reads its packet and drops it, a statement leaves it in the result."""
    read_ok, read_result = connection._read_ok_packet, connection._read_query_result  # noqa: SLF001 - PyMySQL has no other way

    def read_ok_packet() -> Any:
        packet = read_ok()
        _note(connection, packet.server_status, packet.message)
        return packet

    def read_query_result(unbuffered: bool = False) -> Any:  # noqa: FBT001, FBT002  PyMySQL's own
        affected = read_result(unbuffered)
        result = connection._result  # noqa: SLF001 - as above
        if result is not None and isinstance(result.message, bytes):
            _note(connection, result.server_status or 0, result.message)
        return affected

    connection._read_ok_packet = read_ok_packet  # noqa: SLF001 - as above
    connection._read_query_result = read_query_result  # noqa: SLF001 - as above


def _note(connection: Any, status: int, message: bytes) -> None:
    if not status & _STATE_CHANGED:
        return
    gtids = gtids_of(message)
    known = _TRACKED.get(connection)
    if gtids is not None and known is not None:
        known.gtids = gtids


def gtids_of(message: bytes) -> str | None:
    """The GTIDs among the changes of a session's state after an OK packet's status; None if there are none."""
    try:
        _, at = _lenenc(message, 0)
        changes, _ = _lenenc(message, at)
        for kind, data in _changes(changes):
            if kind == _GTIDS:
                # One byte is the encoding of the GTIDs; 0, text, is the only encoding.
                text, _ = _lenenc(data, 1)
                return text.decode()
    except (IndexError, UnicodeDecodeError):
        return None
    return None


def _changes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind = data[at]
        change, at = _lenenc(data, at + 1)
        yield kind, change


def _lenenc(data: bytes, at: int) -> tuple[bytes, int]:
    """A text after its length, and the offset at which it ends."""
    first, at = data[at], at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    length = int.from_bytes(data[at : at + width], "little") if width else first
    end = at + width + length
    if end > len(data):
        raise IndexError(end)
    return data[at + width : end], end
