"""Moves the rows of prepared transactions to where they take effect: at their XA COMMIT, with its ordinal, GTID and
time. Not here: reading XA steps (`binlog/events/xa.py`), cutting slices (`changes/plan.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.binlog.events.model import TransactionRecord, XaStep
from strata_cdc.binlog.events.xa import UndecidedTransactions
from strata_cdc.errors import StreamHoleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from strata_cdc.binlog.events.model import TableRows, XaMark
    from strata_cdc.binlog.events.xa import PreparedTransaction
    from strata_cdc.errors import StrataError
    from strata_cdc.landing.landed import LandedSegment, LandedStream


class CommittedRecord(TransactionRecord, frozen=True, kw_only=True):
    """An XA COMMIT with the rows that it commits.

    `seq`, `gtid` and the times are its own; `begin`, `end`, file, position, tables, statements and split points are
    those of the transaction that was prepared.
    """

    prepared_seq: int
    """Ordinal of the prepared transaction: its rows have the schemas of that position."""
    segment: str
    """URL of the segment that holds the prepared transaction."""


class LostRows(Struct, frozen=True):
    """Rows of a prepared transaction that the stream does not have, or that may be committed or not."""

    error: StrataError
    tables: tuple[tuple[str, str], ...]
    """Databases and tables; empty if they are not known."""


class Decisions(Struct, frozen=True):
    """The outcomes of the transactions that a segment prepares.

    Transactions that were rolled back, or whose outcome the binlog does not have, are in neither field.
    """

    committed: dict[int, int]
    """Ordinal of the prepared transaction -> ordinal of its XA COMMIT."""
    undecided: tuple[PreparedTransaction, ...]


def decisions(stream: LandedStream, segment: LandedSegment) -> Decisions:
    """Reads as many segments after this one as needed to know the outcome of each transaction that it prepares."""
    first, last = segment.summary.first_seq, segment.summary.last_seq
    undecided, committed = UndecidedTransactions(), {}
    for following in stream.segments[stream.place_of(segment.name) :]:
        for seq, mark in following.index.marks():
            if seq > last and mark.step is XaStep.PREPARE and not undecided.holds(mark.xid):
                continue
            ended = undecided.apply(seq, mark)
            if ended is not None and mark.step is XaStep.COMMIT:
                committed[ended] = seq
        if not any(first <= prepared.seq <= last for prepared in undecided.prepared()):
            break
    still_undecided = tuple(prepared for prepared in undecided.prepared() if first <= prepared.seq <= last)
    return Decisions({begun: seq for begun, seq in committed.items() if begun <= last}, still_undecided)


class PreparedPlacement:
    """Where the rows of the transactions after_seq < seq <= last_seq of a landed stream take effect."""

    def __init__(self, stream: LandedStream, after_seq: int, last_seq: int) -> None:
        """Reads the XA steps in this range, and no rows.

        Raises:
            StreamHoleError: Some of these transactions were deleted by age.
        """
        self.after_seq, self.last_seq = after_seq, last_seq
        self.prepares: set[int] = set()
        """Ordinals in the range of transactions that prepare: no row takes effect there."""
        self._stream = stream
        self._prepared: dict[int, int] = {}
        """Ordinal of the XA COMMIT -> ordinal of the transaction that it commits."""
        self._incomplete: dict[int, int | None] = {}
        """Ordinal of an XA event whose rows are not available -> ordinal of the transaction that was prepared, None if
        that is not in the stream."""
        self._passed: dict[int, tuple[LandedSegment, TransactionRecord]] = {}
        undecided = stream.undecided_at(after_seq)
        self._empty = undecided.empty()
        """Prepared transactions before the range that changed nothing; their segments may be deleted."""
        for segment in stream.segments_of(after_seq + 1, last_seq):
            for seq, mark in segment.index.marks():
                if after_seq < seq <= last_seq:
                    self._take(seq, mark, undecided.apply(seq, mark))

    def _take(self, seq: int, mark: XaMark, ended: int | None) -> None:
        if mark.step is XaStep.PREPARE:
            self.prepares.add(seq)
            if ended is not None:
                self._incomplete[seq] = ended
        elif mark.step is XaStep.COMMIT:
            if ended is not None and ended >= self._stream.first_seq:
                self._prepared[seq] = ended
            elif ended not in self._empty:
                self._incomplete[seq] = None

    def committed(self) -> set[int]:
        """Ordinals of the prepared transactions that take effect in the range, also those prepared before it."""
        return set(self._prepared.values())

    def place(self, segment: LandedSegment, records: Iterable[TransactionRecord]) -> Iterator[TransactionRecord]:
        """The transactions of the range in order, a segment at a time, each with the rows that take effect with it: a
        transaction that prepares has none, an XA COMMIT is a `CommittedRecord`."""
        still = self.committed()
        for record in records:
            if record.seq in self.prepares:
                if record.seq in still:
                    self._passed[record.seq] = segment, record
                yield replace(record, tables=(), ddl_offsets=(), splits=())
            elif record.seq in self._prepared:
                begun = self._prepared[record.seq]
                yield _committed(record, *(self._passed.pop(begun, None) or self._stream.record_at(begun)))
            else:
                yield record

    def lost(self) -> list[LostRows]:
        """The transactions whose rows the stream does not have, in stream order."""
        return [
            self._lose(self._stream.record_at(seq)[1], ended)
            for seq, ended in sorted(self._incomplete.items())
            if ended is None or self._had_changes(ended)
        ]

    def _had_changes(self, seq: int) -> bool:
        if seq in self._empty:
            return False
        return seq < self._stream.first_seq or self._stream.record_at(seq)[1].has_changes

    def _lose(self, record: TransactionRecord, ended: int | None) -> LostRows:
        message = (
            f"{record.mark} has no XA PREPARE in the landed stream, which begins after the PREPARE: rows are missing"
        )
        remedy = "Land an archive of the binlogs that has it under another name, or load what it changed again."
        tables: tuple[TableRows, ...] = ()
        if ended is not None:
            at = ""
            if ended >= self._stream.first_seq:
                before = self._stream.record_at(ended)[1]
                at, tables = f" at {before.binlog_file}:{before.binlog_pos}", before.tables
            message = f"{record.mark} was prepared before{at}, and the binlog does not say whether that was committed"
            remedy = (
                "It was decided with `sql_log_bin = 0`, or lost in a crash of the server: compare the tables with the "
                "server's."
            )
        error = StreamHoleError(
            message,
            source=self._stream.source,
            gtid=str(record.gtid) if record.gtid else None,
            file=record.binlog_file,
            offset=record.binlog_pos,
            remedy=remedy,
        )
        return LostRows(error, tuple((table.database, table.table) for table in tables))


def _committed(commit: TransactionRecord, segment: LandedSegment, prepared: TransactionRecord) -> CommittedRecord:
    return CommittedRecord(
        seq=commit.seq,
        gtid=commit.gtid,
        begin=prepared.begin,
        end=prepared.end,
        binlog_file=prepared.binlog_file,
        binlog_pos=prepared.binlog_pos,
        committed_at=commit.committed_at,
        commit_timestamp=commit.commit_timestamp,
        tables=prepared.tables,
        ddl_offsets=prepared.ddl_offsets,
        splits=prepared.splits,
        incident=commit.incident,
        mark=commit.mark,
        prepared_seq=prepared.seq,
        segment=segment.url,
    )
