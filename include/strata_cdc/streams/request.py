"""What a reader asks of a stream: known before anything is opened, and the same to its end.
Not here: what it means for a stream that is there (`opening.py`), how far a reader has come (`progress.py`)."""

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
    from strata_cdc.streams.positions import Bound, Start

HEARTBEAT_SECONDS: Final = 1.0
DECODE_LIMITS: Final = DecodeLimits(first_bytes=1 << 20)
"""Who has just begun to read gets the first rows soon."""


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


class StreamRequest(Struct, frozen=True):
    """What a reader asks for."""

    source: StreamedSource
    start: Start = Edge.NOW
    until: Bound | None = None
    """None: what the server has executed at the start; never, if `follow` says so."""
    follow: bool = False
    """Whether to wait for what comes."""
    tables: tuple[str, ...] = ()
    """Patterns of `database.table`; none for all."""
    columns: frozenset[str] | None = None
    """In lower case; None for all."""
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    copied_from: Mapping[str, str] = {}
    """Other sources whose GTIDs it has by copy, and their lineages."""
    limits: DecodeLimits = DECODE_LIMITS
    gather_seconds: float = GATHER_SECONDS
    """As that of `HandoverOptions`."""
    has_answered: bool = False
    """Likewise."""
    permit: AbstractContextManager[object] = field(default_factory=nullcontext)
    """As `Decoding` takes it."""

    @property
    def handover(self) -> HandoverOptions:
        """How the source is read."""
        source = self.source
        return HandoverOptions(source.lake, source.address, self.follow, self.gather_seconds, self.has_answered)
