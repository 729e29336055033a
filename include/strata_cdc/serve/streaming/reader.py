"""One reader of a stream: alone until it has caught up, from there on with all others, and alone again if it is too
slow for them. What it has not read stays in the server's binlog and in what has landed.
Not here: the shared decode (`hub.py`), HTTP (`routes.py`)."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import AlreadyRunningError, StrataError
from strata_cdc.position.executed import is_executed
from strata_cdc.position.source_position import SourcePosition
from strata_cdc.position.token import Token
from strata_cdc.position.token_text import to_text
from strata_cdc.serve.streaming.hub import Hub, as_fault
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.live_handover import LiveServer
from strata_cdc.streams.positions import Edge, parse_bound
from strata_cdc.streams.recent import SpanCursor
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.streams.writing import NO_MESSAGES, Writing, heartbeat_line, message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strata_cdc.config.settings import Source
    from strata_cdc.serve.limits import Limits
    from strata_cdc.serve.streaming.wishes import Wish
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.positions import Bound
    from strata_cdc.streams.writing import Messages

MOST_ALONE: Final = 32
"""Readers of one source with a decode of their own; more wait for their turn."""
_OPENING: Final = 2
"""Streams that are opened at once: the others may have to open none."""
_ALONE_HEARTBEAT_SECONDS: Final = 0.5
_TURN_SECONDS: Final = 30.0
_HUB_PAUSE_SECONDS: Final = 30.0
"""After a fault that only some readers may have."""
_NEWLY_SECONDS: Final = 3.0
_NOW_SECONDS: Final = 2.0
_AT_ONCE_BYTES: Final = 64 << 10


class SharedSource:
    """The readers of one source, and the stream that they share."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.source, self._limits = source, limits
        self.opening = asyncio.Semaphore(_OPENING)
        self.alone = asyncio.Semaphore(MOST_ALONE)
        self._hub: Hub | None = None
        self._not_before = 0.0

    @property
    def hub(self) -> Hub | None:
        """The shared stream, if there is one."""
        if self._hub is not None and self._hub.is_over:
            if self._hub.failed is not None:
                self._not_before = time.monotonic() + _HUB_PAUSE_SECONDS
            self._hub = None
        return self._hub

    def begin(self, position: SourcePosition) -> None:
        """Begins to share at the position of a reader that has caught up, if nobody has yet."""
        if self.hub is None and not position.parts and time.monotonic() >= self._not_before:
            self._hub = Hub(self.source, position, self._limits)

    def find(self, position: SourcePosition | None) -> tuple[Hub, SpanCursor] | None:
        """Where a reader at a position continues among the others; None if it cannot."""
        hub = self.hub
        cursor = hub.recent.find(position) if hub is not None and position is not None else None
        return None if hub is None or cursor is None else (hub, cursor)

    def stop(self) -> None:
        """Ends the shared stream."""
        if self._hub is not None:
            self._hub.stop()


class _Alone:
    """A stream of a reader's own; one thread reads it."""

    def __init__(self, stream: ChangeStream, source: str) -> None:
        self._stream, self._spans, self._writing, self._source = stream, stream.spans(), Writing(), source
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reader")

    def step(self) -> asyncio.Future[tuple[StreamBatch | Heartbeat | None, Messages]]:
        """The next of the stream; None after its end."""
        return asyncio.get_running_loop().run_in_executor(self._thread, self._step)

    def _step(self) -> tuple[StreamBatch | Heartbeat | None, Messages]:
        try:
            span = next(self._spans, None)
            if span is None or isinstance(span, Heartbeat):
                return span, NO_MESSAGES
            return span, self._writing.messages(span)
        except StrataError:
            raise
        except Exception as error:
            raise as_fault(error, self._source) from error

    def close(self) -> None:
        """Frees all of it when the step that is being done is over, within half a second."""
        self._stream.close()
        self._thread.submit(self._spans.close)
        self._thread.shutdown(wait=False)


class HttpReader:
    """One reader. `open` reports errors before anything is sent."""

    def __init__(
        self, shared: SharedSource, start: Bound, wish: Wish, *, until: Bound | None, heartbeat_seconds: float
    ) -> None:
        """Nothing is opened yet.

        Args:
            start: Where to begin.
            wish: What to give.
            until: Where to end; None for never.
            heartbeat_seconds: After so long without a line there is a heartbeat.
        """
        self._shared, self._start, self._wish, self._until = shared, start, wish, until
        self._heartbeat = heartbeat_seconds
        if is_executed(start):
            start = self._start = SourcePosition(shared.source.name, start, shared.source.lineage)
        self._position = start if isinstance(start, SourcePosition) and not start.parts else None
        """After all that was given, and between two transactions; None if that is not known."""
        self._last = ""
        """Token of the last line that was given, or of what was skipped since."""
        self._last_sent_at = time.monotonic()
        self._joined: tuple[Hub, SpanCursor] | None = None
        self._alone: _Alone | None = None
        self._has_turn = False
        self._first: tuple[StreamBatch | Heartbeat | None, Messages] | None = None

    @property
    def is_endless(self) -> bool:
        """Whether it goes on until somebody ends it."""
        return self._until is None

    async def open(self) -> bool:
        """Opens the stream; returns whether there is anything to give: not so after its end.

        Raises:
            BinlogPurgedError: The position is nowhere any more.
            AlreadyRunningError: Too many readers have to catch up.
            StrataError: What else is wrong with it.
        """
        if await self._join_at_once():
            return True
        async with self._shared.opening:
            # Somebody may have begun to share meanwhile.
            if await self._join_at_once():
                return True
            alone = await self._go_alone(self._start if self._position is None else self._position)
            self._first = await alone.step()
        return self._first[0] is not None

    async def messages(self) -> AsyncIterator[bytes]:
        """Server-sent events, as they come.

        Raises:
            StrataError: Why there are no more.
        """
        while True:
            if self._joined is None:
                async for data in self._read_alone():
                    yield data
                if self._joined is None:
                    return
            async for data in self._read_shared(*self._joined):
                yield data
            self._joined = None
            source = self._shared.source
            await self._go_alone(parse_bound(self._last, source.name, source.lineage, is_sink=source.is_sink))

    def close(self) -> None:
        """Frees everything."""
        self._leave_alone()
        if self._joined is not None:
            self._joined[0].leave(self._wish)
            self._joined = None

    # Alone ----------------------------------------------------------------------------------------

    async def _go_alone(self, start: Bound) -> _Alone:
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await self._shared.alone.acquire()
        except TimeoutError:
            raise AlreadyRunningError(
                f"{MOST_ALONE} readers of the source are catching up",
                source=self._shared.source.name,
                remedy="Come back later: readers that have caught up are not counted.",
            ) from None
        self._has_turn = True
        self._alone = alone = _Alone(
            ChangeStream(
                self._shared.source,
                start,
                until=self._until,
                follow=True,
                tables=self._wish.tables,
                columns=self._wish.columns,
                heartbeat_seconds=_ALONE_HEARTBEAT_SECONDS,
            ),
            self._shared.source.name,
        )
        return alone

    def _leave_alone(self) -> None:
        if self._alone is not None:
            self._alone.close()
            self._alone = None
        if self._has_turn:
            self._shared.alone.release()
            self._has_turn = False

    async def _read_alone(self) -> AsyncIterator[bytes]:
        """Up to the end, or until it continues with the others."""
        try:
            while self._alone is not None:
                item, messages = self._first or await self._alone.step()
                self._first = None
                if item is None:
                    return
                self._pass(item, messages)
                if messages.data:
                    yield messages.data
                async for data in self._heartbeats():
                    yield data
                if await self._has_caught_up(item):
                    return
        finally:
            self._leave_alone()

    def _pass(self, item: StreamBatch | Heartbeat, messages: Messages) -> None:
        """Stores the position of a reader alone after a step."""
        if isinstance(item, Heartbeat):
            self._last = item.token
            self._position = None if item.position.parts else item.position
            return
        if messages.data:
            self._last, self._last_sent_at = messages.last, time.monotonic()
        ended = item.last
        self._position = ended.after if ended is not None and ended.record.seq >= messages.last_seq else None

    async def _has_caught_up(self, item: StreamBatch | Heartbeat) -> bool:
        """Whether it continues with the others; begins to share at its position if there is nobody yet."""
        position = self._position
        if self._until is not None or position is None:
            return False
        is_new = isinstance(item, Heartbeat) or time.time() - position.committed_at / 1e6 < _NEWLY_SECONDS
        if is_new:
            self._shared.begin(position)
        return self._join()

    # Shared ---------------------------------------------------------------------------------------

    async def _join_at_once(self) -> bool:
        """Continues with the others without a stream of its own."""
        if self._until is not None:
            return False
        if self._position is None and self._start is Edge.NOW:
            self._position = await self._now()
        return self._join()

    async def _now(self) -> SourcePosition | None:
        """Where the server is, if there are others that are there or will be."""
        shared = self._shared
        hub = shared.hub
        if hub is None or not is_executed(hub.recent.head.position):
            return None
        state = await asyncio.to_thread(LiveServer(shared.source.address).state)
        position = SourcePosition(shared.source.name, state.executed, shared.source.lineage)
        until = time.monotonic() + _NOW_SECONDS
        while shared.find(position) is None and not hub.is_over and time.monotonic() < until:
            await hub.wait(hub.recent.next, 0.1)
        return position

    def _join(self) -> bool:
        part = self._shared.find(self._position)
        if part is None:
            return False
        self._joined = part
        if not self._last and self._position is not None:
            self._last = to_text(Token((self._position,)))
        part[0].enter(self._wish)
        return True

    async def _read_shared(self, hub: Hub, cursor: SpanCursor) -> AsyncIterator[bytes]:
        """With the others, until the decode ends or has no more what comes next."""
        try:
            while not hub.is_over and cursor.number >= hub.recent.first:
                is_there = await hub.wait(cursor.number, self._seconds_left())
                async for data in self._heartbeats():
                    yield data
                if not is_there:
                    continue
                if not hub.recent.first <= cursor.number < hub.recent.next:
                    break
                data, cursor = await self._several(hub, cursor)
                if data:
                    yield data
        finally:
            if self._joined is not None:
                hub.leave(self._wish)
                self._joined = None

    async def _several(self, hub: Hub, cursor: SpanCursor) -> tuple[bytes, SpanCursor]:
        """What is there, as far as it is short: sending each of many small spans alone would take longer. And where the
        reader is then."""
        parts, size = list[bytes](), 0
        while hub.recent.first <= cursor.number < hub.recent.next and size < _AT_ONCE_BYTES:
            parts.append(await self._next_shared(hub, cursor))
            size += len(parts[-1])
            cursor = SpanCursor(cursor.number + 1)
        return b"".join(parts), cursor

    async def _next_shared(self, hub: Hub, cursor: SpanCursor) -> bytes:
        part = hub.recent[cursor.number]
        messages = await hub.messages(self._wish, cursor)
        inside = part.open_seq is not None and messages.last_seq == part.open_seq
        self._last = messages.last if inside else part.token or self._last
        if messages.data:
            self._last_sent_at = time.monotonic()
        return messages.data

    def _seconds_left(self) -> float:
        return max(0.0, self._last_sent_at + self._heartbeat - time.monotonic())

    async def _heartbeats(self) -> AsyncIterator[bytes]:
        """One, if it is time for it."""
        if self._seconds_left() <= 0 and self._last:
            self._last_sent_at = time.monotonic()
            yield message(self._last, heartbeat_line(self._last))
