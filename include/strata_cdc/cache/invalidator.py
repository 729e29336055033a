"""The invalidator: follows an update stream, deletes entries whose rows have changed, and keeps its checkpoint in the
cache, in one step with the deletion.
Not here: what a change touches (`touched.py`), the scripts (`server.py`)."""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.cache.live_tables import require_tables
from strata_cdc.cache.reading import CacheStream
from strata_cdc.cache.server import CacheServer, set_text
from strata_cdc.cache.serving import Serving
from strata_cdc.cache.touched import InvalidationBatch
from strata_cdc.errors import CacheRefusedError, SourceDivergedError, SourceSettingsError, StrataError, Transient, Usage
from strata_cdc.position.executed import NOTHING, is_executed, parse_executed
from strata_cdc.position.token_text import from_text
from strata_cdc.streams.events import Heartbeat
from strata_cdc.streams.live_handover import LiveServer
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.stream import ChangeStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from strata_cdc.cache.server import CacheState
    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.config.settings import Source
    from strata_cdc.position.port import Executed
    from strata_cdc.position.sets import Gtid
    from strata_cdc.position.source_position import SourcePosition
    from strata_cdc.position.token import Token
    from strata_cdc.streams.events import Event
    from strata_cdc.streams.positions import Bound

MARK_MILLISECONDS: Final = 60_000
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
_STEADY_SECONDS: Final = 30.0
"""After so long without a fault, pauses are short again."""
_NO_TABLE: Final = "mysql.*"
"""Streams exclude them by default: of them only the DDL is needed, and no rows."""
_MOST_TRIES: Final = 100
"""Of a batch, while another invalidator advances the same checkpoint."""


class Report(Struct):
    """What an invalidator has done."""

    transactions: int = 0
    entries: int = 0
    """Keys that changes have touched, cached or not."""
    dropped: int = 0
    kept: int = 0
    shapes: int = 0
    """Invalidations of whole shapes."""
    epochs: int = 0
    """How often all that the cache had was dropped at once."""


class Start(Enum):
    """Where an invalidator begins."""

    CHECKPOINT = auto()
    """The cache's checkpoint, if the cache has one."""
    EPOCH = auto()
    """At now: nothing that the cache holds counts any more."""
    FORGOTTEN = auto()
    """The same, and the cache forgets what it knew of a history that is no more: transactions that were lost when
    another server took over, another lineage, another source."""


class _CacheChangedError(Exception):
    """The cache has changed under the invalidator: it has to find its position again."""


class Invalidator:
    """One invalidator. Several may serve the same cache: each does all of the work."""

    def __init__(
        self,
        source: Source,
        cache: CacheServer,
        shapes: Shapes,
        *,
        log: int = 0,
        heartbeat_seconds: float = 0.2,
        on_acknowledged: Callable[[Executed], None] = lambda _: None,
        on_remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            source: Where the changes come from.
            cache: Where they make entries go.
            shapes: What is cached.
            log: How many records the cache's log keeps, for the inspector; 0 for none.
            heartbeat_seconds: How often the stream gives its position while nothing comes.
            on_acknowledged: Called with what has been invalidated, after each step.
            on_remark: Called with a sentence that an operator needs: a shape that is not served, a new epoch.

        Raises:
            Usage: The shapes are of another source.
        """
        if (shapes.source, shapes.lineage) != (source.name, source.lineage):
            raise Usage(
                f"the shapes are of {shapes.source} with lineage {shapes.lineage!r}, and the source is {source.name} "
                f"with lineage {source.lineage!r}",
                source=source.name,
            )
        self._source, self._cache, self._shapes, self._log = source, cache, shapes, log
        self._heartbeat_seconds = heartbeat_seconds
        self._on_acknowledged, self._on_remark = on_acknowledged, on_remark
        self._columns = shapes.columns or None
        self._serving = Serving(source, shapes, on_remark)
        self.report = Report()
        self._acknowledged = NOTHING
        self._checkpoint = NOTHING
        self._target: Executed | None = None
        """What has to be invalidated before the cache is read again, since it moved to another server."""
        self._words: dict[str, str] | None = None
        """Of the shapes, if they are to be sent to the cache; '' for those that are not served."""
        self._stream: ChangeStream | None = None
        self._reached: Executed | None = None
        """Of the stream, what is in the cache."""
        self._stopped = threading.Event()
        self._has_tables = False

    def stop(self) -> None:
        """Ends it at the next moment at which nothing comes; may be called by another thread."""
        self._stopped.set()
        if self._stream is not None:
            self._stream.close()

    def run(self, *, follow: bool = True, begin: Start = Start.CHECKPOINT, back: timedelta | None = None) -> Report:
        """Continues from the cache's checkpoint, or begins an epoch if there is none.

        Args:
            follow: Whether to continue with new changes; otherwise up to what the server had executed at the start.
            begin: Whether to begin an epoch in any case.
            back: Continues from so long ago, if that is before the checkpoint; what has been invalidated since is so
                again.

        Raises:
            CacheUnavailableError: The cache does not answer. Run it again: it continues where it was.
            CacheRefusedError: It is of another source, or another invalidator with other shapes has taken it.
            SourceDivergedError: The server lacks what has been invalidated: it has not received it yet, or has lost it.
            Usage: A table of the shapes is not there, or is not a table.
            StrataError: The stream cannot be had, not even from now on.
        """
        self._require_tables()
        checkpoint = self._take_over(begin)
        start = self._earlier(back, checkpoint) if back is not None and begin is Start.CHECKPOINT else checkpoint
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopped.is_set():
            began = time.monotonic()
            again = self._followed(start, begin, follow=follow)
            if again is None:
                break
            begin = again
            pause = _FIRST_PAUSE_SECONDS if time.monotonic() - began > _STEADY_SECONDS else pause
            start = self._take_over(begin)
            # After taking it over: after a fault nothing is read from the cache until the stream continues.
            self._stopped.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return self.report

    def _followed(self, start: Bound, begun: Start, *, follow: bool) -> Start | None:
        """Follows the stream to its end; else how to take the cache over before it is tried again."""
        before = self.report.transactions
        try:
            self._follow(start, follow=follow)
        except _CacheChangedError:
            return Start.CHECKPOINT
        except (Transient, CacheRefusedError, SourceDivergedError):
            raise
        except StrataError as error:
            is_passable = self._stream is not None and self._stream.stopped_at is not None
            if begun is not Start.CHECKPOINT and self.report.transactions == before and not is_passable:
                raise
            # Anything may have been changed by what the stream does not have.
            self._on_remark(f"the cache begins anew, as the stream cannot continue: {error}")
            return Start.EPOCH
        return None

    def _require_tables(self) -> None:
        """At the first start: a table that goes later closes its shapes, and may come again."""
        if not self._has_tables:
            require_tables(self._source, self._shapes)
            self._has_tables = True

    # Taking a cache over --------------------------------------------------------------------------

    def _executed(self) -> Executed:
        state = LiveServer(self._source.address).state()
        if not state.numbers_all:
            raise SourceSettingsError(
                "a cache needs GTIDs, and the server does not number all transactions",
                source=self._source.name,
                remedy="Set gtid_mode to ON; `strata doctor` shows how.",
            )
        return state.executed

    def _take_over(self, begin: Start) -> Executed:
        """The position to continue from."""
        executed = self._executed()
        state = self._cache.look()
        if state is None or begin is Start.FORGOTTEN:
            return self._begin(executed, state, executed | self._acknowledged)
        if state.history != self._shapes.history:
            raise CacheRefusedError(
                f"the cache is of {state.history}, not of {self._shapes.history}",
                source=self._source.name,
                remedy="Give it another name, or begin anew with `strata cache follow --anew`.",
            )
        if begin is Start.EPOCH or not state.is_current:
            return self._begin(executed, state, executed | self._acknowledged | state.checkpoint)
        self._cache.run("claim", arguments=[self._shapes.digest, self._log])
        self._checkpoint, self._words = state.checkpoint, None
        self._target = None if state.is_here else executed | self._acknowledged
        if self._target is not None:
            self._on_remark("the cache is another server now, or was started again: catching up before it is read")
        return state.checkpoint

    def _begin(self, executed: Executed, state: CacheState | None, checkpoint: Executed) -> Executed:
        """Begins an epoch. It holds nothing, so all of any set has been invalidated in it; the set has to hold all that
        has been acknowledged before, so that nothing older is filled in."""
        expected = "" if state is None else str(state.checkpoint)
        arguments = [expected, self._shapes.history, secrets.token_hex(8), set_text(checkpoint)]
        [status] = self._cache.run("begin", arguments=[*arguments, self._shapes.digest, self._log])
        if status != b"done":
            return self._take_over(Start.CHECKPOINT)
        self.report.epochs += 1
        self._checkpoint, self._target, self._words = checkpoint, None, None
        self._on_remark(f"the cache begins an epoch at {checkpoint or 'the beginning'}")
        return executed

    def _earlier(self, back: timedelta, start: Executed) -> Bound:
        """A time, if the stream from there leaves nothing out that the cache does not have."""
        time = datetime.fromtimestamp(LiveServer(self._source.address).state().now / 1e6, UTC) - back
        for event in ChangeStream(
            self._source, time, tables=self._shapes.patterns, heartbeat_seconds=self._heartbeat_seconds
        ):
            return time if _position(event)[0] <= self._checkpoint else start
        return start

    # Following ------------------------------------------------------------------------------------

    def _follow(self, start: Bound, *, follow: bool) -> None:
        self._stream = None
        self._stream = stream = ChangeStream(
            self._source,
            start,
            follow=follow,
            tables=self._shapes.patterns,
            columns=self._columns,
            heartbeat_seconds=self._heartbeat_seconds,
        )
        if self._stopped.is_set():
            return
        self._reached = start if is_executed(start) else None
        reading, rendering = CacheStream(self._shapes, self._serving, stream), Rendering()
        for span in stream.spans():
            events = [span] if isinstance(span, Heartbeat) else rendering.events(span)
            self._take(reading, events)
        if not follow and not self._stopped.is_set():
            self._finish(reading, stream)

    def _take(self, reading: CacheStream, events: Iterable[Event]) -> None:
        """What has come at once goes to the cache at once, in steps of a bounded size."""
        batch = self._batch()
        for event in events:
            touched = reading.consume(event)
            self._note_words(reading)
            if isinstance(event, Heartbeat):
                batch.stand_at(*_position(event))
            elif touched is not None:
                batch.add(*_position(event), _gtid(event), touched)
            if batch.is_full:
                self._apply(batch)
                batch = self._batch()
        self._apply(batch)

    def _batch(self) -> InvalidationBatch:
        return InvalidationBatch(self._cache.state_key, self._reached)

    def _note_words(self, reading: CacheStream) -> None:
        if reading.words is not None:
            self._words, reading.words = reading.words, None

    def _finish(self, reading: CacheStream, stream: ChangeStream) -> None:
        """The end of what was requested: nothing after the last change touches anything."""
        reached = stream.position()
        if reached is None or self._reached is None:
            return
        reading.look_at_end(self._tracked(stream, reached))
        self._note_words(reading)
        batch = self._batch()
        batch.stand_at(self._reached, reached)
        self._apply(batch)

    def _tracked(self, stream: ChangeStream, reached: Executed) -> ChangeStream:
        """A stream that knows the tables after a set, which another one has not had to read for."""
        begin = stream.tracked_from()
        if begin is None:
            return stream
        change_stream = ChangeStream(self._source, begin, until=reached, tables=[_NO_TABLE])
        for _ in change_stream.spans():
            pass
        return change_stream

    # One step -------------------------------------------------------------------------------------

    def _apply(self, batch: InvalidationBatch) -> None:
        if batch.before is None or batch.after is None:
            return
        entries = list(batch.entries())
        for _ in range(_MOST_TRIES):
            if not batch.before <= self._checkpoint:
                # Another server with an older state, or another invalidator's epoch: what lies between is not done.
                raise _CacheChangedError
            after = self._checkpoint | batch.after
            words = self._words if self._words and self._checkpoint <= batch.after else {}
            if self._is_done(batch, entries, after, words):
                self._reached = batch.after
                return
        raise CacheRefusedError(
            "the checkpoint of the cache changes faster than it can be compared", remedy="Run one invalidator."
        )

    def _is_done(
        self, batch: InvalidationBatch, entries: list[tuple[str, str]], after: Executed, words: dict[str, str]
    ) -> bool:
        """Whether the cache has taken it; else the checkpoint is another, and it has to be tried again.

        Whatever the checkpoint is, what is in it has been invalidated; so has what is in the batch, once it is taken;
        so has their union. That makes the loop right with any number of invalidators at any positions.
        """
        adopts = self._target is not None and self._target <= after
        arguments: list[str | int] = [str(self._checkpoint), set_text(after), self._shapes.digest, int(adopts)]
        arguments += [MARK_MILLISECONDS, len(batch.whole), *sorted(batch.whole), len(words)]
        arguments += [word for pair in sorted(words.items()) for word in pair]
        answer = self._cache.run(
            "invalidate", [key for key, _ in entries], [*arguments, *(gtids for _, gtids in entries)]
        )
        status = answer[0].decode()
        if status == "overtaken":
            self._checkpoint = parse_executed(answer[1].decode())
            return False
        if status == "lost":
            raise _CacheChangedError
        if status == "owned":
            raise CacheRefusedError(
                "another invalidator with other shapes has taken the cache",
                source=self._source.name,
                remedy="Run all invalidators of a cache with the same file of shapes.",
            )
        self._checkpoint = after
        if words:
            self._words = None
        self._count(batch, len(entries), answer[2], answer[3])
        if answer[1]:
            self._target = None
            self._acknowledged |= after
            self._on_acknowledged(after)
        elif self._target is None:
            raise _CacheChangedError
        return True

    def _count(self, batch: InvalidationBatch, entries: int, dropped: int, kept: int) -> None:
        report = self.report
        report.transactions += batch.transactions
        report.entries += entries
        report.dropped += dropped
        report.kept += kept
        report.shapes += len(batch.whole)


def _gtid(event: Event) -> Gtid:
    gtid = None if isinstance(event, Heartbeat) else event.transaction.record.gtid
    if gtid is None:
        raise SourceSettingsError("a cache needs GTIDs, and a transaction has none")
    return gtid


def _position(event: Event) -> tuple[Executed, Executed]:
    """What has been executed before an event's transaction, and after it."""
    if isinstance(event, Heartbeat):
        position: SourcePosition = _only(from_text(event.token))
        executed = position.position if is_executed(position.position) else NOTHING
        return executed, executed
    before, after = event.transaction.before.position, event.transaction.after.position
    if not is_executed(before) or not is_executed(after):
        raise SourceSettingsError("a cache needs GTIDs, and the stream has none")
    return before, after


def _only(token: Token) -> SourcePosition:
    [position] = token.positions
    return position
