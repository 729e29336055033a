"""Finds the statements in a stream of events as it arrives, without keeping the stream.
Not here: where the events come from and who is told (`watch_ddl.py`), landing them (`jobs/land/land_binlog.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata.events.batch import add_gtids
from strata.events.gtid import parse_gtid
from strata.events.parse import event_body
from strata.events.places import arriving_chain
from strata.events.scanner import TransactionScanner
from strata.events.transactions import statements_at
from strata.gtid.sets import Gtid, GtidSet, GtidSetBuilder
from strata.kernels import status as codes
from strata.kernels.statements import STATEMENT, classify
from strata.wire.codes import HEADER_BYTES, EventType
from strata.wire.files import BinlogFile
from strata.wire.frames import index_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from strata.events.batch import TransactionBatch
    from strata.events.model import Query
    from strata.wire.format import FormatDescription
    from strata.wire.frames import EventIndex

_GTIDS: Final = (EventType.GTID, EventType.TAGGED_GTID)
_LENGTH = slice(9, 13)
"""Of an event's header: bytes of the whole event."""


class StatedTransaction(Struct, frozen=True):
    """A whole transaction with its statements, most of which are DDL."""

    gtid: Gtid
    committed_at: int
    """Microseconds UTC, as the transaction itself says."""
    queries: tuple[Query, ...]
    form: FormatDescription
    """Of the file that they are in."""
    executed: GtidSet
    """The stream up to and with it."""


class StatementWalk:
    """A walk over one server's stream. It keeps an event that has not arrived as a whole, and the statements of a
    transaction that is not over: memory is bounded by the largest event."""

    def __init__(self, executed: GtidSet) -> None:
        """Begins behind a GTID set."""
        self._executed = GtidSetBuilder(executed)
        self._pending: dict[Gtid, list[Query]] = {}
        self._form: FormatDescription | None = None
        self._scanner: TransactionScanner | None = None
        self._rest = bytearray()
        self._open: Gtid | None = None

    def executed(self) -> GtidSet:
        """The stream up to and with the last whole transaction."""
        return self._executed.build()

    def start_file(self, form: FormatDescription) -> None:
        """What comes next is laid out so; between two transactions only."""
        self._form = form
        self._scanner = TransactionScanner(form, chain=arriving_chain(form, None), binlog_file="")
        self._pending.clear()
        self._rest.clear()

    def take(self, data: memoryview) -> Iterator[StatedTransaction]:
        """Takes the next bytes; yields the transactions with statements that ended in them.

        Raises:
            CorruptEventError: What arrived is damaged.
        """
        self._rest += data
        if self._form is None or self._scanner is None or not self._has_event():
            return
        buffer = np.frombuffer(self._rest, np.uint8).copy()
        at = 0
        binlog = BinlogFile("", buffer, self._form, None)
        while at < len(buffer):
            index = index_events(buffer, at, len(buffer), self._form)
            is_cut = index.status == codes.TRUNCATED
            if is_cut:
                index = replace(index, status=codes.DONE)
            self._collect(binlog, index)
            for batch in self._scanner.scan(buffer, index):
                yield from self._stated(binlog, index, batch)
            at = index.next
            if is_cut:
                break
        del self._rest[:at]

    def _has_event(self) -> bool:
        """Whether the first event is there: a large one must not be looked at again with each piece."""
        rest = self._rest
        return len(rest) >= HEADER_BYTES and len(rest) >= int.from_bytes(rest[_LENGTH], "little")

    def _collect(self, binlog: BinlogFile, index: EventIndex) -> None:
        """Keeps the statements of plain transactions; the buffer may be gone when their transaction ends."""
        heads = np.flatnonzero(np.isin(index.types, _GTIDS))
        post_header = binlog.format.header_length(EventType.QUERY)
        for at in np.flatnonzero(index.types == EventType.QUERY).tolist():
            begin, length = int(index.positions[at]), int(index.lengths[at])
            end = begin + length - binlog.format.checksum_bytes
            if classify(binlog.buffer, begin + HEADER_BYTES, end, post_header) != STATEMENT:
                continue
            nearest = int(np.searchsorted(heads, at)) - 1
            gtid = self._gtid(binlog, index, int(heads[nearest])) if nearest >= 0 else self._open
            if gtid is not None:
                found = [statement.query for statement in statements_at(binlog, begin, length)]
                self._pending.setdefault(gtid, []).extend(found)
        if len(heads):
            self._open = self._gtid(binlog, index, int(heads[-1]))

    @staticmethod
    def _gtid(binlog: BinlogFile, index: EventIndex, at: int) -> Gtid | None:
        body = event_body(binlog.buffer, int(index.positions[at]), int(index.lengths[at]), binlog.format)
        return parse_gtid(body, int(index.types[at])).gtid

    def _stated(self, binlog: BinlogFile, index: EventIndex, batch: TransactionBatch) -> Iterator[StatedTransaction]:
        counts = np.diff(batch.statements_end, prepend=0)
        begin = 0
        for row in np.flatnonzero(counts).tolist():
            add_gtids(self._executed, batch.sids, batch.slots[begin : row + 1], batch.numbers[begin : row + 1])
            begin = row + 1
            if batch.slots[row] < 0:
                continue
            gtid = Gtid(batch.sids[batch.slots[row]], int(batch.numbers[row]))
            queries = self._pending.pop(gtid, None)
            if queries is None:
                ends = int(batch.statements_end[row])
                queries = _compressed(binlog, index, batch.statements[ends - int(counts[row]) : ends])
            yield StatedTransaction(
                gtid, int(batch.commit_timestamps[row]), tuple(queries), binlog.format, self.executed()
            )
        add_gtids(self._executed, batch.sids, batch.slots[begin:], batch.numbers[begin:])


def _compressed(binlog: BinlogFile, index: EventIndex, offsets: npt.NDArray[np.int64]) -> list[Query]:
    """The statements of a compressed transaction: one event, which ends it, so that it is in this buffer."""
    found = []
    for offset in np.unique(offsets).tolist():
        at = int(np.searchsorted(index.positions, offset))
        found += [statement.query for statement in statements_at(binlog, offset, int(index.lengths[at]))]
    return found
