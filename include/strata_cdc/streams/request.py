"""What a reader requests of a stream: it is known before anything is opened, and does not change until the stream ends.
Not here: what it means for an open stream (`opening.py`), how far a reader has read (`progress.py`)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct, field

from strata_cdc.changes.limits import DecodeLimits
from strata_cdc.streams.live_handover import GATHER_SECONDS, HandoverOptions
from strata_cdc.streams.positions import Edge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.streams.positions import Bound, StreamStart

HEARTBEAT_SECONDS: Final = 1.0
DECODE_LIMITS: Final = DecodeLimits(first_bytes=1 << 20)
"""A reader gets the first rows soon after it begins to read."""


class StreamedSource(Protocol):
    """What a stream must know about a source; a source of the settings has all this."""

    @property
    def name(self) -> str:
        """Name of the source."""

    @property
    def address(self) -> ServerAddress:
        """Address of its server; raises if it has none."""

    @property
    def is_sink(self) -> bool:
        """Whether it is the folder of a TiCDC sink: then it has no server."""

    @property
    def lake(self) -> str:
        """Folder or URL of the lake in which it lands."""

    @property
    def store_url(self) -> str:
        """URL of the store that has its schema versions."""

    @property
    def lineage(self) -> str:
        """The name of its history, as tokens have it."""

    @property
    def copied_from(self) -> Mapping[str, str]:
        """Other sources whose transactions it has as copies, with their GTIDs; and the lineages of these sources."""


class StreamRequest(Struct, frozen=True):
    """What a reader requests."""

    source: StreamedSource
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
