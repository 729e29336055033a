"""What has landed of a TiCDC sink as the source of a stream; with `follow`, also what lands later.
Not here: where it begins and ends (`sink_opening.py`), reading segments (`sink_commits.py`), landing
(`ticdc/land_sink.py`)."""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.changes.port import Hole
from strata_cdc.errors import BinlogPurgedError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.commit_ts import CommitTs, time_of
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.schema.history.shell_words import word
from strata_cdc.streams.events import Along
from strata_cdc.streams.filter import filter_of
from strata_cdc.streams.opened import OpenedStream
from strata_cdc.streams.port import ChosenTransactions
from strata_cdc.streams.sink_commits import SinkCommits
from strata_cdc.streams.sink_opening import open_sink_at
from strata_cdc.streams.sink_versions import SinkVersions
from strata_cdc.streams.transactions import StreamTransactions
from strata_cdc.ticdc.changes import SinkChanges, SinkColumns, SinkItem, SinkPositions
from strata_cdc.ticdc.land_sink import landing_state
from strata_cdc.ticdc.landed_rows import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import sqlalchemy as sa

    from strata_cdc.landing.landed import LandedSegment
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.request import StreamRequest
    from strata_cdc.streams.sink_opening import SinkOpening
    from strata_cdc.ticdc.windows import CommitWindow

_LOOK_SECONDS: Final = 1.0
"""So often a reader that follows looks whether something has landed."""
_STOP_SECONDS: Final = 0.1
"""So often it looks whether nothing more is wanted."""


def open_sink_stream(request: StreamRequest, engine: sa.Engine, stop: Callable[[], bool]) -> OpenedStream:
    """Opens the stream of a sink.

    Args:
        request: What the reader requests, and of which source.
        engine: The source's store, which must stay open while the stream is read.
        stop: Called while nothing comes; true ends the stream.

    Raises:
        StrataError: As `open_sink_at`.
    """
    source = request.source
    landed = LandedStream.open(source.lake, source.name)
    opening = open_sink_at(landed, request)
    versions = SinkVersions(engine, source.name)
    versions.track(landed)
    wanted = filter_of(request.tables, request.columns, frozenset(), folds_names=versions.folds_names)
    commits = SinkCommits(wanted, versions)
    return OpenedStream(SinkSourceStream(request, opening, landed, versions, commits, stop), wanted, request)


class SinkSourceStream:
    """The landed commits of a sink, from where a reader begins, as `SourceStream`."""

    def __init__(
        self,
        request: StreamRequest,
        opening: SinkOpening,
        landed: LandedStream,
        versions: SinkVersions,
        commits: SinkCommits,
        stop: Callable[[], bool],
    ) -> None:
        """Nothing has been yielded yet.

        Args:
            request: What the reader requests.
            opening: Where the stream begins and ends.
            landed: What has landed.
            versions: The versions of its tables; they have tracked it.
            commits: Reads the commits.
            stop: Whether the reader wants nothing more.
        """
        self._request, self._opening, self._landed = request, opening, landed
        self._versions, self._commits, self._stop = versions, commits, stop
        self._at, self._parts = opening.at, opening.parts
        """Where the reader is."""

    def read_transactions(self) -> Generator[ChosenTransactions | None]:
        """Yields the commits for the reader, as `SourceStream.read_transactions`."""
        while not self._is_over():
            for window in self._windows():
                yield self._chosen(window)
                self._reach(CommitTs(window.steps[-1], window.next_seq - 1))
                yield None
                if self._is_over():
                    return
            if not self._request.follow or self._has_all():
                return
            yield from self._wait()
            self._look_again()

    def _windows(self) -> Iterator[CommitWindow]:
        for segment in self._landed.segments_after(self._at.seq):
            if segment.summary.transactions and not self._is_over():
                rows = SegmentRows(segment)
                first, last = self._wanted_of(segment, rows)
                yield from self._commits.windows(rows, first, last)
                if last < segment.summary.last_seq:
                    return

    def _wanted_of(self, segment: LandedSegment, rows: SegmentRows) -> tuple[int, int]:
        """The first and the last ordinal of a segment that are wanted; those before the first are passed."""
        opening, steps, before = self._opening, rows.steps(), segment.summary.first_seq - 1
        first = max(self._at.seq, before + bisect_right(steps, opening.after))
        if first > self._at.seq:
            self._reach(CommitTs(steps[first - before - 1], first))
        last = segment.summary.last_seq if opening.end is None else before + bisect_right(steps, opening.end)
        return first + 1, last if opening.end_seq is None else min(last, opening.end_seq)

    def _chosen(self, window: CommitWindow) -> ChosenTransactions:
        source = self._request.source
        item = SinkItem(SinkColumns(window))
        # A sink's commits have no GTIDs that another source could have by copy.
        along = Along(source.name, source.lineage, SinkPositions(self._at, window.steps), {})
        transactions = StreamTransactions(along, item, np.arange(len(window.steps)))
        given = {self._at.seq + 1: self._parts[0].steps} if self._parts else {}
        for hole in window.rows:
            if isinstance(hole, Hole):
                _say_how_to_skip(hole, transactions, source.name)
        return ChosenTransactions(SinkChanges(window), transactions, given)

    def _reach(self, at: CommitTs) -> None:
        self._at, self._parts = at, ()

    def _is_over(self) -> bool:
        """Whether nothing more is to be yielded."""
        end, end_seq = self._opening.end, self._opening.end_seq
        is_at_end = end is not None and self._at.at >= end
        return self._stop() or is_at_end or (end_seq is not None and self._at.seq >= end_seq)

    def _has_all(self) -> bool:
        """Whether everything up to the end has landed: then it has been read."""
        return self._opening.end is not None and landing_state(self._landed).end_ts > self._opening.end.ts

    def _wait(self) -> Iterator[None]:
        until = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < until and not self._stop():
            time.sleep(_STOP_SECONDS)
            yield None

    def _look_again(self) -> None:
        source = self._request.source
        self._landed = LandedStream.open(source.lake, source.name)
        if self._landed.first_seq > self._at.seq + 1:
            raise BinlogPurgedError(
                f"commit {self._at.seq + 1} was deleted from the lake by age before it was read",
                source=source.name,
                remedy=f"`strata stream --source {source.name} --from beginning` begins with what is still there.",
            )
        self._versions.track(self._landed)

    def close(self) -> None:
        """Nothing is open."""

    @property
    def folds_names(self) -> bool:
        """Whether names of any case are the same."""
        return self._versions.folds_names

    @property
    def position(self) -> SourcePosition:
        """The position up to which everything has been read."""
        source = self._request.source
        return SourcePosition(source.name, self._at, source.lineage, self.last_commit, self._parts)

    @property
    def executed(self) -> None:
        """None: there are no GTIDs."""

    @property
    def last_commit(self) -> int:
        """As `SourceStream.last_commit`, by the clock of TiDB."""
        return time_of(self._at.at.ts)

    @property
    def tracked_from(self) -> None:
        """None: all that is read has been tracked."""

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """As `SourceStream.definition`.

        Raises:
            SchemaGapError: It is not known.
        """
        return self._versions.lookup(table, self._at.seq if seq is None else seq).definition


def _say_how_to_skip(hole: Hole, transactions: StreamTransactions, source: str) -> None:
    after = transactions[hole.seq].after_text
    skip = f"To skip it, continue after its commit: `strata stream --source {source} --from {word(after)}`."
    hole.error.remedy = f"{hole.error.remedy or ''} {skip}".strip()
