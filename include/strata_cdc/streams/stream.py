"""An update stream: the changes of one source from a position on, in order, each with its token. It is available as
events, lines or Arrow batches, with `for` and `async for`.
Not here: reading (`opened.py`), the command (`cli/stream.py`)."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from strata_cdc.errors import StrataError, UnknownSourceError
from strata_cdc.position.executed import NOTHING
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.schema.model.patterns import require_matchable
from strata_cdc.store.database import OnMissing, open_store
from strata_cdc.streams.binlog_stream import open_stream
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.live_handover import GATHER_SECONDS
from strata_cdc.streams.positions import Edge, parse_bound
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.request import DECODE_LIMITS, HEARTBEAT_SECONDS, StreamRequest
from strata_cdc.streams.sink_stream import open_sink_stream
from strata_cdc.streams.writing import Writing, heartbeat_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from strata_cdc.changes.limits import DecodeLimits
    from strata_cdc.config.settings import Source
    from strata_cdc.position.port import Executed
    from strata_cdc.schema.model.definition import TableDefinition, TableName
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.events import Event, StreamTransaction
    from strata_cdc.streams.opened import OpenedStream
    from strata_cdc.streams.positions import Bound, StreamStart


class ChangeStream:
    """A stream that one reader reads from a source. It can be read once, in one of its forms, by one thread at a
    time."""

    def __init__(  # noqa: PLR0913  what a reader may request
        self,
        source: Source,
        start: StreamStart | str = Edge.NOW,
        *,
        until: Bound | str | None = None,
        follow: bool = False,
        tables: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        copied_from: Mapping[str, str] | None = None,
        limits: DecodeLimits = DECODE_LIMITS,
        gather_seconds: float = GATHER_SECONDS,
        has_answered: bool = False,
        permit: AbstractContextManager[object] | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            source: The source.
            start: Where to begin: after a token, a GTID set, a file and offset, or a commit timestamp; at the first
                transaction at or after a time; at `now` or the `beginning`; or at a position that the server reported
                earlier as its `now`.
            until: Where to end; a time is exclusive. Without `follow`, the stream also ends with what the server had
                executed at the start.
            follow: Whether to wait for new changes; without `until`, the stream never ends.
            tables: Patterns of `database.table`; empty for all tables.
            columns: Names of the wanted columns; None for all.
            heartbeat_seconds: If nothing comes for this time, a heartbeat with the position is yielded.
            copied_from: Other sources whose transactions the source has as copies, with their GTIDs; and the lineages
                of these sources; None: as in `source`.
            limits: How much is decoded before its rows are yielded.
            gather_seconds: What the live server commits within this time comes together.
            has_answered: Whether the server is known to answer; otherwise the first attempt to connect must succeed.
            permit: Entered while something is decoded; several streams may share it.

        Raises:
            Usage: A position is not valid, or is of another source or lineage, or a pattern can match no table.
        """
        require_matchable(tables)
        parsed = partial(parse_bound, source=source.name, lineage=source.lineage, is_sink=source.is_sink)
        self._request = StreamRequest(
            source,
            parsed(start) if isinstance(start, str) else start,
            parsed(until) if isinstance(until, str) else until,
            follow=follow,
            tables=tuple(tables),
            columns=None if columns is None else frozenset(name.lower() for name in columns),
            heartbeat_seconds=heartbeat_seconds,
            copied_from=source.copied_from if copied_from is None else copied_from,
            limits=limits,
            gather_seconds=gather_seconds,
            has_answered=has_answered,
            permit=nullcontext() if permit is None else permit,
        )
        self._closed = threading.Event()
        self._opened: OpenedStream | None = None
        """Set once the source has yielded its first item."""

    def close(self) -> None:
        """Ends the stream as soon as nothing comes; another thread may call this."""
        self._closed.set()

    def reached(self) -> str | None:
        """Returns the token of everything that has been read; None before the first transaction that the stream looks
        at."""
        return None if self._opened is None else to_text(Token((self._opened.source.position,)))

    def __iter__(self) -> Iterator[Event]:
        """Yields the events, one by one.

        Raises:
            SchemaGapError: The schema of a wanted table is not known.
            BinlogPurgedError: The position is no longer available; the message has the earliest position that is.
            StrataError: Another error; everything before it has been yielded.
        """
        rendering = Rendering()
        for span in self.spans():
            if isinstance(span, Heartbeat):
                yield span
            else:
                yield from rendering.events(span)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yields the same events for `async for`; the work is done in another thread, a span at a time."""
        rendering, spans = Rendering(), self.spans()
        try:
            while (span := await asyncio.to_thread(next, spans, None)) is not None:
                if isinstance(span, Heartbeat):
                    yield span
                else:
                    for event in await asyncio.to_thread(list, rendering.events(span)):
                        yield event
        finally:
            self.close()

    def written(self) -> Iterator[bytes]:
        """Yields the events as JSON lines in UTF-8, several whole lines at a time. Raises the same errors as
        iterating."""
        writing = Writing()
        for span in self.spans():
            if isinstance(span, Heartbeat):
                yield heartbeat_line(span.token) + b"\n"
            else:
                yield from writing.chunks(span)

    def spans(self) -> Generator[StreamBatch | Heartbeat, None, None]:
        """Yields the stream in spans, whose rows are Arrow batches, table by table. Raises the same errors as
        iterating."""
        source = self._request.source
        engine = open_store(source.store_url, OnMissing.EMPTY)
        try:
            open_source = open_sink_stream if source.is_sink else open_stream
            self._opened = open_source(self._request, engine, self._closed.is_set)
            if self._opened is not None:
                yield from self._opened.read_batches()
        except StrataError as error:
            raise error.located(source=source.name) from None
        finally:
            if self._opened is not None:
                self._opened.source.close()
            engine.dispose()

    @property
    def last_commit(self) -> int:
        """When the last transaction that was looked at was committed, by its server's clock (microseconds UTC); 0: not
        known. A clock that was set back is visible here, but not in positions."""
        return 0 if self._opened is None else self._opened.source.last_commit

    @property
    def stopped_at(self) -> StreamTransaction | None:
        """The transaction whose fault has ended the stream, if a reader can continue after it."""
        return None if self._opened is None else self._opened.stopped_at

    @property
    def folds_names(self) -> bool:
        """Whether the server ignores the case of names; known when something has been yielded."""
        return self._opened is not None and self._opened.source.folds_names

    @property
    def unreadable_rows(self) -> int:
        """How many of the yielded rows cannot be read."""
        return 0 if self._opened is None else self._opened.unreadable_rows

    def position(self) -> Executed | None:
        """Returns all transactions up to where the stream has been read; None before that, and for a stream by file and
        offset."""
        return None if self._opened is None else self._opened.source.executed

    def tracked_from(self) -> Executed | None:
        """Returns how far the source has been read and tracked; None once that has reached the stream's begin."""
        return NOTHING if self._opened is None else self._opened.source.tracked_from

    def definition(self, table: TableName, seq: int | None = None) -> TableDefinition:
        """Returns the definition of a table for the rows of a transaction that has been read; with `seq` None, of the
        last one, once `tracked_from` is None.

        Raises:
            SchemaGapError: The definition is not known.
            UnknownSourceError: Nothing has been read.
        """
        if self._opened is None:
            raise UnknownSourceError("nothing of the stream has been read", source=self._request.source.name)
        return self._opened.source.definition(table, seq)
