"""A stream whose source has yielded its first item. Each item is tracked, its transactions are chosen and decoded, and
the result is yielded in spans.
Not here: where it begins and ends (`opening.py`), where items come from (`live_handover.py`), which transactions are
for the reader (`progress.py`), what is in them (`decoding.py`)."""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.sources.port import Transactions, Waiting
from strata_cdc.errors import StatementFormatError, StreamHoleError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.sets import GtidSet
from strata_cdc.store.own import own_database
from strata_cdc.streams.decoding import Decoding
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.filter import filter_of
from strata_cdc.streams.live_handover import LiveHandover, LiveServer
from strata_cdc.streams.opening import open_at
from strata_cdc.streams.prepared import PreparedAlong
from strata_cdc.streams.progress import StreamProgress, choose
from strata_cdc.streams.statements import statements_of
from strata_cdc.streams.versions import StreamVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import sqlalchemy as sa

    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import TransactionPlace
    from strata_cdc.streams.filter import StreamFilter
    from strata_cdc.streams.live_handover import SourceItem
    from strata_cdc.streams.opening import Opening
    from strata_cdc.streams.progress import ChosenTransactions
    from strata_cdc.streams.request import StreamRequest

_PASSABLE: Final = (StatementFormatError, StreamHoleError)
"""Faults of a single transaction; a reader can continue after that transaction."""
_AGAIN_SECONDS: Final = 1.0
"""The shortest time between two requests for the server's time."""


def open_stream(request: StreamRequest, engine: sa.Engine, stop: Callable[[], bool]) -> OpenedStream | None:
    """Opens a stream.

    Args:
        request: What the reader requests, and of which source.
        engine: The source's store, which must stay open while the stream is read.
        stop: Called while nothing comes; true ends the stream.

    Returns:
        The stream when its source has yielded its first item; None if `stop` ended it before.

    Raises:
        StrataError: As `open_at` and `LiveHandover.read`.
    """
    source, server = request.source, LiveServer(request.source.address)
    landed = LandedStream.open(source.lake, source.name)
    opening = open_at(landed, server, request.start, request.until, follow=request.follow)
    own = own_database(engine, landed.servers() or {server.state().uuid})
    versions = StreamVersions(engine, source.name, own)
    after_seq = opening.read_from(landed, versions.tracked.seq)
    wanted = filter_of(request.tables, request.columns, own, folds_names=versions.folds_names)
    decoding = Decoding(versions, PreparedAlong(landed, after_seq), wanted, request.permit, request.limits)
    handover = LiveHandover(landed, request.handover, stop, after_seq=after_seq, by_file=opening.by_file)
    items = handover.read()
    first = next(items, None)
    return None if first is None else OpenedStream(request, opening, versions, wanted, decoding, first, items, stop)


class OpenedStream:
    """A stream that one reader reads from a source."""

    def __init__(
        self,
        request: StreamRequest,
        opening: Opening,
        versions: StreamVersions,
        wanted: StreamFilter,
        decoding: Decoding,
        first: SourceItem,
        following: Generator[SourceItem],
        stop: Callable[[], bool],
    ) -> None:
        """Nothing has been yielded yet.

        Args:
            request: What the reader requests.
            opening: Where the stream begins and ends in this source.
            versions: The versions of its tables.
            wanted: Which tables and columns the reader wants.
            decoding: Decodes its transactions.
            first: The source's first item.
            following: The other items.
            stop: Whether the reader wants nothing more.
        """
        self._request, self._opening = request, opening
        self._versions, self._wanted, self._decoding = versions, wanted, decoding
        self._first, self._following, self._stop = first, following, stop
        self.folds_names = versions.folds_names
        """Whether the server ignores the case of names."""
        self._reached = first.reached
        """How far the source has been read."""
        self.progress = StreamProgress.at_begin(first.reached, opening.executed)
        """Where the reader is: after all items that have been yielded completely."""
        self.stopped_at: TransactionPlace | None = None
        """The transaction whose fault has ended the stream, if a reader can continue after it."""
        self.unreadable_rows = 0
        """How many of the yielded rows cannot be read."""

    def read(self) -> Iterator[StreamBatch | Heartbeat]:
        """Yields everything that there is for the reader, up to the end."""
        pause = self._request.heartbeat_seconds
        due = time.monotonic() + pause
        for span in self._items_in_spans():
            if span is not None:
                yield span
                due = time.monotonic() + pause
            elif time.monotonic() >= due:
                yield Heartbeat(self.place)
                # Not counted from now: the time is checked in steps, so each heartbeat would come a step later.
                due = max(due, time.monotonic() - pause) + pause

    def close(self) -> None:
        """Closes the connection to the server."""
        self._following.close()

    def _items_in_spans(self) -> Iterator[StreamBatch | None]:
        """Yields what each item has, and None at the end of each item."""
        end_time, is_over = _EndTime(self._request, self._opening.time), self._is_over()
        items = chain([self._first], self._following)
        while not is_over and (found := next(items, None)) is not None:
            chosen = self._take(found)
            if chosen is not None:
                yield from self._spans(chosen)
                self.progress = chosen.behind
            yield None
            is_over = (chosen is not None and chosen.is_last) or self._is_over()
            if isinstance(found.item, Waiting) and not is_over:
                is_over = end_time.is_over(self.progress, by_file=found.reached.by_file)

    def _take(self, found: SourceItem) -> ChosenTransactions | None:
        """Tracks an item, and chooses its transactions."""
        item, self._reached = found.item, found.reached
        if isinstance(item, Waiting):
            self.progress = self.progress.behind_head(found.reached)
        self._versions.track(item)
        if not isinstance(item, Transactions):
            return None
        if item.batch.last_seq <= self._opening.skip_to and not item.batch.marks:
            self.progress = self.progress.behind(item.batch, 0, len(item.batch), found.reached)
            return None
        return choose(item, found.reached, self.progress, self._opening, self._request)

    def _spans(self, chosen: ChosenTransactions) -> Iterator[StreamBatch]:
        try:
            for span in self._decoding.read(chosen, statements_of(chosen, self._versions, self._wanted)):
                if span:
                    self.unreadable_rows += sum(rows.batch.num_rows for rows in span.unreadable)
                    yield span
        except _PASSABLE as error:
            places = chosen.places.values()
            self.stopped_at = next((one for one in places if one.gtid == error.gtid and error.gtid), None)
            if self.stopped_at is not None and "--from" not in (error.remedy or ""):
                error.remedy = (
                    f"{error.remedy or ''} To skip it, continue after its transaction: `strata stream --source "
                    f"{self._request.source.name} --from {self.stopped_at.after_text}`."
                ).strip()
            raise

    def _is_over(self) -> bool:
        """Whether nothing more is to be yielded."""
        at = self.progress.at
        had = self.progress.executed
        return self._stop() or self._opening.is_reached(self._reached.seq, had, at.at if at else None)

    @property
    def place(self) -> SourcePosition:
        """The position up to which everything has been read."""
        return self.progress.place(self._request, by_file=self._reached.by_file)

    @property
    def tracked_from(self) -> GtidSet | None:
        """How far the source has been read and tracked; None once that has reached the stream's begin."""
        reached = self._reached.executed
        return None if (self._opening.executed or GtidSet()) <= reached else reached

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """Returns the definition of a table for the rows of a transaction that has been read; with None, of the last
        one.

        Raises:
            SchemaGapError: It is not known.
        """
        return self._versions.lookup(table, self.progress.seq if seq is None else seq).definition


class _EndTime:
    """A time at which a stream ends, by the server's clock."""

    def __init__(self, request: StreamRequest, time: int | None) -> None:
        """Takes the time, microseconds UTC; None: the stream ends at no time."""
        self._server, self._time = LiveServer(request.source.address), time
        self._asked = -_AGAIN_SECONDS

    def is_over(self, progress: StreamProgress, *, by_file: bool) -> bool:
        """Whether the time has come, and the server has nothing more from before it; sends a request to the server from
        time to time."""
        now = time.monotonic()
        if self._time is None or now - self._asked < _AGAIN_SECONDS:
            return False
        self._asked = now
        server = self._server.state()
        if server.now < self._time:
            return False
        if by_file:
            return progress.at is not None and self._server.end() <= progress.at.at
        return server.executed <= progress.executed
