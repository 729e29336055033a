"""What a server has executed now, so that a SELECT that begins afterwards sees all of it; of both families.
Not here: its position (`server_now.py`), what its binlog has (`replication.py`), what a session has committed itself
(`tokens/session.py`).

MySQL adds a transaction to `gtid_executed` after its commit in the storage engine (sql/binlog.cc,
`MYSQL_BIN_LOG::process_commit_stage_queue`). MariaDB adds it to `gtid_binlog_pos` when it is written to the binlog,
which is before (sql/log.cc, `MYSQL_BIN_LOG::trx_group_commit_leader`). But it moves `binlog_snapshot_file` and
`binlog_snapshot_position` under the lock that it holds while the engine commits. So whatever is before that position is
visible.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from strata_cdc.binlog.protocol.engine_file import ENGINE_SUFFIX, STORAGE_ENGINE, refuse_positions
from strata_cdc.errors import SourceUnavailableError
from strata_cdc.position.binlog_position import BinlogPosition

Rows = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement on a connection without an open transaction, and gives its rows."""

# Each family skips the comment of the other: MySQL knows no `/*M!`, and MariaDB does not run what is for MySQL 5.7 to
# 9.99 (manual, "Comment Syntax").
IDENTITY: Final = "/*!50700 @@GLOBAL.server_uuid*//*M! @@GLOBAL.server_uid*/"
"""What tells a server from others."""
ISOLATION: Final = "/*!50720 @@SESSION.transaction_isolation*//*M! @@SESSION.tx_isolation*/"
"""The isolation level of the session."""
KEEP_ISOLATION: Final = (
    "SET /*!50720 @@transaction_isolation = @@SESSION.transaction_isolation*/"
    "/*M! @@tx_isolation = @@SESSION.tx_isolation*/"
)
"""Gives the next transaction the level of the session, which the server refuses in a transaction."""
_STATE: Final = (
    f"SELECT {IDENTITY}, /*!50700 @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed, ''*/"
    "/*M! 'ON', @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_slave_pos*/, @@GLOBAL.log_bin, VERSION()"
)
_POLL_SECONDS: Final = 0.001
_COMMIT_SECONDS: Final = 10.0


class VisibleState(NamedTuple):
    """A server's answers about what it has executed."""

    identity: str
    """Its `server_uuid`, or on MariaDB its `server_uid`, which changes with its port and its machine."""
    gtid_mode: str
    """ON on MariaDB, which numbers each transaction."""
    executed: str
    """Of what its binlog has, as the server prints it."""
    replicated: str
    """MariaDB: what it has applied as a replica, also where its own binlog does not have that; else empty."""
    is_logging: bool
    """Whether it writes a binlog."""
    is_mariadb: bool = False

    @property
    def numbers_all(self) -> bool:
        """Whether it gives a GTID to each transaction that it executes."""
        return self.gtid_mode == "ON"


def read_visible_state(rows: Rows, *, commit_seconds: float = _COMMIT_SECONDS) -> VisibleState:
    """What a server has executed; a SELECT that begins after the call sees all of it.

    Args:
        rows: Runs a statement. On MariaDB the user needs the grant BINLOG MONITOR.
        commit_seconds: How long the commit of a transaction may take that the binlog of a MariaDB server has already.

    Raises:
        SourceUnavailableError: A MariaDB server wrote a transaction to its binlog, and does not finish its commit.
        SourceSettingsError: A MariaDB server keeps its binlog in its storage engine.
    """
    now = _written(rows)
    if now.is_mariadb and now.is_logging:
        until = time.monotonic() + commit_seconds
        _await_commits(rows, until)
        _await_prepared(rows, until)
    return now


def read_schema_state(rows: Rows) -> VisibleState:
    """What a server has executed; a reading of its schema that begins after the call sees all DDL of it.

    Of a MariaDB server that keeps its binlog in its storage engine, too: DDL is logged when it is done. Prepared XA
    transactions have no DDL, so nothing waits for them.

    Args:
        rows: As of `read_visible_state`.

    Raises:
        SourceUnavailableError: A MariaDB server wrote a transaction to its binlog, and does not finish its commit.
    """
    now = _written(rows)
    if now.is_mariadb and any(as_text(engine) for _, engine in rows(f"SHOW GLOBAL VARIABLES LIKE '{STORAGE_ENGINE}'")):
        return now
    if now.is_mariadb and now.is_logging:
        _await_commits(rows, time.monotonic() + _COMMIT_SECONDS)
    return now


def _written(rows: Rows) -> VisibleState:
    [row] = rows(_STATE)
    identity, mode, executed, replicated, is_logging, version = map(as_text, row)
    is_mariadb = "mariadb" in version.lower()
    return VisibleState(identity, mode.upper(), executed.replace("\n", ""), replicated, is_logging == "1", is_mariadb)


def _await_commits(rows: Rows, until: float) -> None:
    """Waits until all that the binlog of a MariaDB server has by now is committed in the storage engine, except what an
    XA COMMIT commits. `until` is a time of `time.monotonic`."""
    written = binlog_end(rows)
    while _committed(rows) < written:
        _wait(until, f"the server has written transactions up to {written} to its binlog, and does not finish them")


def _await_prepared(rows: Rows, until: float) -> None:
    """Waits until no transaction is prepared any more that is prepared now.

    XA COMMIT is written to the binlog before the engine commits, without that lock (sql/xa.cc, `trans_xa_commit`).
    Until it has, XA RECOVER still lists the transaction.
    """
    prepared = _prepared(rows)
    while prepared and (prepared := prepared & _prepared(rows)):
        _wait(until, f"{len(prepared)} prepared XA transactions may be committed in the binlog alone")


def _wait(until: float, what: str) -> None:
    if time.monotonic() > until:
        raise SourceUnavailableError(
            what,
            remedy="Look at `SHOW PROCESSLIST` and `XA RECOVER` on the server; or a transaction is open on this "
            "connection.",
        )
    time.sleep(_POLL_SECONDS)


def _prepared(rows: Rows) -> frozenset[tuple[object, ...]]:
    return frozenset(map(tuple, rows("XA RECOVER")))


def binlog_end(rows: Rows) -> BinlogPosition:
    """Where the binlog of a MariaDB server ends.

    Raises:
        SourceSettingsError: The server keeps its binlog in its storage engine, which has no positions.
    """
    [[file, offset, *_]] = rows("SHOW MASTER STATUS")
    if as_text(file).endswith(ENGINE_SUFFIX):
        raise refuse_positions("which of its transactions a SELECT sees is not known")
    return BinlogPosition.from_offset(as_text(file), int(offset))


def _committed(rows: Rows) -> BinlogPosition:
    """The position before which all is committed; in a transaction that began with a snapshot, that snapshot's."""
    named = {as_text(name).lower(): as_text(value) for name, value in rows("SHOW STATUS LIKE 'binlog_snapshot_%'")}
    return BinlogPosition.from_offset(named["binlog_snapshot_file"], int(named["binlog_snapshot_position"]))


def as_text(value: object) -> str:
    """A value of a driver that gives texts, or their bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)
