"""What a reader requests of a stream: it is known before anything is opened, and does not change until the stream ends.
Not here: what it means for an open stream (`opening.py`), how far a reader has read (`progress.py`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.streams.live_handover import GATHER_SECONDS, HandoverOptions
from strata_cdc.streams.positions import Edge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from strata_cdc.config.settings import Source
    from strata_cdc.streams.positions import Bound, StreamStart

HEARTBEAT_SECONDS: Final = 1.0
DECODE_LIMITS: Final = DecodeLimits(first_bytes=1 << 20)
"""A reader gets the first rows soon after it begins to read."""


class StreamRequest(Struct, frozen=True):
    """What a reader requests."""

    source: Source
    start: StreamStart = Edge.NOW
    until: Bound | None = None
    """None: the end is what the server has executed at the start; with `follow`, the stream never ends."""
    follow: bool = False
    """Whether to wait for new changes."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`; empty for all tables."""
    columns: frozenset[str] | None = None
    """Names in lower case; None for all columns."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    copied_from: Mapping[str, str] = {}
    """Other sources whose transactions it has as copies, with their GTIDs; and the lineages of these sources."""
    limits: DecodeLimits = DECODE_LIMITS
    gather_seconds: float = GATHER_SECONDS
    """As in `HandoverOptions`."""
    has_answered: bool = False
    """As in `HandoverOptions`."""
    permit: AbstractContextManager[object] = field(default_factory=nullcontext)
    """As `Decoding` takes it."""

    @property
    def handover(self) -> HandoverOptions:
        """How the source is read."""
        source = self.source
        return HandoverOptions(source.lake, source.address, self.follow, self.gather_seconds, self.has_answered)
