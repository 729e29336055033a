"""An update stream: the changes of one source from a position on, in order, each with its token; as events, as lines,
as Arrow batches, for `for` and `async for`.
Not here: where transactions come from (`seam.py`), what is in them (`decoding.py`), the command (`cli/stream.py`)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Protocol

from strata.errors import SourceSettingsError, StatementFormatError, StrataError, StreamHoleError, UndecodableTextError
from strata.events.changes.port import Transactions, Waiting
from strata.events.landed import LandedStream
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet, GtidSetBuilder
from strata.gtid.token import FilePosition, Place, Token
from strata.gtid.token_text import to_text
from strata.schema.history.versions import SYSTEM_DATABASES
from strata.schema.model.patterns import matches
from strata.store.database import OnMissing, open_store
from strata.store.own import own_database
from strata.streams.decoding import Decoding, Span, Wanted
from strata.streams.events import Heartbeat, TransactionPlace
from strata.streams.opening import Opening, open_at
from strata.streams.positions import Edge, parse_bound
from strata.streams.prepared import PreparedAlong
from strata.streams.rendering import Rendering, heartbeat_line
from strata.streams.seam import LiveServer, Seam
from strata.streams.versions import StreamVersions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    import sqlalchemy as sa

    from strata.events.changes.port import Item
    from strata.events.model import TransactionRecord
    from strata.schema.model.definition import TableName
    from strata.streams.events import Event
    from strata.streams.positions import Bound
    from strata.wire.connection import ServerAddress

HEARTBEAT_SECONDS: Final = 1.0
_PASSABLE: Final = (StatementFormatError, StreamHoleError, UndecodableTextError)
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


class ChangeStream:
    """One reader's way along a source. It can be read once, in one of its forms, by one thread at a time."""

    def __init__(
        self,
        source: StreamedSource,
        start: Bound | str = Edge.NOW,
        *,
        until: Bound | str | None = None,
        follow: bool = False,
        tables: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        """Nothing is opened yet.

        Args:
            source: The source.
            start: Where to begin: behind a token, a GTID set or a file and offset, at the first transaction at or after
                a time, `now` or the `beginning`.
            until: Where to end; a time is exclusive. What the server has executed at the start is the end, too, if
                `follow` does not say otherwise.
            follow: Whether to wait for what comes; for ever, if `until` does not say otherwise.
            tables: Patterns of `database.table`; none for all.
            columns: Names of the columns that are wanted; None for all.
            heartbeat_seconds: After so long without anything the position is given.
        """
        self._source, self._follow, self._heartbeat = source, follow, heartbeat_seconds
        self._start = parse_bound(start, source.name, source.lineage) if isinstance(start, str) else start
        self._until = parse_bound(until, source.name, source.lineage) if isinstance(until, str) else until
        self._patterns, self._columns = tuple(tables), columns
        self._closed = False
        self._server = LiveServer(source.address)
        self._executed = GtidSetBuilder()
        """Of the reader, up to the last transaction that was looked at."""
        self._at: FilePosition | None = None
        self._committed_at = 0
        self._ended = False
        self._asked = 0.0
        self._opening: Opening

    def close(self) -> None:
        """Ends the stream at the next moment at which nothing comes; may be called by another thread."""
        self._closed = True

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
        """The events as JSON lines in UTF-8, as many at once as there are. Raises as iterating does."""
        rendering = Rendering()
        for found in self.spans():
            lines = [heartbeat_line(found)] if isinstance(found, Heartbeat) else rendering.lines(found)
            yield b"".join(line + b"\n" for line in lines)

    def spans(self) -> Iterator[Span | Heartbeat]:
        """The stream in spans, whose rows are Arrow batches table by table. Raises as iterating does."""
        engine = open_store(self._source.store_url, OnMissing.EMPTY)
        try:
            yield from self._read(engine)
        except StrataError as error:
            raise error.located(source=self._source.name) from None
        finally:
            engine.dispose()

    # Opening --------------------------------------------------------------------------------------

    def _read(self, engine: sa.Engine) -> Iterator[Span | Heartbeat]:
        source, server = self._source, self._server
        landed = LandedStream.open(source.lake, source.name)
        self._opening = opening = open_at(landed, server, self._start, self._until, follow=self._follow)
        servers = landed.servers() or {server.state().uuid}
        own = own_database(engine, servers)
        versions = StreamVersions(engine, source.name, own)
        wanted = self._wanted(own, versions)
        after = opening.read_from(landed, versions.tracked_seq)
        decoding = Decoding(versions, PreparedAlong(landed, after), wanted)
        seam = Seam(source.name, source.lake, server, after_seq=after, follow=self._follow, stop=lambda: self._closed)
        yield from self._walk(seam, versions, decoding)

    def _wanted(self, own: frozenset[str], versions: StreamVersions) -> Wanted:
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
        return Wanted(is_wanted, lambda name: name not in left_out, columns, everything=not patterns)

    # Walking --------------------------------------------------------------------------------------

    def _walk(self, seam: Seam, versions: StreamVersions, decoding: Decoding) -> Iterator[Span | Heartbeat]:
        told = time.monotonic()
        for item in self._items(seam):
            versions.track(item)
            for span in self._of_item(item, decoding) if isinstance(item, Transactions) else ():
                if span:
                    yield span
                    told = time.monotonic()
            if time.monotonic() - told >= self._heartbeat:
                yield Heartbeat(self._token())
                told = time.monotonic()

    def _items(self, seam: Seam) -> Iterator[Item]:
        """Those of the source, up to the end."""
        began = False
        for item in seam.read():
            if not began:
                self._begin(seam)
                began = True
                if self._is_over():
                    return
            yield item
            if self._is_over() or (isinstance(item, Waiting) and self._is_past_time()):
                return

    def _of_item(self, item: Transactions, decoding: Decoding) -> Iterator[Span]:
        if item.batch.last_seq <= self._opening.skip_to and not item.batch.marks:
            self._pass_over(item)
            return
        places = self._due(item, decoding)
        begin = self._opening.begin
        given = {place.record.seq: steps for place in places if (steps := begin.steps_given(place.record))}
        if not places:
            return
        try:
            yield from decoding.read(item, places, given)
        except _PASSABLE as error:
            behind = next((place for place in places if place.gtid == error.gtid and error.gtid), None)
            if behind is not None and "--from" not in (error.remedy or ""):
                error.remedy = (
                    f"{error.remedy or ''} To leave it out, go on behind its transaction: `strata stream --source "
                    f"{self._source.name} --from {behind.after_text}`."
                ).strip()
            raise

    def _begin(self, seam: Seam) -> None:
        reached = seam.reached
        self._executed = GtidSetBuilder(reached.executed.build())
        for sid, spans in (self._opening.executed or GtidSet()).items():
            for span in spans:
                self._executed.add_span(sid, span)
        self._opening.stand_behind(self._executed.build())
        self._committed_at = reached.clock
        if self._server.by_file and reached.at is not None:
            self._at = FilePosition(reached.server_uuid, reached.at)
        self._seam = seam

    def _due(self, item: Transactions, decoding: Decoding) -> list[TransactionPlace]:
        """The transactions of an item that the reader is to have."""
        opening, places = self._opening, []
        goes_on = opening.ends_behind(item.batch.last_seq)
        for record in item.records():
            self._ended = not goes_on and opening.ends_in_front_of(record)
            if self._ended:
                break
            place = TransactionPlace(self._place(record), record, _count_statements(item, record))
            self._take(place)
            if record.seq > opening.skip_to and opening.begin.is_in_front_of(record):
                places.append(place)
            elif record.mark is not None:
                decoding.pass_over(item, record)
            self._ended = not goes_on and opening.takes_last(record)
            if self._ended:
                break
        return places

    def _pass_over(self, item: Transactions) -> None:
        batch = item.batch
        batch.add_to(self._executed)
        self._opening.stand_behind(self._executed.build())
        self._committed_at = int(batch.committed_at[-1])
        if self._at is not None:
            end = int(batch.positions[-1] + batch.ends[-1] - batch.begins[-1])
            self._at = FilePosition(self._at.server_uuid, BinlogPosition.of(batch.binlog_file, end))

    def _place(self, record: TransactionRecord) -> Place:
        source = self._source
        if self._server.by_file:
            uuid = self._at.server_uuid if self._at else self._seam.reached.server_uuid
            at = FilePosition(uuid, BinlogPosition.of(record.binlog_file, record.binlog_pos))
            return Place(source.name, at, source.lineage, record.committed_at)
        if record.gtid is None:
            raise SourceSettingsError(
                "the stream has a transaction without a GTID among others that have one",
                file=record.binlog_file,
                offset=record.binlog_pos,
                remedy="Set gtid_mode to ON for good, or to OFF; `strata doctor` shows how.",
            )
        return Place(source.name, self._executed.build(), source.lineage, record.committed_at)

    def _take(self, place: TransactionPlace) -> None:
        record = place.record
        if record.gtid is not None:
            self._executed.add(record.gtid)
        if isinstance(place.before.position, FilePosition):
            after = place.after.position
            self._at = after if isinstance(after, FilePosition) else None
        self._committed_at = record.committed_at

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

    def _token(self) -> str:
        source = self._source
        begun = self._begun()
        if self._server.by_file and self._at is not None:
            position = begun.position if begun is not None else self._at
            return to_text(Token((Place(source.name, position, source.lineage, self._committed_at),)))
        executed = self._executed.build()
        # What the reader has of a transaction that has not come yet.
        parts = tuple(part for part in (begun.parts if begun else ()) if not executed.contains(part.gtid))
        return to_text(Token((Place(source.name, executed, source.lineage, self._committed_at, parts),)))

    def _begun(self) -> Place | None:
        """The place where the stream begins, if that is inside of a transaction and nothing has been given yet."""
        start = self._start
        if not isinstance(start, Place):
            return None
        if isinstance(start.position, FilePosition):
            inside = start.position.steps and self._at is not None and self._at.at <= start.position.at
            return start if inside else None
        return start

    def _is_over(self) -> bool:
        """Whether nothing more is to be given."""
        if self._closed or self._ended:
            return True
        return self._opening.is_reached(self._seam.reached.seq, self._at.at if self._at else None)


def _count_statements(item: Transactions, record: TransactionRecord) -> int:
    return sum(1 for _ in item.statements(record)) if record.ddl_offsets else 0
