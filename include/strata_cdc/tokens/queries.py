"""Tokens with queries, on primaries and replicas: what a server has executed, and waiting until it has.
Not here: what a session has committed itself (`session.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from strata_cdc.binlog.protocol.visible_state import (
    ISOLATION,
    KEEP_ISOLATION,
    VisibleState,
    as_text,
    read_visible_state,
)
from strata_cdc.errors import IncomparableTokensError, SourceSettingsError, Usage
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import NOTHING, parse_executed
from strata_cdc.position.file_position import FilePosition
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
    """A token; what is read next on this connection is at least as fresh as it. Get the token before the query.

    An isolation level that `SET TRANSACTION` chose for the next transaction is reset to the session's level: a snapshot
    of a lower level would not have what the token promises. Choose the level after the token.

    Args:
        connection: A connection of PyMySQL, mysqlclient or another driver, to the primary or a replica.
        source: Name of the source, as tokens of its stream have it: tokens of two names do not compare.
        lineage: As the settings have it.
        copied_from: Other sources whose GTIDs the server has by copy, and their lineages.

    Raises:
        Usage: A transaction is open, whose snapshot may be older than what the server has executed by now; or the
            session reads uncommitted rows.
    """
    _refuse_transaction(connection)
    state = _state(connection)
    if state.isolation == "READ-UNCOMMITTED":
        raise Usage(
            "the connection reads uncommitted rows, and no token covers these",
            remedy="SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, or a higher one.",
        )
    return Token((_source_position_of(state, connection, source, lineage, copied_from),))


def compare(connection: Connection, token: Token, *, source: str | None = None) -> Order:
    """Compares a token with what the server has executed.

    BEFORE, EQUAL: the server has everything that the token covers. AFTER: not yet. UNKNOWN: it is not known whether it
    will have it: the token is of another history, or of another server's files.

    Args:
        connection: As for `include`.
        token: A token of one source; if it has several, only the source that `source` names counts.
        source: Which of the token's sources the server is.

    Raises:
        Usage: The token names several sources, and none is chosen.
    """
    source_position = _chosen(token, source)
    here = _source_position(connection, source_position.source, source_position.lineage)
    return Token((source_position,)).compare(Token((here,)))


def wait(connection: Connection, token: Token, timeout: float, *, source: str | None = None) -> bool:
    """Waits until the server has executed everything that a token covers.

    Args:
        connection: As for `include`. MySQL waits in the server, so the connection cannot be used meanwhile.
        token: As for `compare`.
        timeout: Seconds; 0 checks once.
        source: As for `compare`.

    Returns:
        Whether the server has executed it.

    Raises:
        IncomparableTokensError: It is the token of another server's files.
        SourceSettingsError: The server has no GTIDs.
    """
    source_position = _chosen(token, source)
    executed = source_position.executed()
    if executed is None or timeout <= 0:
        return _compare_until(connection, source_position, timeout)
    if not executed:
        return True
    [mode, reached] = _one(
        connection,
        # 0 would be no limit. MASTER_GTID_WAIT of MariaDB knows only what a server has applied as a replica.
        "SELECT /*!50700 @@GLOBAL.gtid_mode,"
        " IF(@@GLOBAL.gtid_mode = 'OFF', 1, WAIT_FOR_EXECUTED_GTID_SET(%s, %s))*//*M! NULL, NULL*/",
        (str(executed), max(timeout, 0.001)),
    )
    if mode is None:
        return _compare_until(connection, source_position, timeout)
    if as_text(mode).upper() == "OFF":
        raise SourceSettingsError(
            "the server has gtid_mode OFF, and never executes the transactions of the token",
            source=source_position.source,
            remedy="Ask a server with GTIDs; `strata doctor` shows how to switch them on.",
        )
    return int(reached) == 0


def _compare_until(connection: Connection, source_position: SourcePosition, timeout: float) -> bool:
    until = time.monotonic() + timeout
    while True:
        order = compare(connection, Token((source_position,)))
        if order in (Order.BEFORE, Order.EQUAL):
            return True
        if order is Order.UNKNOWN and isinstance(source_position.position, FilePosition):
            raise IncomparableTokensError(
                f"the token is of the files of server {source_position.position.server_uuid}, and this is another "
                "server",
                source=source_position.source,
                remedy="Ask that server, or use GTIDs, which replicas share.",
            )
        if time.monotonic() >= until:
            return False
        time.sleep(min(_POLL_SECONDS, max(0.0, until - time.monotonic())))


def _chosen(token: Token, source: str | None) -> SourcePosition:
    positions = [source_position for source_position in token.positions if source in (None, source_position.source)]
    if not positions and source is None:
        return SourcePosition(ANY_SOURCE, NOTHING)
    if len(positions) != 1:
        names = ", ".join(source_position.source for source_position in token.positions) or "none"
        raise Usage(
            f"which of the token's sources is this server: it names {names}", remedy="Give `source`, one of these."
        )
    return positions[0]


class _SessionState(NamedTuple):
    """The state of the session and of its server."""

    isolation: str
    server: VisibleState


def _state(connection: Connection) -> _SessionState:
    def rows(statement: str) -> Sequence[Sequence[Any]]:
        return _rows(connection, statement)

    [[isolation]] = rows(f"SELECT {ISOLATION}")
    return _SessionState(as_text(isolation), read_visible_state(rows))


def _source_position(
    connection: Connection, source: str, lineage: str, copied_from: Mapping[str, str] | None = None
) -> SourcePosition:
    return _source_position_of(_state(connection), connection, source, lineage, copied_from)


def _source_position_of(
    state: _SessionState, connection: Connection, source: str, lineage: str, copied_from: Mapping[str, str] | None
) -> SourcePosition:
    server = state.server
    if server.gtid_mode in ("ON", "ON_PERMISSIVE"):
        position = parse_executed(server.executed) | parse_executed(server.replicated)
        return SourcePosition(source, position, lineage, origins=kept_origins(copied_from or {}, position))
    return SourcePosition(source, FilePosition(server.identity, _binlog_end(connection)), lineage)


def _binlog_end(connection: Connection) -> BinlogPosition:
    for statement in ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"):
        try:
            row = _one(connection, statement)
        except Exception as error:
            # MySQL 8.4 has only the first, 8.0 only the second; the class of the error is the driver's.
            if not error.args or error.args[0] not in _SYNTAX:
                raise
            continue
        if row:
            return BinlogPosition.from_offset(as_text(row[0]), int(row[1]))
        break
    raise SourceSettingsError(
        "the server writes no binlog (log_bin is OFF)", remedy="Run `strata doctor` for how to switch it on."
    )


def _refuse_transaction(connection: Connection) -> None:
    """Refuses a connection on which a query may read an earlier state.

    Only the server knows whether a transaction is open: drivers keep the status of the last OK packet, and a SELECT
    ends without an OK packet. In an open transaction, the session's level may not be the transaction's level: all open
    transactions are refused.
    """
    if is_in_transaction(connection):
        raise Usage(
            "a transaction is open on this connection, and its snapshot may be older than what the server has executed",
            remedy="Commit or roll back first; without `autocommit` a SELECT opens a transaction, too.",
        )


def is_in_transaction(connection: Connection) -> bool:
    """Whether a transaction is open, as the server itself reports it, without any privilege.

    In a transaction, setting the level of the next transaction is refused (sql/sys_vars.cc,
    check_transaction_isolation), also in XA; if none is open, the level becomes the session's level.
    """
    try:
        _run(connection, KEEP_ISOLATION)
    except Exception as error:
        if error.args and error.args[0] in (_IN_TRANSACTION, _IN_XA):
            return True
        raise
    return False


def _one(connection: Connection, statement: str, arguments: Sequence[object] = ()) -> Any:
    return next(iter(_rows(connection, statement, arguments)), None)


def _rows(connection: Connection, statement: str, arguments: Sequence[object] = ()) -> list[Sequence[Any]]:
    cursor = connection.cursor()
    try:
        cursor.execute(statement, arguments or None)
        rows = cursor.fetchall()
    finally:
        cursor.close()
    return [tuple(row.values()) if isinstance(row, dict) else row for row in rows]


def _run(connection: Connection, statement: str) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()
