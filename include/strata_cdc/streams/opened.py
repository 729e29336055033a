"""A stream whose source has begun to give: each item is tracked, chosen from, decoded, and given in spans.
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
"""Faults of one transaction, behind which a reader can go on."""
_AGAIN_SECONDS: Final = 1.0
"""A server is asked for its time no sooner."""


def open_stream(request: StreamRequest, engine: sa.Engine, stop: Callable[[], bool]) -> OpenedStream | None:
    """Opens a stream.

    Args:
        request: What of which source.
        engine: Its store, which has to stay open while the stream is read.
        stop: Asked while nothing comes.

    Returns:
        The stream when its source has begun to give; None if it was stopped before.

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
    """One reader's way along a source."""

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
        """Nothing has been given yet.

        Args:
            request: What the reader asks for.
            opening: What that is of this source.
            versions: Of its tables.
            wanted: What the reader wants of these.
            decoding: Of its transactions.
            first: The first item of it.
            following: The others.
            stop: Whether the reader wants no more.
        """
        self._request, self._opening = request, opening
        self._versions, self._wanted, self._decoding = versions, wanted, decoding
        self._first, self._following, self._stop = first, following, stop
        self.folds_names = versions.folds_names
        """Whether the server takes names of any case for the same."""
        self._reached = first.reached
        """Where the source is."""
        self.progress = StreamProgress.at_begin(first.reached, opening.executed)
        """Where the reader is: behind all items that have been given to their ends."""
        self.stopped_at: TransactionPlace | None = None
        """The transaction whose fault has ended the stream, if a reader can go on behind it."""
        self.unreadable_rows = 0
        """Rows that cannot be read, of what has been given."""

    def read(self) -> Iterator[StreamBatch | Heartbeat]:
        """All that there is for the reader, up to the end."""
        pause = self._request.heartbeat_seconds
        due = time.monotonic() + pause
        for span in self._items_in_spans():
            if span is not None:
                yield span
                due = time.monotonic() + pause
            elif time.monotonic() >= due:
                yield Heartbeat(self.place)
                # Not from now on: it is looked for in steps, and would come a step late each time.
                due = max(due, time.monotonic() - pause) + pause

    def close(self) -> None:
        """Lets its server go."""
        self._following.close()

    def _items_in_spans(self) -> Iterator[StreamBatch | None]:
        """What each item has; None at the end of each."""
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
        """Tracks an item, and chooses from it."""
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
                    f"{error.remedy or ''} To leave it out, go on behind its transaction: `strata stream --source "
                    f"{self._request.source.name} --from {self.stopped_at.after_text}`."
                ).strip()
            raise

    def _is_over(self) -> bool:
        """Whether nothing more is to be given."""
        at = self.progress.at
        had = self.progress.executed
        return self._stop() or self._opening.is_reached(self._reached.seq, had, at.at if at else None)

    @property
    def place(self) -> SourcePosition:
        """Where all is that has been read."""
        return self.progress.place(self._request, by_file=self._reached.by_file)

    @property
    def tracked_from(self) -> GtidSet | None:
        """None once it has been read, and tracked, up to where it begins; before that how far it has been."""
        reached = self._reached.executed
        return None if (self._opening.executed or GtidSet()) <= reached else reached

    def definition(self, table: TableName, seq: int | None) -> TableDefinition:
        """What a table looks like for the rows of a transaction that has been read; None for the last one.

        Raises:
            SchemaGapError: It is not known.
        """
        return self._versions.lookup(table, self.progress.seq if seq is None else seq).definition


class _EndTime:
    """A time at which a stream ends, by the server's clock."""

    def __init__(self, request: StreamRequest, time: int | None) -> None:
        """Takes the time, microseconds UTC; None: it ends at none."""
        self._server, self._time = LiveServer(request.source.address), time
        self._asked = -_AGAIN_SECONDS

    def is_over(self, progress: StreamProgress, *, by_file: bool) -> bool:
        """Whether it is, and the server has nothing more from before it; the server is asked now and then."""
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
