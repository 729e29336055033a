"""The order in which bytes of plain files are decoded: file order, except that prepared transactions come with their XA
COMMIT.
Not here: decoding them (`decode_files.py`), landed segments (`landing/prepared.py`)."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.bytes.codes import EventType
from strata_cdc.binlog.bytes.frames import index_events, index_payload
from strata_cdc.binlog.bytes.payload import read_payload
from strata_cdc.binlog.events.model import DomainGtidEvent, Query, XaStep
from strata_cdc.binlog.events.parse import parse_event
from strata_cdc.binlog.events.transactions import scan_transactions
from strata_cdc.binlog.events.xa import UndecidedTransactions
from strata_cdc.changes.commit_times import commit_times
from strata_cdc.changes.plan import Range
from strata_cdc.errors import StrataError, StreamHoleError
from strata_cdc.position.clock import CommitClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from strata_cdc.binlog.bytes.chain import EventChain
    from strata_cdc.binlog.bytes.files import BinlogFile
    from strata_cdc.binlog.bytes.format import FormatDescription
    from strata_cdc.binlog.bytes.frames import EventIndex
    from strata_cdc.binlog.events.model import TableRows, TransactionRecord

_FIRST_EVENTS: Final = 16
"""Of a transaction; XA START is the first that is not a part of the statement after it."""


class FileRange(Struct, frozen=True):
    """A range of a file."""

    path: str
    range: Range


class UndecidedRows(Struct, frozen=True):
    """A transaction that is prepared in the files, and neither committed nor rolled back in them: its rows are not
    given."""

    xid: str
    gtid: str | None
    file: str
    offset: int
    tables: tuple[TableRows, ...]

    def __str__(self) -> str:
        """One sentence without a full stop."""
        rows = ", ".join(f"{each.rows} of {each.database}.{each.table}" for each in self.tables) or "none"
        gtid = f" (GTID {self.gtid})" if self.gtid else ""
        return (
            f"{self.file}:{self.offset}{gtid}: XA PREPARE {self.xid} is not decided in these files; not decoded: {rows}"
        )


class PreparedInFiles:
    """The prepared transactions that are undecided, over the files of one stream in order."""

    def __init__(self) -> None:
        self._undecided = UndecidedTransactions()
        self._prepared: dict[int, tuple[str, TransactionRecord]] = {}
        """Path and record of each, by ordinal."""
        self._lost: list[StreamHoleError] = []

    def undecided(self) -> list[UndecidedRows]:
        """Those that nobody has decided so far, in stream order."""
        return [
            UndecidedRows(
                xid=prepared.xid,
                gtid=str(record.gtid) if record.gtid else None,
                file=record.binlog_file,
                offset=record.binlog_pos,
                tables=record.tables,
            )
            for prepared in self._undecided.prepared()
            for _, record in [self._prepared[prepared.seq]]
            if record.has_changes
        ]

    def take_lost(self) -> list[StreamHoleError]:
        """Why rows are missing; each reason is returned once."""
        lost, self._lost = self._lost, []
        return lost

    def copy(self) -> PreparedInFiles:
        """A copy, to continue from here a second time."""
        other = PreparedInFiles()
        other._undecided = UndecidedTransactions(self._undecided.prepared())
        other._prepared = dict(self._prepared)
        return other

    def apply(self, path: str, record: TransactionRecord) -> FileRange | None:
        """Takes the next transaction that has to do with XA; gives the rows that take effect with it."""
        if record.mark is None:
            return None
        ended = self._undecided.apply(record.seq, record.mark)
        before = None if ended is None else self._prepared.pop(ended)
        if record.mark.step is XaStep.PREPARE:
            self._prepared[record.seq] = path, record
            if before is not None and before[1].has_changes:
                self._lose(record, f"{record.mark} follows another of this XID, whose decision is not in the binlog")
        elif record.mark.step is XaStep.COMMIT:
            if before is not None:
                return _committed(record, *before)
            self._lose(record, f"{record.mark} commits what none of the given files has the XA PREPARE of")
        return None

    def _lose(self, record: TransactionRecord, what: str) -> None:
        error = StreamHoleError(
            f"{what}: rows are missing",
            gtid=str(record.gtid) if record.gtid else None,
            file=record.binlog_file,
            offset=record.binlog_pos,
            remedy="Give the files before this one, too; the other rows have been given.",
        )
        self._lost.append(error)

    def ranges(self, binlog: BinlogFile, whole: Range, chain: EventChain) -> Iterator[FileRange]:
        """The ranges of a part of a file: all of it except transactions that are only prepared, and instead of each
        XA COMMIT the rows that it commits, from whatever file. The last range is of this file, and may be empty.

        Args:
            binlog: The open file.
            whole: The part of the file; its position in the server's file is not used.
            chain: Where its events must lie. Who walks over the ranges that are not of a prepared transaction takes
                their events to it, one range after the other.

        Raises:
            StrataError: After the last range: what is wrong with the bytes. The caller that decodes the ranges may find
                it before.
        """
        shift = _shift(binlog)
        begin, end = whole.begin, whole.end
        at, seq, clock, fault = begin, whole.first_seq, whole.clock, None
        times: list[tuple[int, int]] = []
        batches = scan_transactions(
            binlog, first_seq=seq, clock=CommitClock(clock), begin=begin, end=end, chain=copy(chain)
        )
        sound = begin
        try:
            for batch in batches:
                sound, row = int(batch.ends[-1]), 0
                marked = batch.records() if batch.marks else ()
                for record in (record for record in marked if record.mark is not None):
                    times += commit_times(batch, row, record.seq - batch.first_seq)
                    if at < record.begin:
                        yield FileRange(
                            binlog.path, Range(at, record.begin, at + shift, seq, clock, times=tuple(times))
                        )
                    chain.follow(binlog.buffer, index_events(binlog.buffer, record.begin, record.end, binlog.format))
                    committed = self.apply(binlog.path, record)
                    if committed is not None:
                        yield committed
                    at, seq, clock = record.end, record.seq + 1, record.committed_at
                    row, times = seq - batch.first_seq, []
                times += commit_times(batch, row, len(batch))
        except StrataError as error:
            fault = error
        # What is prepared, or will be, gives no row: not that of a transaction that is cut off or damaged, either.
        until = sound if fault is not None and _begins_xa(binlog, sound, end) else end
        yield FileRange(binlog.path, Range(at, until, at + shift, seq, clock, times=tuple(times)))
        if fault is not None:
            raise fault


def in_file_order(binlog: BinlogFile, part: Range) -> FileRange:
    """A part of a file without transactions that have to do with XA; its position in the server's file is not used."""
    return FileRange(binlog.path, replace(part, binlog_pos=part.begin + _shift(binlog)))


def _shift(binlog: BinlogFile) -> int:
    """How much further an event lies in the server's file."""
    return binlog.segment.offset - binlog.first_event if binlog.segment else 0


def _committed(commit: TransactionRecord, path: str, prepared: TransactionRecord) -> FileRange:
    return FileRange(path, Range.of_prepared(prepared, commit))


def _begins_xa(binlog: BinlogFile, begin: int, end: int) -> bool:
    """Whether the transaction that begins at an offset is of XA, as far as its first events can be read."""
    with suppress(StrataError):
        index = index_events(binlog.buffer, begin, end, binlog.format, _FIRST_EVENTS)
        return _starts_xa(binlog.buffer, index, binlog.format)
    return False


def _starts_xa(buffer: npt.NDArray[np.uint8], index: EventIndex, form: FormatDescription) -> bool:
    for kind, position, length in zip(index.types, index.positions.tolist(), index.lengths.tolist(), strict=True):
        if kind == EventType.TABLE_MAP:
            break
        if kind == EventType.TRANSACTION_PAYLOAD:
            for chunk in islice(read_payload(buffer, position, length, form), 1):
                inner = index_payload(chunk.buffer, 0, len(chunk.buffer), _FIRST_EVENTS)
                return _starts_xa(chunk.buffer, inner, replace(form, has_checksum=False))
            break
        is_xa = _shows_xa(parse_event(buffer, position, length, form))
        if is_xa is not None:
            return is_xa
    return False


def _shows_xa(event: object) -> bool | None:
    """Whether an event begins a transaction of XA; None if it does not show it."""
    if isinstance(event, DomainGtidEvent):
        return event.prepared_xa
    word = event.statement[:9].upper() if isinstance(event, Query) else b""
    return word != b"BEGIN" if word in {b"XA START ", b"XA BEGIN ", b"BEGIN"} else None
