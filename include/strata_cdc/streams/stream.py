"""An update stream: the changes of one source from a position on, in order, each with its token; as events, as lines,
as Arrow batches, for `for` and `async for`.
Not here: where transactions come from (`live_handover.py`), what is in them (`decoding.py`), the command
(`cli/stream.py`)."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from strata_cdc.binlog.events.batch import add_gtids
from strata_cdc.binlog.sources.port import Transactions, Waiting
from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.errors import SourceSettingsError, StatementFormatError, StrataError, StreamHoleError
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.file_position import FilePosition
from strata_cdc.position.sets import GtidSet, GtidSetBuilder
from strata_cdc.position.source_position import SourcePosition, kept_origins
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.schema.history.versions import SYSTEM_DATABASES
from strata_cdc.schema.model.patterns import matches, require_matchable
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.store.own import own_database
from strata_cdc.streams.decoding import Decoding, StreamBatch, StreamFilter
from strata_cdc.streams.events import Along, ExecutedAlong, Heartbeat
from strata_cdc.streams.live_handover import GATHER_SECONDS, LiveHandover, LiveServer
from strata_cdc.streams.opening import Opening, open_at
from strata_cdc.streams.places import Places
from strata_cdc.streams.positions import Edge, parse_bound
from strata_cdc.streams.prepared import PreparedAlong
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.versions import StreamVersions
from strata_cdc.streams.writing import Writing, heartbeat_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import sqlalchemy as sa

    from strata_cdc.binlog.events.batch import TransactionBatch
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.sources.port import Item
    from strata_cdc.position.port import Position
    from strata_cdc.position.source_position import PartialTransaction
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.events import Event, TransactionPlace
    from strata_cdc.streams.positions import Bound, Start

HEARTBEAT_SECONDS: Final = 1.0
_PASSABLE: Final = (StatementFormatError, StreamHoleError)
"""Faults of one transaction, behind which a reader can go on."""


class StreamedSource(Protocol):
    """What is to be known of a source; one of the settings is such."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def address(self) -> ServerAddress:
        """Of its server."""

    @property
    def lake(self) -> str:
        """Folder or URL of the lake that it lands in."""

    @property
    def store_url(self) -> str:
        """Where its versions are."""

    @property
    def lineage(self) -> str:
        """Names its history, in tokens."""

    @property
    def copied_from(self) -> Mapping[str, str]:
        """Other sources whose GTIDs it has by copy, and their lineages."""


DECODE_LIMITS: Final = DecodeLimits(first_bytes=1 << 20)
"""Who has just begun to read gets the first rows soon."""


class ChangeStream:
    """One reader's way along a source. It can be read once, in one of its forms, by one thread at a time."""

    def __init__(  # noqa: PLR0913  what a reader may ask for
        self,
        source: StreamedSource,
        start: Start | str = Edge.NOW,
        *,
        until: Bound | str | None = None,
        follow: bool = False,
        tables: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        copied_from: Mapping[str, str] | None = None,
        limits: DecodeLimits = DECODE_LIMITS,
    ) -> None:
        """Nothing is opened yet.

        Args:
            source: The source.
            start: Where to begin: behind a token, a GTID set or a file and offset, at the first transaction at or after
                a time, `now` or the `beginning`; or at what the server said earlier, which is `now` as of then.
            until: Where to end; a time is exclusive. What the server has executed at the start is the end, too, if
                `follow` does not say otherwise.
            follow: Whether to wait for what comes; for ever, if `until` does not say otherwise.
            tables: Patterns of `database.table`; none for all.
            columns: Names of the columns that are wanted; None for all.
            heartbeat_seconds: After so long without anything the position is given.
            copied_from: Other sources whose GTIDs it has by copy, and their lineages; None: as the source says.
            limits: How much is decoded before its rows are given.

        Raises:
            Usage: A position means nothing, is of another source or lineage, or a pattern can match no table.
        """
        require_matchable(tables)
        self._source, self._follow, self._heartbeat = source, follow, heartbeat_seconds
        self._start = parse_bound(start, source.name, source.lineage) if isinstance(start, str) else start
        self._until = parse_bound(until, source.name, source.lineage) if isinstance(until, str) else until
        self._patterns, self._columns = tuple(tables), columns
        self._copied_from = source.copied_from if copied_from is None else copied_from
        self.gather_seconds = GATHER_SECONDS
        """As `LiveHandover` takes it; to be set before anything is read."""
        self.has_answered = False
        """Likewise."""
        self.turn: AbstractContextManager[object] = nullcontext()
        """As `Decoding` takes it; likewise."""
        self._limits, self._closed = limits, False
        self._server = LiveServer(source.address)
        self._executed = GtidSetBuilder()
        """Of the reader, up to the last transaction that was looked at."""
        self._at: FilePosition | None = None
        self._committed_at = 0
        self.last_commit = 0
        """When the last transaction that was looked at was committed, as its server's clock had it (microseconds UTC);
        0: not known. A clock that was set back shows here, and not in places."""
        self._has_begun = self._ended = False
        self._asked = 0.0
        self._opening: Opening
        self._seq: int | None = None
        """Ordinal of the last transaction that was looked at; None before the first item."""
        self.stopped_at: TransactionPlace | None = None
        """The transaction whose fault has ended the stream, if a reader can go on behind it."""
        self.folds_names = False
        """Whether the server takes names of any case for the same; known when something has been given."""
        self.unreadable_rows = 0
        """Rows that cannot be read, of what has been given."""

    def close(self) -> None:
        """Ends the stream at the next moment at which nothing comes; may be called by another thread."""
        self._closed = True

    def reached(self) -> str | None:
        """The token of all that has been read; None in front of the first transaction that the stream looks at."""
        return to_text(Token((self._place(),))) if self._has_begun else None

    def __iter__(self) -> Iterator[Event]:
        """The events, one by one.

        Raises:
            SchemaGapError: The schema of a table that is wanted is not known.
            BinlogPurgedError: The position is nowhere any more; the message says what can be had.
            StrataError: What else is wrong; everything in front of it has been given.
        """
        rendering = Rendering()
        for found in self.spans():
            if isinstance(found, Heartbeat):
                yield found
            else:
                yield from rendering.events(found)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The same for `async for`; the work is done in another thread, a span at a time."""
        rendering, spans = Rendering(), self.spans()
        try:
            while (found := await asyncio.to_thread(next, spans, None)) is not None:
                if isinstance(found, Heartbeat):
                    yield found
                else:
                    for event in await asyncio.to_thread(list, rendering.events(found)):
                        yield event
        finally:
            self.close()

    def written(self) -> Iterator[bytes]:
        """The events as JSON lines in UTF-8, some whole ones at once. Raises as iterating does."""
        writing = Writing()
        for found in self.spans():
            if isinstance(found, Heartbeat):
                yield heartbeat_line(found.token) + b"\n"
            else:
                yield from writing.chunks(found)

    def spans(self) -> Generator[StreamBatch | Heartbeat, None, None]:
        """The stream in spans, whose rows are Arrow batches table by table. Raises as iterating does."""
        engine = open_store(self._source.store_url, OnMissing.EMPTY)
        try:
            yield from self._read(engine)
        except StrataError as error:
            raise error.located(source=self._source.name) from None
        finally:
            engine.dispose()

    def position(self) -> GtidSet | None:
        """All transactions up to where it has been read; None before that, and for a stream by file."""
        return None if self._at is not None or self._seq is None else self._executed.build()

    def tracked_from(self) -> GtidSet | None:
        """None once it has been read, and tracked, up to where it begins; before that how far it has been."""
        reached = self._seam.reached.executed.build()
        return None if (self._opening.executed or GtidSet()) <= reached else reached

    def definition(self, table: TableName, seq: int | None = None) -> TableDefinition:
        """What a table looks like for the rows of a transaction that has been read; None for the last one, once
        `tracked_from` is None.

        Raises:
            SchemaGapError: It is not known.
        """
        at = self._seq if seq is None else seq
        return self._versions.lookup(table, at or 0).definition

    # Opening --------------------------------------------------------------------------------------

    def _read(self, engine: sa.Engine) -> Iterator[StreamBatch | Heartbeat]:
        source, server = self._source, self._server
        landed = LandedStream.open(source.lake, source.name)
        self._opening = opening = open_at(landed, server, self._start, self._until, follow=self._follow)
        servers = landed.servers() or {server.state().uuid}
        own = own_database(engine, servers)
        self._versions = versions = StreamVersions(engine, source.name, own)
        self.folds_names = versions.folds_names
        wanted = self._wanted(own, versions)
        after = opening.read_from(landed, versions.tracked.seq)
        decoding = Decoding(versions, PreparedAlong(landed, after), wanted, self.turn, self._limits)
        seam = LiveHandover(
            landed,
            source.lake,
            server,
            after_seq=after,
            follow=self._follow,
            stop=lambda: self._closed,
            gather_seconds=self.gather_seconds,
            has_answered=self.has_answered,
        )
        yield from self._walk(seam, versions, decoding)

    def _wanted(self, own: frozenset[str], versions: StreamVersions) -> StreamFilter:
        left_out = own | SYSTEM_DATABASES
        patterns, folded = self._patterns, versions.folds_names
        known: dict[TableName, bool] = {}

        def is_wanted(table: TableName) -> bool:
            found = known.get(table)
            if found is None:
                found = table.database not in left_out and (not patterns or matches(table, patterns, folded=folded))
                known[table] = found
            return found

        columns = None if self._columns is None else frozenset(name.lower() for name in self._columns)
        return StreamFilter(is_wanted, lambda name: name not in left_out, columns, everything=not patterns)

    # Walking --------------------------------------------------------------------------------------

    def _walk(
        self, seam: LiveHandover, versions: StreamVersions, decoding: Decoding
    ) -> Iterator[StreamBatch | Heartbeat]:
        due = time.monotonic() + self._heartbeat
        for item in self._items(seam):
            versions.track(item)
            for span in self._of_item(item, decoding) if isinstance(item, Transactions) else ():
                if span:
                    self.unreadable_rows += sum(rows.batch.num_rows for rows in span.unreadable)
                    yield span
                    due = time.monotonic() + self._heartbeat
            if time.monotonic() >= due:
                yield Heartbeat(self._place())
                # Not from now on: it is looked for in steps, and would come a step late each time.
                due = max(due, time.monotonic() - self._heartbeat) + self._heartbeat

    def _items(self, seam: LiveHandover) -> Iterator[Item]:
        """Those of the source, up to the end."""
        began = False
        for item in seam.read():
            if not began:
                self._begin(seam)
                began = True
                if self._is_over():
                    return
            if isinstance(item, Waiting):
                self._pass_head(seam)
            yield item
            if self._is_over() or (isinstance(item, Waiting) and self._is_past_time()):
                return

    def _pass_head(self, seam: LiveHandover) -> None:
        """All in front of where the seam is has been looked at."""
        reached = seam.reached
        if self._at is not None and reached.at is not None and self._at.at < reached.at:
            self._at = FilePosition(reached.server_uuid, reached.at)

    def _of_item(self, item: Transactions, decoding: Decoding) -> Iterator[StreamBatch]:
        if item.batch.last_seq <= self._opening.skip_to and not item.batch.marks:
            self._pass_over(item)
            return
        places = self._due(item, decoding)
        if not places:
            return
        try:
            yield from decoding.read(item, places, self._opening.begin.steps_given(item.batch))
        except _PASSABLE as error:
            behind = next((place for place in places.values() if place.gtid == error.gtid and error.gtid), None)
            self.stopped_at = behind
            if behind is not None and "--from" not in (error.remedy or ""):
                error.remedy = (
                    f"{error.remedy or ''} To leave it out, go on behind its transaction: `strata stream --source "
                    f"{self._source.name} --from {behind.after_text}`."
                ).strip()
            raise

    def _begin(self, seam: LiveHandover) -> None:
        reached = seam.reached
        self._executed = GtidSetBuilder(reached.executed.build())
        for sid, spans in (self._opening.executed or GtidSet()).items():
            for span in spans:
                self._executed.add_span(sid, span)
        self._opening.stand_behind(self._executed.build())
        self._committed_at, self.last_commit = reached.clock, reached.last_commit
        self._has_begun = True
        if self._server.by_file and reached.at is not None:
            self._at = FilePosition(reached.server_uuid, reached.at)
        self._seam = seam
        self._seq = reached.seq

    def _pass_over(self, item: Transactions) -> None:
        self._take(item.batch, 0, len(item.batch))
        self._opening.stand_behind(self._executed.build())

    def _due(self, item: Transactions, decoding: Decoding) -> Places:
        """The transactions of an item that the reader is to have."""
        batch = item.batch
        first = max(item.first_seq - batch.first_seq, 0)
        found = self._opening.stop(batch, first)
        self._ended = found is not None
        stop = len(batch) if found is None else found
        along = self._along(batch, first, stop)
        rows = self._opening.rows(batch, first, stop)
        for row, _ in batch.marks:
            if first <= row < stop and row not in rows:
                decoding.pass_over(item, batch.record(row))
        if first < stop:
            self._take(batch, first, stop)
        return Places(along, item, rows)

    def _along(self, batch: TransactionBatch, first: int, stop: int) -> Along:
        source = self._source
        if self._server.by_file:
            return Along(source.name, source.lineage, self._file_server(), self._copied_from)
        unnumbered = np.flatnonzero(batch.sid_numbers[first:stop] < 0)
        if len(unnumbered):
            raise SourceSettingsError(
                "the stream has a transaction without a GTID among others that have one",
                file=batch.binlog_file,
                offset=int(batch.positions[first + unnumbered[0]]),
                remedy="Set gtid_mode to ON for good, or to OFF; `strata doctor` shows how.",
            )
        executed = ExecutedAlong(self._executed.build(), batch, first)
        return Along(source.name, source.lineage, executed, self._copied_from)

    def _file_server(self) -> str:
        return self._at.server_uuid if self._at else self._seam.reached.server_uuid

    def _take(self, batch: TransactionBatch, first: int, stop: int) -> None:
        """Goes behind some transactions of a batch."""
        add_gtids(self._executed, batch.sids, batch.sid_numbers[first:stop], batch.numbers[first:stop])
        last = stop - 1
        self._seq = batch.first_seq + last
        self._committed_at, self.last_commit = int(batch.committed_at[last]), int(batch.commit_timestamps[last])
        if self._server.by_file:
            end = int(batch.positions[last] + batch.ends[last] - batch.begins[last])
            self._at = FilePosition(self._file_server(), BinlogPosition.of(batch.binlog_file, end))

    def _is_past_time(self) -> bool:
        """Whether a time is over at which the stream ends, and the server has nothing more from before it."""
        time_ = self._opening.time
        now = time.monotonic()
        if time_ is None or now - self._asked < 1:
            return False
        self._asked = now
        server = self._server.state()
        if server.now < time_:
            return False
        if self._server.by_file:
            return self._at is not None and self._server.end() <= self._at.at
        return server.executed <= self._executed.build()

    def _place(self) -> SourcePosition:
        """Where all is that has been read."""
        source = self._source
        position: Position = self._executed.build()
        if self._server.by_file and self._at is not None:
            position = self._at
        parts: tuple[PartialTransaction, ...] = ()
        if isinstance(self._start, SourcePosition) and self._start.position.counted == position.counted:
            position |= self._start.position
            # What the reader has of a transaction that has not come yet.
            parts = tuple(part for part in self._start.parts if not position.contains(part.transaction))
        origins = kept_origins(self._copied_from, position)
        return SourcePosition(source.name, position, source.lineage, self._committed_at, parts, origins)

    def _is_over(self) -> bool:
        """Whether nothing more is to be given."""
        if self._closed or self._ended:
            return True
        return self._opening.is_reached(self._seam.reached.seq, self._at.at if self._at else None)
