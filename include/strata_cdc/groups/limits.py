"""How much of each source of a group waits to be merged.
Not here: how far sources may be apart (the settings' `max_skew`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strata_cdc.streams.request import DECODE_LIMITS

if TYPE_CHECKING:
    from strata_cdc.changes.limits import DecodeLimits


@dataclass(frozen=True)
class GroupLimits:
    """Of each source of one reader of a group."""

    waiting_bytes: int = 8 << 20
    """Of rows that wait to be taken, beside the piece that goes beyond: who takes them is not held up by each reader
    that has to be woken first."""
    least_bytes: int = 64 << 10
    """As so many counts whatever is smaller: a reader that is silent has something to say, too, and for as long as
    nobody takes it."""
    decode: DecodeLimits = DECODE_LIMITS
