"""The positions of the transactions of a batch of the binlog: GTID sets, or places in the server's files.
Not here: what a position is (`position/port.py`), tokens (`events.py`)."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.binlog.events.batch import add_gtids
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.domains import DomainSet
from strata_cdc.position.executed import ExecutedBuilder
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import DomainWriter, Gtid

if TYPE_CHECKING:
    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.position.port import Executed


class ExecutedAlong:
    """What is executed before each transaction of a batch: most readers request few of these sets, and in order."""

    def __init__(self, base: Executed, batch: TransactionBatch, first: int) -> None:
        """Begins with what is executed before a row of the batch. Nothing is of the batch's family, too: else tokens
        before and after the first transaction of a MariaDB server would be of two families, and not compare."""
        if not base and any(isinstance(sid, DomainWriter) for sid in batch.sids):
            base = DomainSet()
        self._base, self._batch, self._first = base, batch, first
        self._built, self._builder = first, ExecutedBuilder(base)
        self._sets: dict[int, Executed] = {}
        # Readers that share one decoder call from several threads.
        self._lock = Lock()

    def before(self, row: int) -> Executed:
        """Returns what is executed before a row; the row after the last one is allowed, too."""
        executed = self._sets.get(row)
        if executed is not None:
            return executed
        with self._lock:
            if row < self._built:
                self._built, self._builder = self._first, ExecutedBuilder(self._base)
            self._grow(row)
            executed = self._sets[row] = self._builder.build() or self._base
        return executed

    def after(self, row: int) -> Executed:
        """Returns what is executed after a row."""
        return self.before(row + 1)

    def transaction(self, row: int) -> Gtid:
        """Returns the GTID of a row."""
        sid = int(self._batch.sid_numbers[row])
        if sid < 0:
            raise RuntimeError("a stream by GTID set has a transaction without one")
        return Gtid(self._batch.sids[sid], int(self._batch.numbers[row]))

    def _grow(self, row: int) -> None:
        batch, begin = self._batch, self._built
        if row == begin + 1:
            if batch.sid_numbers[begin] >= 0:
                self._builder.add(self.transaction(begin))
        else:
            add_gtids(self._builder, batch.sids, batch.sid_numbers[begin:row], batch.numbers[begin:row])
        self._built = row


class FilesAlong(Struct, frozen=True):
    """Where each transaction of a batch is in the files of a server."""

    server_uuid: str
    batch: TransactionBatch

    def before(self, row: int) -> FilePosition:
        """Returns where a row begins."""
        return FilePosition(self.server_uuid, self.transaction(row))

    def after(self, row: int) -> FilePosition:
        """Returns where a row ends."""
        at = BinlogPosition.from_offset(self.batch.binlog_file, self.batch.server_end(row))
        return FilePosition(self.server_uuid, at)

    def transaction(self, row: int) -> BinlogPosition:
        """Returns where a row begins, which identifies it."""
        return BinlogPosition.from_offset(self.batch.binlog_file, int(self.batch.positions[row]))
