"""Readers of a group's sources: a thread for each source, and the inbox where what they have read waits for the merge.
Not here: which sources are read (`sources.py`), what becomes of what they read (`reading.py`).

A silent source proves by its position that nothing is missing. Its reader requests the server's time, and everything
that the server has executed. When the stream has all of this, everything before that time has been read. A time alone
proves nothing. Nor does MariaDB, whose next transaction may have an earlier time (`ServerMoment.proves_idleness`).
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import StrataError
from strata_cdc.position.executed import is_executed
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.decoding import StreamBatch
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.together import put_together

if TYPE_CHECKING:
    from collections.abc import Collection

    from strata_cdc.binlog.protocol.server_clocks import Server, ServerMoment
    from strata_cdc.groups.limits import GroupLimits
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.streams.stream import ChangeStream


class ReaderPosition(Struct, frozen=True):
    """A reader has reached a position; everything wanted before it has been sent."""

    position: SourcePosition


class Proof(Struct, frozen=True):
    """Everything that the server had executed at a time of its clock has been read."""

    moment: ServerMoment


class Unreachable(Struct, frozen=True):
    """The server does not answer; the reader tries again."""

    error: StrataError


class EndOfStream(Struct, frozen=True):
    """The stream has reached its end, or a fault."""

    position: SourcePosition | None
    error: StrataError | None
    last_commit: int = 0
    """As `ChangeStream.last_commit`."""


FromReader = StreamBatch | ReaderPosition | Proof | Unreachable | EndOfStream
"""What a reader sends."""


class Inbox:
    """What has been read, and the merge has not taken."""

    def __init__(self, limits: GroupLimits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._found: deque[tuple[str, FromReader]] = deque()
        self._waiting: Counter[str] = Counter()
        """Bytes of each source that have been put in since the last `go_on`."""
        self._paused: frozenset[str] = frozenset()
        self.is_closed = False

    def put(self, source: str, what: FromReader, size: int = 0) -> None:
        """Puts in something of `size` bytes; waits while the source is paused, or too much of it waits."""
        with self._changed:
            while not self.is_closed and (source in self._paused or self._is_much(source)):
                self._changed.wait()
            self._found.append((source, what))
            self._waiting[source] += max(size, self._limits.least_bytes)
            self._changed.notify_all()

    def _is_much(self, source: str) -> bool:
        return self._waiting[source] >= self._limits.waiting_bytes

    def receive(self, seconds: float) -> list[tuple[str, FromReader]]:
        """Takes everything that there is; waits for something, but not longer than `seconds`."""
        with self._changed:
            if not self._found:
                self._changed.wait(seconds)
            messages = list(self._found)
            self._found.clear()
            return messages

    def go_on(self, paused: Collection[str]) -> None:
        """Lets all sources continue, except the paused ones."""
        with self._changed:
            self._paused = frozenset(paused)
            self._waiting.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Wakes all threads that wait; none waits after this."""
        with self._changed:
            self.is_closed = True
            self._changed.notify_all()


class SourceReader(threading.Thread):
    """Reads one source to the end of its stream."""

    def __init__(self, source: str, stream: ChangeStream, server: Server | None, inbox: Inbox) -> None:
        """Begins with `start`. Without a server, nothing is proved: a stream of what has landed ends on its own."""
        super().__init__(name=f"strata-{source}", daemon=True)
        self.source = source
        self._stream, self._server, self._inbox = stream, server, inbox
        self._pending_moment: ServerMoment | None = None
        """What the server reported, and the stream has not reached yet."""

    def run(self) -> None:
        """Reads the stream to its end."""
        error = None
        try:
            for span in self._stream.spans():
                if self._inbox.is_closed:
                    return
                self._take(span)
        except StrataError as fault:
            error = fault
        finally:
            if self._server is not None:
                self._server.close()
        self._inbox.put(self.source, EndOfStream(self._reached(), error, self._stream.last_commit))

    def close(self) -> None:
        """Ends the stream soon."""
        self._stream.close()

    def _take(self, item: StreamBatch | Heartbeat) -> None:
        if not isinstance(item, Heartbeat):
            some = put_together(item)
            self._inbox.put(self.source, some, sum(batch.batch.nbytes for batch in some.batches))
            return
        self._inbox.put(self.source, ReaderPosition(item.position))
        try:
            proved = None if self._server is None else self._prove(item.position, self._server)
        except StrataError as error:
            self._inbox.put(self.source, Unreachable(error))
            return
        if proved is not None:
            self._inbox.put(self.source, Proof(proved))

    def _prove(self, position: SourcePosition, server: Server) -> ServerMoment | None:
        """Returns what is proved when the stream has reached a position."""
        before, self._pending_moment = self._pending_moment, None
        if before is not None and self._is_after(position, before):
            # This is the previous answer: on a server that never rests, the stream would never reach the newest answer.
            return before
        now = server.ask()
        if self._is_after(position, now):
            return now
        self._pending_moment = now
        return None

    def _is_after(self, position: SourcePosition, moment: ServerMoment) -> bool:
        return is_executed(position.position) and moment.executed <= position.position

    def _reached(self) -> SourcePosition | None:
        token = self._stream.reached()
        return None if token is None else from_text(token).positions[0]
