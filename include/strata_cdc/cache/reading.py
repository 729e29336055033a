"""A stream read for a cache: transaction by transaction what each touches, with the shapes as they can be served then.
Not here: what a row touches (`touched.py`), what becomes of it (`invalidator.py`, `inspector.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.cache.touched import TouchedEntries, Toucher
from strata_cdc.streams.events import Commit, Ddl, Heartbeat, RowChange, UnreadableChange

if TYPE_CHECKING:
    from strata_cdc.cache.serving import Serving
    from strata_cdc.cache.shapes import Shapes
    from strata_cdc.streams.events import Event
    from strata_cdc.streams.stream import ChangeStream


class CacheStream:
    """One reader's way along a stream."""

    def __init__(self, shapes: Shapes, serving: Serving, stream: ChangeStream) -> None:
        """Nothing has been read."""
        self._serving, self._stream = serving, stream
        self._toucher, self._touched = Toucher(shapes), TouchedEntries()
        self.words: dict[str, str] | None = None
        """Of the shapes, since it was last set to None."""

    def consume(self, event: Event) -> TouchedEntries | None:
        """Takes the next event; at the end of a transaction it gives what the whole of it touches."""
        if not self._toucher.kinds and not (isinstance(event, Heartbeat) and self._stream.tracked_from() is not None):
            self._look(event)
        if isinstance(event, Commit):
            touched, self._touched = self._touched, TouchedEntries()
            return touched
        if isinstance(event, RowChange):
            self._toucher.row(event, self._touched)
        elif isinstance(event, UnreadableChange):
            self._toucher.unreadable(event, self._touched)
        elif isinstance(event, Ddl) and self._toucher.ddl(event, self._touched):
            self._serving.note(event)
            self._look(event)
        return None

    def look_at_end(self, tracked: ChangeStream) -> None:
        """Looks at the tables of all that was read, unless that has been done; `tracked` knows them."""
        if not self._toucher.kinds:
            self.words = self._serving.look(self._toucher, tracked, None)

    def _look(self, event: Event) -> None:
        seq = None if isinstance(event, Heartbeat) else event.transaction.record.seq
        self.words = self._serving.look(self._toucher, self._stream, seq)
