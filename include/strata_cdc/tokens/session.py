"""What a session has just committed: from the server's own word with each commit where the driver keeps it
(`session_track_gtids`), else all that the server had executed behind it.
Not here: what others have committed (`queries.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import pymysql
from msgspec import Struct
from pymysql.constants import CLIENT

from strata_cdc.position.token import Token
from strata_cdc.tokens.made import ANY_SOURCE, of_executed
from strata_cdc.tokens.queries import _place, _run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from strata_cdc.tokens.queries import Connection

_STATE_CHANGED: Final = 0x4000
"""SERVER_SESSION_STATE_CHANGED of an OK packet's status: behind its text is what changed."""
_GTIDS: Final = 3
"""SESSION_TRACK_GTIDS."""
_TRACKED: WeakKeyDictionary[Any, _Tracked] = WeakKeyDictionary()


class _Tracked(Struct):
    """What the server has told a connection."""

    thread_id: int
    """Of the session: one that was connected again tracks nothing."""
    gtids: str | None = None


def own(
    connection: Connection,
    *,
    source: str = ANY_SOURCE,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> Token:
    """The token of what this session has just committed: whoever has it reads this session's writes.

    From a connection of PyMySQL that was made with `client_flag=CLIENT.SESSION_TRACK` and given to `remember` before
    the commit it is the GTID of the last transaction. From any other, mysqlclient's among them, it is all that the
    server has executed by now: a superset, which is as right, and makes who waits for it wait for others, too.

    Args:
        connection: The one that has committed.
        source: As for `include`.
        lineage: As for `include`.
        copied_from: As for `include`. Of the GTID of one's own commit these sources may have nothing; they need not.
    """
    if isinstance(connection, pymysql.Connection):
        known = _TRACKED.get(connection)
        if known is not None and known.gtids is not None and known.thread_id == connection.thread_id():
            return of_executed(source, known.gtids, lineage=lineage, copied_from=copied_from)
    return Token((_place(connection, source, lineage, copied_from),))


def remember(connection: Connection) -> bool:
    """From here on keeps what the server says of the session's commits. Call it again when it was connected anew.

    Returns:
        Whether it can: the driver is PyMySQL, and the connection was made with `client_flag=CLIENT.SESSION_TRACK`.
    """
    if not isinstance(connection, pymysql.Connection) or not connection.client_flag & CLIENT.SESSION_TRACK:
        return False
    _run(connection, "SET SESSION session_track_gtids = OWN_GTID")
    known = _TRACKED.get(connection)
    _TRACKED[connection] = _Tracked(connection.thread_id())
    if known is None:
        _listen(connection)
    return True


def _listen(connection: Any) -> None:
    """Looks at each OK packet: `commit()` reads one and throws it away, a statement leaves it in the result."""
    read_ok, read_result = connection._read_ok_packet, connection._read_query_result  # noqa: SLF001 - PyMySQL has no other way

    def read_ok_packet() -> Any:
        packet = read_ok()
        _note(connection, packet.server_status, packet.message)
        return packet

    def read_query_result(unbuffered: bool = False) -> Any:  # noqa: FBT001, FBT002  PyMySQL's own
        affected = read_result(unbuffered)
        found = connection._result  # noqa: SLF001 - as above
        if found is not None and isinstance(found.message, bytes):
            _note(connection, found.server_status or 0, found.message)
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
    """The GTIDs among the changes of a session's state behind an OK packet's status; None if there are none."""
    try:
        _, at = _lenenc(message, 0)
        changes, _ = _lenenc(message, at)
        for kind, data in _changes(changes):
            if kind == _GTIDS:
                # One byte says how they are written; 0, text, is the only way there is.
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
    """A text with its length in front of it, and where it ends."""
    first, at = data[at], at + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    length = int.from_bytes(data[at : at + width], "little") if width else first
    end = at + width + length
    if end > len(data):
        raise IndexError(end)
    return data[at + width : end], end
