"""A consistent read on the server, and the two states of its stream between which it is.

InnoDB shows a commit before `gtid_executed` has it (MariaDB: `binlog/protocol/visible_state.py`), but only after it was
written to the binlog (sql/binlog.cc, `MYSQL_BIN_LOG::ordered_commit`: flush, sync, then engines, then
`update_commit_group`). So the read has all of the set that was executed before it began, and nothing after the server's
binlog position just after it began.

DDL is not part of what a transaction sees. After DDL that changes a table, InnoDB refuses the older read (error 1412).
But RENAME gives a name to other rows, and changes no table. So the table is opened in the transaction before the binlog
position is requested: from then on, the metadata lock of the transaction blocks DDL. Earlier DDL is in the binlog
before the position, because DDL is written to the binlog before it releases its own lock.
Not here: what is read (`read.py`), where these states are in the landed stream (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql

from strata_cdc.binlog.protocol.connection import fetch_rows
from strata_cdc.binlog.protocol.visible_state import as_text, read_visible_state
from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.errors import SourceSettingsError, Usage
from strata_cdc.mirrors.dump.manifest import ReadBounds
from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.client import Client
    from strata_cdc.schema.model.definition import TableName

_SYNTAX_ERROR = 1064
_CONSISTENT = frozenset({"innodb", "rocksdb", "tokudb"})
"""Engines whose tables a transaction sees as they were when it began; other engines show the current rows."""


def refuse_inconsistent(connection: Client, table: TableName) -> None:
    """Refuses a table that no transaction shows as of one moment; if there is no such table, the read will fail later.

    Raises:
        Usage: Its engine has no consistent reads.
    """
    query = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    rows = fetch_rows(connection, query, (table.database, table.table))
    engine = as_text(rows[0][0]) if rows and rows[0][0] is not None else None
    if engine is not None and engine.lower() not in _CONSISTENT:
        raise Usage(
            f"its engine is {engine}, of which no transaction shows the rows as of one moment",
            table=str(table),
            remedy=f"ALTER TABLE {quoted_table(table)} ENGINE = InnoDB on the server, or leave it out of the mirrors.",
        )


class SnapshotReader:
    """Begins consistent reads on one connection. Takes no lock and writes nothing.

    Args:
        connection: In autocommit mode, its session prepared (`prepare_session`).

    Raises:
        SourceSettingsError: The server does not give GTIDs to its transactions, or writes no binlog.
        pymysql.err.MySQLError: The server refuses, or disconnects.
    """

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._status = "SHOW BINARY LOG STATUS"
        self._executed()

    def begin(self, table: TableName) -> ReadBounds:
        """Begins a read of a table, which no DDL can change until `end` ends the read.

        Raises:
            Usage: The table's engine has no consistent reads.
            SourceSettingsError: The server no longer gives GTIDs to its transactions.
        """
        before = self._written()
        executed = self._executed()
        self._rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        self._rows(f"SELECT 1 FROM {quoted_table(table)} LIMIT 0")  # noqa: S608 - quoted
        # The dictionary is seen as it was when the transaction began; later DDL is before the position that is read
        # next.
        refuse_inconsistent(self._connection, table)
        written = self._written()
        if written.file_number > before.file_number + 1:
            # Each change of gtid_mode begins a file: in a file that was begun since, transactions may have no GTID.
            self.end()
            return self.begin(table)
        return ReadBounds(executed, str(written))

    def _executed(self) -> str:
        """What is executed. In gtid_mode ON, all transactions without a GTID are committed (sql/sys_vars.cc,
        `Sys_var_gtid_mode`), so a read that begins now has those, too."""
        now = read_visible_state(self._rows)
        if not now.numbers_all or not now.is_logging:
            raise SourceSettingsError(
                f"gtid_mode is {now.gtid_mode}, log_bin is {int(now.is_logging)}: nobody can tell which transactions a "
                "read has",
                remedy="Set gtid_mode=ON and enforce_gtid_consistency=ON on the server, then dump again.",
            )
        return now.executed

    def end(self) -> None:
        """Ends the read; DDL on the table is possible again."""
        self._rows("COMMIT")

    def _written(self) -> BinlogPosition:
        """The server's binlog position: after complete groups of commits, since the server reads it under LOCK_log."""
        try:
            rows = self._rows(self._status)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != _SYNTAX_ERROR or self._status == "SHOW MASTER STATUS":
                raise
            # Servers before 8.2.
            self._status = "SHOW MASTER STATUS"
            return self._written()
        if not rows:
            raise SourceSettingsError("the server writes no binlog", remedy="Set log_bin on it.")
        return BinlogPosition.from_offset(as_text(rows[0][0]), int(rows[0][1]))

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        return fetch_rows(self._connection, statement)
