"""How far a reader has come along a stream, and which transactions of the next item are for him.
Not here: where he begins and ends (`opening.py`), what is in the transactions (`decoding.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.errors import SourceSettingsError
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet
from strata_cdc.position.source_position import SourcePosition, kept_origins
from strata_cdc.streams.events import Along, ExecutedAlong
from strata_cdc.streams.places import Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.events.model import TransactionRecord
    from strata_cdc.binlog.sources.port import Transactions
    from strata_cdc.position.port import Position
    from strata_cdc.position.source_position import PartialTransaction
    from strata_cdc.streams.live_handover import Reached
    from strata_cdc.streams.opening import Opening
    from strata_cdc.streams.request import StreamRequest


class StreamProgress(Struct, frozen=True):
    """Behind all that a reader has, or has passed over."""

    seq: int
    """Ordinal of the last transaction that was looked at."""
    executed: GtidSet
    """Of the reader."""
    at: FilePosition | None
    """Of a stream by file."""
    committed_at: int
    """By the commit clock of the stream, microseconds UTC."""
    last_commit: int
    """When the last transaction was committed, as its server's clock had it (microseconds UTC); 0: not known."""

    @classmethod
    def at_begin(cls, reached: Reached, executed: GtidSet | None) -> StreamProgress:
        """Where a stream begins.

        Args:
            reached: How far the source has been read.
            executed: What the reader has by his own word.
        """
        at = FilePosition(reached.server_uuid, reached.at) if reached.by_file and reached.at is not None else None
        had = reached.executed | (executed or GtidSet())
        return cls(reached.seq, had, at, reached.clock, reached.last_commit)

    def behind(self, batch: TransactionBatch, first: int, stop: int, reached: Reached) -> StreamProgress:
        """Behind the rows of a batch from `first` to the one in front of `stop`.

        Args:
            batch: Some transactions.
            first: Row of the first.
            stop: Row behind the last.
            reached: How far the source has been read with them.
        """
        if first >= stop:
            return self
        last, at = stop - 1, self.at
        if reached.by_file:
            end = int(batch.positions[last] + batch.ends[last] - batch.begins[last])
            at = FilePosition(self.server_uuid(reached), BinlogPosition.of(batch.binlog_file, end))
        return StreamProgress(
            batch.first_seq + last,
            batch.added_to(self.executed, first, stop),
            at,
            int(batch.committed_at[last]),
            int(batch.commit_timestamps[last]),
        )

    def behind_head(self, reached: Reached) -> StreamProgress:
        """Nothing comes: all in front of where the source has been read has been looked at."""
        if self.at is None or reached.at is None or self.at.at >= reached.at:
            return self
        return replace(self, at=FilePosition(reached.server_uuid, reached.at))

    def server_uuid(self, reached: Reached) -> str:
        """Of the server whose files a stream by file goes by."""
        return self.at.server_uuid if self.at else reached.server_uuid

    def place(self, request: StreamRequest, *, by_file: bool) -> SourcePosition:
        """The same for a token."""
        position: Position = self.at if by_file and self.at is not None else self.executed
        parts: tuple[PartialTransaction, ...] = ()
        start = request.start
        if isinstance(start, SourcePosition) and start.position.counted == position.counted:
            position |= start.position
            # What the reader has of a transaction that has not come yet.
            parts = tuple(part for part in start.parts if not position.contains(part.transaction))
        origins = kept_origins(request.copied_from, position)
        return SourcePosition(request.source.name, position, request.source.lineage, self.committed_at, parts, origins)


class ChosenTransactions(Struct, frozen=True):
    """What of an item is for a reader."""

    item: Transactions
    places: Places
    given: Mapping[int, int]
    """How many steps of a transaction he has, by ordinal."""
    passed: list[TransactionRecord]
    """Transactions that have to do with XA, and are not wanted themselves."""
    behind: StreamProgress
    """Where he is when he has them."""
    is_last: bool
    """Whether the stream ends with them."""


def choose(
    item: Transactions, reached: Reached, progress: StreamProgress, opening: Opening, request: StreamRequest
) -> ChosenTransactions:
    """Which transactions of an item are for a reader.

    Args:
        item: The next one.
        reached: How far the source has been read with it.
        progress: Where the reader is in front of it.
        opening: Where he begins and ends.
        request: What he asks for.

    Raises:
        SourceSettingsError: One has no GTID, and the stream goes by GTID set.
        CorruptEventError: A statement cannot be read.
    """
    batch = item.batch
    first = max(item.first_seq - batch.first_seq, 0)
    end = opening.stop(batch, first, progress.executed)
    stop = len(batch) if end is None else end
    rows = opening.rows(batch, first, stop)
    return ChosenTransactions(
        item,
        Places(_along(batch, range(first, stop), reached, progress, request), item, rows),
        opening.begin.steps_given(batch),
        [batch.record(row) for row, _ in batch.marks if first <= row < stop and row not in rows],
        progress.behind(batch, first, stop, reached),
        end is not None,
    )


def _along(
    batch: TransactionBatch, rows: range, reached: Reached, progress: StreamProgress, request: StreamRequest
) -> Along:
    source = request.source
    if reached.by_file:
        return Along(source.name, source.lineage, progress.server_uuid(reached), request.copied_from)
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
