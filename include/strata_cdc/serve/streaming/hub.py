"""One decode of a source's stream for all readers that have caught up: a thread decodes everything, the event loop
keeps the last of it, and what one kind of reader wants is written once.
Not here: a reader's way (`reader.py`), which spans are kept (`streams/recent.py`)."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from strata_cdc.errors import StrataError, UnforeseenError
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.recent import RecentSpans, SpanCursor
from strata_cdc.streams.stream import ChangeStream
from strata_cdc.streams.writing import Writing
from strata_cdc.unforeseen import what_happened

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Sequence

    from strata_cdc.config.settings import Source
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.serve.limits import Limits
    from strata_cdc.serve.streaming.wishes import Wish
    from strata_cdc.streams.decoding import StreamBatch
    from strata_cdc.streams.recent import RecentPart
    from strata_cdc.streams.writing import Messages

_LINES_BYTES: Final = 2000
"""About what the lines of one span take besides their bytes."""
_AHEAD: Final = 4
"""Spans that are decoded, and that the event loop has not taken yet."""
_AT_ONCE: Final = 64
"""Spans that are written in one go; each is small where there are several."""
_LOOK_SECONDS: Final = 1.0
"""So often the thread looks whether the event loop is there while nothing comes, or nobody takes what has come."""
_GATHER_SECONDS: Final = 0.02
"""What comes within so long comes together. Each span is decoded, kept, written and sent by threads that take turns."""
_LOG: Final = logging.getLogger("strata.serve")


def as_fault(error: Exception, source: str) -> StrataError:
    """What ended a stream, as its readers get it. The log has the rest of what was not foreseen: its text may have
    values that a reader must not see."""
    if isinstance(error, StrataError):
        return error
    _LOG.error("the stream of %s ended", source, exc_info=error)
    return UnforeseenError(
        what_happened(error), source=source, remedy="Come again with the last token; the server's log says more."
    )


class Hub:
    """The shared stream of one source. All but the decoding is done by the event loop."""

    def __init__(self, source: Source, start: SourcePosition, limits: Limits) -> None:
        """Begins to decode after a position."""
        self._limits, self._source = limits, source.name
        self.failed: StrataError | None = None
        """Why it has ended, if it has."""
        self.recent = RecentSpans(start, limits.recent_bytes)
        self._stream = ChangeStream(
            source, start, follow=True, heartbeat_seconds=_LOOK_SECONDS, gather_seconds=_GATHER_SECONDS
        )
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._readers: Counter[Wish] = Counter()
        self._views: dict[Wish, _View] = {}
        self._free = threading.BoundedSemaphore(_AHEAD)
        self._stopped = False
        threading.Thread(target=self._decode, name=f"stream of {source.name}", daemon=True).start()

    # The thread -----------------------------------------------------------------------------------

    def _decode(self) -> None:
        failed = None
        try:
            self._give_spans()
        except Exception as error:  # noqa: BLE001  whatever it is, readers must not wait for what never comes
            failed = as_fault(error, self._source)
        # A loop that is closed takes nothing any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end, failed)

    def _give_spans(self) -> None:
        for span in self._stream.spans():
            while not isinstance(span, Heartbeat) and not self._free.acquire(timeout=_LOOK_SECONDS):
                if self._loop.is_closed():
                    return
            # A loop that is closed while this lingers stops nothing any more.
            if self._loop.is_closed():
                return
            if not isinstance(span, Heartbeat):
                self._loop.call_soon_threadsafe(self._take, span)

    # The event loop -------------------------------------------------------------------------------

    def _take(self, span: StreamBatch) -> None:
        self._free.release()
        self.recent.append(span)
        self._wake()

    def _end(self, error: StrataError | None) -> None:
        self.failed, self._stopped = error, True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._stopped

    def enter(self, wish: Wish) -> None:
        """One reader more."""
        self._readers[wish] += 1

    def leave(self, wish: Wish) -> None:
        """One reader less; without any it ends after a while."""
        self._readers[wish] -= 1
        if not self._readers[wish]:
            del self._readers[wish]
            self._views.pop(wish, None)
        if not self._readers:
            self._loop.call_later(self._limits.linger_seconds, self._stop_if_left)

    def _stop_if_left(self) -> None:
        if not self._readers:
            self.stop()

    def stop(self) -> None:
        """Ends the decoding, within half a second."""
        self._stopped = True
        self._stream.close()
        self._wake()

    async def wait(self, number: int, seconds: float) -> bool:
        """Waits until there is a span of a number, or nothing more comes; returns whether that is so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.recent.next <= number and not self._stopped:
                    await self._changed.wait()
        return self.recent.next > number or self._stopped

    async def messages(self, wish: Wish, cursor: SpanCursor) -> Messages:
        """What a reader gets of a span; written once for all that want the same."""
        view = self._views.get(wish)
        if view is None:
            view = self._views[wish] = _View(wish, folded=self._stream.folds_names)
        return await view.messages(self.recent, cursor, self._limits.written_bytes // len(self._views))


class _View:
    """What readers with one wish get, as bytes."""

    def __init__(self, wish: Wish, *, folded: bool) -> None:
        self._selection = wish.selection(folded=folded)
        self._writing = Writing()
        self._lock = asyncio.Lock()
        self._written: OrderedDict[SpanCursor, Messages] = OrderedDict()
        self._size = 0

    async def messages(self, recent: RecentSpans, cursor: SpanCursor, most_bytes: int) -> Messages:
        messages = self._written.get(cursor)
        if messages is not None:
            return messages
        async with self._lock:
            messages = self._written.get(cursor)
            if messages is None:
                wanted = self._wanted(recent, cursor, most_bytes)
                written = await asyncio.to_thread(self._write, wanted)
                for (number, _), made in zip(wanted, written, strict=True):
                    self._keep(number, made, most_bytes)
                messages = written[0]
        return messages

    def _wanted(self, recent: RecentSpans, cursor: SpanCursor, most_bytes: int) -> list[tuple[SpanCursor, RecentPart]]:
        """A span and those after it that are to be written, too: a thread for each of many small ones would take longer
        than writing them. As many as can be kept beside what is there."""
        parts, size = [(cursor, recent[cursor.number])], 0
        for number in range(cursor.number + 1, min(cursor.number + _AT_ONCE, recent.next)):
            size += recent[number].size
            if size > most_bytes // 2:
                break
            if SpanCursor(number) not in self._written:
                parts.append((SpanCursor(number), recent[number]))
        return parts

    def _write(self, spans: Sequence[tuple[SpanCursor, RecentPart]]) -> list[Messages]:
        return [self._writing.messages(self._selection.select(part, at.first_seq)) for at, part in spans]

    def _keep(self, cursor: SpanCursor, messages: Messages, most_bytes: int) -> None:
        self._written[cursor] = messages
        self._size += len(messages.data) + _LINES_BYTES
        while self._size > most_bytes and len(self._written) > 1:
            self._size -= len(self._written.popitem(last=False)[1].data) + _LINES_BYTES
