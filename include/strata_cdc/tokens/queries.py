"""Tokens with queries, on primaries and replicas: what a server has executed, and waiting until it has.
Not here: what a session has committed itself (`session.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from strata_cdc.errors import IncomparableTokensError, SourceSettingsError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import SourcePosition, kept_origins
from strata_cdc.position.token import Order, Token
from strata_cdc.tokens.made import ANY_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IN_TRANSACTION: Final = 1568
"""ER_CANT_CHANGE_TX_CHARACTERISTICS."""
_IN_XA: Final = 1399
"""ER_XAER_RMFAIL."""
_POLL_SECONDS: Final = 0.05
_SYNTAX: Final = frozenset({1064, 1193})


class DriverCursor(Protocol):
    """What is used of a driver's cursor (PEP 249)."""

    def execute(self, query: str, args: Sequence[object] = ..., /) -> object:
        """Runs a statement."""

    def fetchone(self) -> Any:
        """The next row."""

    def close(self) -> None:
        """Ends it."""


class Connection(Protocol):
    """A connection of PyMySQL, mysqlclient, or another driver with `%s` for arguments."""

    def cursor(self) -> Any:
        """A new cursor."""


def include(
    connection: Connection,
    *,
    source: str = ANY_SOURCE,
    lineage: str = "",
    copied_from: Mapping[str, str] | None = None,
) -> Token:
    """The token that what is read next on this connection is at least as fresh as. Take it before the query.

    A level that `SET TRANSACTION` chose for the next transaction goes back to the session's: a snapshot of a lower one
    would not hold what the token promises. Choose it behind the token.

    Args:
        connection: Of PyMySQL, mysqlclient or another driver; to the primary or a replica.
        source: Name of the source, as tokens of its stream have it: tokens of two names do not compare.
        lineage: As the settings have it.
        copied_from: Other sources whose GTIDs the server has by copy, and their lineages.

    Raises:
        Usage: A transaction is open, whose snapshot may be older than what the server has executed by now; or the
            session reads what is not committed.
    """
    _refuse_transaction(connection)
    state = _state(connection)
    if state.isolation == "READ-UNCOMMITTED":
        raise Usage(
            "the connection reads what is not committed, and no token stands for that",
            remedy="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, or a higher one.",
        )
    return Token((_place_of(state, connection, source, lineage, copied_from),))


def compare(connection: Connection, token: Token, *, source: str | None = None) -> Order:
    """How a token lies to what the server has executed.

    BEFORE, EQUAL: the server has all that the token stands for. AFTER: it has not yet. UNKNOWN: nobody can say whether
    it will: the token is of another history, or of another server's files.

    Args:
        connection: As for `include`.
        token: Of one source; of several only the one that `source` names is looked at.
        source: Which of the token's sources the server is.

    Raises:
        Usage: The token names several sources, and none is chosen.
    """
    place = _chosen(token, source)
    here = _place(connection, place.source, place.lineage)
    return Token((place,)).compare(Token((here,)))


def wait(connection: Connection, token: Token, timeout: float, *, source: str | None = None) -> bool:
    """Waits until the server has executed all that a token stands for.

    Args:
        connection: As for `include`. It waits in the server, which can be asked nothing else meanwhile.
        token: As for `compare`.
        timeout: Seconds; 0 looks once.
        source: As for `compare`.

    Returns:
        Whether it has.

    Raises:
        IncomparableTokensError: It is the token of another server's files.
        SourceSettingsError: The server numbers no transactions.
    """
    place = _chosen(token, source)
    executed = place.executed()
    if executed is None or timeout <= 0:
        return _wait_for_file(connection, place, timeout)
    if not executed:
        return True
    [mode, reached] = _one(
        connection,
        # 0 would be no limit.
        "SELECT @@GLOBAL.gtid_mode, IF(@@GLOBAL.gtid_mode = 'OFF', 1, WAIT_FOR_EXECUTED_GTID_SET(%s, %s))",
        (str(executed), max(timeout, 0.001)),
    )
    if str(mode).upper() == "OFF":
        raise SourceSettingsError(
            "the server has gtid_mode OFF, and never executes what the token stands for",
            source=place.source,
            remedy="Ask a server with GTIDs; `strata doctor` shows how to switch them on.",
        )
    return int(reached) == 0


def _wait_for_file(connection: Connection, place: SourcePosition, timeout: float) -> bool:
    until = time.monotonic() + timeout
    while True:
        order = compare(connection, Token((place,)))
        if order in (Order.BEFORE, Order.EQUAL):
            return True
        if order is Order.UNKNOWN and isinstance(place.position, FilePosition):
            raise IncomparableTokensError(
                f"the token is of the files of server {place.position.server_uuid}, and this is another one",
                source=place.source,
                remedy="Ask that server, or use GTIDs, which replicas share.",
            )
        if time.monotonic() >= until:
            return False
        time.sleep(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))


def _chosen(token: Token, source: str | None) -> SourcePosition:
    found = [place for place in token.places if source in (None, place.source)]
    if not found and source is None:
        return SourcePosition(ANY_SOURCE, GtidSet())
    if len(found) != 1:
        names = ", ".join(place.source for place in token.places) or "none"
        raise Usage(
            f"which of the token's sources is this server: it names {names}", remedy="Give `source`, one of these."
        )
    return found[0]


class _State(NamedTuple):
    """What a server says of itself and of the session."""

    uuid: str
    mode: str
    executed: str
    isolation: str


def _state(connection: Connection) -> _State:
    found = _one(
        connection,
        "SELECT @@server_uuid, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed, @@SESSION.transaction_isolation",
    )
    return _State(*map(_text, found))


def _place(
    connection: Connection, source: str, lineage: str, copied_from: Mapping[str, str] | None = None
) -> SourcePosition:
    return _place_of(_state(connection), connection, source, lineage, copied_from)


def _place_of(
    state: _State, connection: Connection, source: str, lineage: str, copied_from: Mapping[str, str] | None
) -> SourcePosition:
    if state.mode.upper() in ("ON", "ON_PERMISSIVE"):
        position = GtidSet.parse(state.executed)
        return SourcePosition(source, position, lineage, origins=kept_origins(copied_from or {}, position))
    return SourcePosition(source, FilePosition(state.uuid, _binlog_end(connection)), lineage)


def _binlog_end(connection: Connection) -> BinlogPosition:
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            found = _one(connection, statement)
        except Exception as error:
            # MySQL 8.4 has only the first, 8.0 only the second; the class of the error is the driver's.
            if not error.args or error.args[0] not in _SYNTAX:
                raise
            continue
        if found:
            return BinlogPosition.of(_text(found[0]), int(found[1]))
        break
    raise SourceSettingsError(
        "the server writes no binlog (log_bin is OFF)", remedy="Run `strata doctor` for how to switch it on."
    )


def _refuse_transaction(connection: Connection) -> None:
    """Lets no query pass that may be read as of earlier than now.

    Only the server knows whether a transaction is open: drivers keep the status of the last OK packet, and a SELECT
    ends with none. In an open transaction the level of the session need not be the transaction's own: all are refused.
    """
    if is_in_transaction(connection):
        raise Usage(
            "a transaction is open on this connection, and its snapshot may be older than what the server has executed",
            remedy="Commit or roll back first; without `autocommit` a SELECT opens a transaction, too.",
        )


def is_in_transaction(connection: Connection) -> bool:
    """Whether a transaction is open, by the server's own word, and without any privilege.

    To set the level of the next transaction is refused in one (sql/sys_vars.cc, check_transaction_isolation), also in
    XA; where none is open it becomes the session's own.
    """
    try:
        _run(connection, "SET @@transaction_isolation = @@SESSION.transaction_isolation")
    except Exception as error:
        if error.args and error.args[0] in (_IN_TRANSACTION, _IN_XA):
            return True
        raise
    return False


def _one(connection: Connection, statement: str, arguments: Sequence[object] = ()) -> Any:
    cursor = connection.cursor()
    try:
        cursor.execute(statement, arguments or None)
        found = cursor.fetchone()
    finally:
        cursor.close()
    return tuple(found.values()) if isinstance(found, dict) else found


def _run(connection: Connection, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
