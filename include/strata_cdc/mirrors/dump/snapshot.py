"""A consistent read on the server, and between which two states of its stream it lies.

InnoDB shows a commit before `gtid_executed` has it, but only after it was written to the binlog (sql/binlog.cc,
`MYSQL_BIN_LOG::ordered_commit`: flush, sync, then engines, then `update_commit_group`). So the set that was executed
before the read began is all in it, and nothing behind the place is that the server writes at once it has begun.

DDL is not part of what a transaction sees. After one that changes a table InnoDB refuses the older read (error 1412),
but RENAME gives a name to other rows and changes no table. So the table is opened in the transaction before that place
is asked for: from then on its metadata lock keeps DDL out, and DDL that came earlier is in the binlog in front of the
place, since it wrote itself there before it gave its own lock back.
Not here: what is read (`read.py`), where these states are in the landed stream (`mirrors/dump/`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymysql

from strata_cdc.changes.select.statement import quoted_table
from strata_cdc.errors import SourceSettingsError, Usage
from strata_cdc.mirrors.dump.manifest import ReadBounds
from strata_cdc.position.binlog_position import BinlogPosition

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.client import Client
    from strata_cdc.schema.model.definition import TableName

_SYNTAX_ERROR = 1064
_CONSISTENT = frozenset({"innodb", "rocksdb", "tokudb"})
"""Engines whose tables a transaction sees as they were when it began; another one shows what is there by now."""


def refuse_inconsistent(connection: Client, table: TableName) -> None:
    """Refuses a table that no transaction shows as of one moment; one that is not there is left to who reads it.

    Raises:
        Usage: Its engine has no consistent reads.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (table.database, table.table),
        )
        found = cursor.fetchone()
    engine = _text(found[0]) if found and found[0] is not None else None
    if engine is not None and engine.lower() not in _CONSISTENT:
        raise Usage(
            f"its engine is {engine}, of which no transaction shows the rows as of one moment",
            table=str(table),
            remedy=f"ALTER TABLE {table} ENGINE = InnoDB on the server, or leave it out of the mirrors.",
        )


class SnapshotReader:
    """Begins consistent reads on one connection. Takes no lock and writes nothing.

    Args:
        connection: In autocommit mode, its session prepared (`rows.select.statement.prepare_session`).

    Raises:
        SourceSettingsError: The server does not number its transactions, or writes no binlog.
        pymysql.err.MySQLError: The server refuses, or goes away.
    """

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._status = "SHOW BINARY LOG STATUS"
        self._executed()

    def begin(self, table: TableName) -> ReadBounds:
        """Begins a read of a table, which no DDL changes until `end` ends it.

        Raises:
            Usage: The table's engine has no consistent reads.
            SourceSettingsError: The server does not number its transactions any more.
        """
        before = self._written()
        executed = self._executed()
        self._rows("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        self._rows(f"SELECT 1 FROM {quoted_table(table)} LIMIT 0")  # noqa: S608 - quoted
        # The dictionary is seen as it was when the transaction began; what came since is in front of the place.
        refuse_inconsistent(self._connection, table)
        written = self._written()
        if written.file_number > before.file_number + 1:
            # A file for each change of gtid_mode: in one that was begun since, transactions may have no GTID.
            self.end()
            return self.begin(table)
        return ReadBounds(executed, str(written))

    def _executed(self) -> str:
        """In gtid_mode ON no transaction without a GTID is left that is not committed (sql/sys_vars.cc,
        `Sys_var_gtid_mode`), so that a read which begins now has those, too."""
        [[executed, mode, is_logging]] = self._rows(
            "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_mode, @@GLOBAL.log_bin"
        )
        if _text(mode).upper() != "ON" or not is_logging:
            raise SourceSettingsError(
                f"gtid_mode is {_text(mode)}, log_bin is {is_logging}: nobody can tell which transactions a read has",
                remedy="Set gtid_mode=ON and enforce_gtid_consistency=ON on the server, then dump again.",
            )
        return _text(executed).replace("\n", "")

    def end(self) -> None:
        """Ends the read, and lets DDL of what was read go on."""
        self._rows("COMMIT")

    def _written(self) -> BinlogPosition:
        """Where the server writes: behind whole groups of commits, since it asks under LOCK_log."""
        try:
            found = self._rows(self._status)
        except pymysql.err.ProgrammingError as error:
            if error.args[0] != _SYNTAX_ERROR or self._status == "SHOW MASTER STATUS":
                raise
            # Servers before 8.2.
            self._status = "SHOW MASTER STATUS"
            return self._written()
        if not found:
            raise SourceSettingsError("the server writes no binlog", remedy="Set log_bin on it.")
        return BinlogPosition.of(_text(found[0][0]), int(found[0][1]))

    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())


def _text(value: object) -> str:
    # The session has its results in the charsets of their columns.
    return value.decode() if isinstance(value, bytes) else str(value)
