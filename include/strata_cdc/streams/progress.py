"""How far a reader has read a stream, and which transactions of the next item are for the reader.
Not here: where the reader begins and ends (`opening.py`), what is in the transactions (`decoding.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import SourceSettingsError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import NOTHING
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.source_position import SourcePosition, kept_origins
from strata_cdc.streams.events import Along
from strata_cdc.streams.positions_along import ExecutedAlong, FilesAlong
from strata_cdc.streams.transactions import StreamTransactions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.position.port import Executed, Position
    from strata_cdc.position.source_position import PartialTransaction
    from strata_cdc.streams.live_handover import ReachedPosition
    from strata_cdc.streams.opening import Opening
    from strata_cdc.streams.request import StreamRequest


class StreamProgress(Struct, frozen=True):
    """The position after everything that a reader has, or has skipped."""

    seq: int
    """Ordinal of the last transaction that was looked at."""
    executed: Executed
    """What the reader has."""
    at: FilePosition | None
    """The position in a stream by file and offset; else None."""
    committed_at: int
    """By the commit clock of the stream, microseconds UTC."""
    last_commit: int
    """When the last transaction was committed, by its server's clock (microseconds UTC); 0: not known."""

    @classmethod
    def at_begin(cls, reached: ReachedPosition, executed: Executed | None) -> StreamProgress:
        """Returns the position where a stream begins.

        Args:
            reached: How far the source has been read.
            executed: What the reader already has, by the position that the reader gave.
        """
        at = FilePosition(reached.server_uuid, reached.at) if reached.by_file and reached.at is not None else None
        had = reached.executed | (executed or NOTHING)
        return cls(reached.seq, had, at, reached.clock, reached.last_commit)

    def after(self, batch: TransactionBatch, first: int, stop: int, reached: ReachedPosition) -> StreamProgress:
        """Returns the position after the rows of a batch from `first` to the last before `stop`.

        Args:
            batch: Some transactions.
            first: Row of the first transaction.
            stop: Row after the last transaction.
            reached: How far the source has been read, including them.
        """
        if first >= stop:
            return self
        last, at = stop - 1, self.at
        if reached.by_file:
            end = batch.server_end(last)
            at = FilePosition(self.server_uuid(reached), BinlogPosition.from_offset(batch.binlog_file, end))
        return StreamProgress(
            batch.first_seq + last,
            batch.added_to(self.executed, first, stop),
            at,
            int(batch.committed_at[last]),
            int(batch.commit_timestamps[last]),
        )

    def after_head(self, reached: ReachedPosition) -> StreamProgress:
        """Returns the position if nothing comes: everything up to where the source has been read has been looked at."""
        if self.at is None or reached.at is None or self.at.at >= reached.at:
            return self
        return replace(self, at=FilePosition(reached.server_uuid, reached.at))

    def server_uuid(self, reached: ReachedPosition) -> str:
        """Returns the UUID of the server whose files the positions of a stream by file name."""
        return self.at.server_uuid if self.at else reached.server_uuid

    def position(self, request: StreamRequest, *, by_file: bool) -> SourcePosition:
        """Returns the position for a token."""
        position: Position = self.at if by_file and self.at is not None else self.executed
        parts: tuple[PartialTransaction, ...] = ()
        start = request.start
        if isinstance(start, SourcePosition) and start.position.counted == position.counted:
            position |= start.position
            # The part that the reader has of a transaction that has not come yet.
            parts = tuple(part for part in start.parts if not position.contains(part.transaction))
        origins = kept_origins(request.copied_from, position)
        return SourcePosition(request.source.name, position, request.source.lineage, self.committed_at, parts, origins)


class ChosenRows(Struct, frozen=True):
    """The part of an item that is for a reader."""

    item: Transactions
    transactions: StreamTransactions
    given: Mapping[int, int]
    """How many steps of a transaction the reader already has, by ordinal."""
    passed: list[TransactionRecord]
    """Transactions with an XA mark that are not wanted themselves."""
    progress: StreamProgress
    """Where the reader is after these transactions."""
    is_last: bool
    """Whether the stream ends with them."""


def choose(
    item: Transactions, reached: ReachedPosition, progress: StreamProgress, opening: Opening, request: StreamRequest
) -> ChosenRows:
    """Chooses the transactions of an item that are for a reader.

    Args:
        item: The next item.
        reached: How far the source has been read, including the item.
        progress: Where the reader is before it.
        opening: Where the reader begins and ends.
        request: What the reader requests.

    Raises:
        SourceSettingsError: A transaction has no GTID, and the stream's positions are GTID sets.
        CorruptEventError: A statement cannot be read.
    """
    batch = item.batch
    first = max(item.first_seq - batch.first_seq, 0)
    end = opening.stop(batch, first, progress.executed)
    stop = len(batch) if end is None else end
    rows = opening.rows(batch, first, stop)
    return ChosenRows(
        item,
        StreamTransactions(_along(batch, range(first, stop), reached, progress, request), item, rows),
        opening.begin.steps_given(batch),
        [batch.record(row) for row, _ in batch.marks if first <= row < stop and row not in rows],
        progress.after(batch, first, stop, reached),
        end is not None,
    )


def _along(
    batch: TransactionBatch, rows: range, reached: ReachedPosition, progress: StreamProgress, request: StreamRequest
) -> Along:
    source = request.source
    if reached.by_file:
        return Along(source.name, source.lineage, FilesAlong(progress.server_uuid(reached), batch), request.copied_from)
    unnumbered = np.flatnonzero(batch.sid_numbers[rows.start : rows.stop] < 0)
    if len(unnumbered):
        raise SourceSettingsError(
            "the stream has a transaction without a GTID among others that have one",
            file=batch.binlog_file,
            offset=int(batch.positions[rows.start + unnumbered[0]]),
            remedy="Set gtid_mode to ON for good, or to OFF; `strata doctor` shows how.",
        )
    executed = ExecutedAlong(progress.executed, batch, rows.start)
    return Along(source.name, source.lineage, executed, request.copied_from)
