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
    """The limits for each source of a group's reader."""

    waiting_bytes: int = 8 << 20
    """Bytes of rows that may wait, in addition to the chunk that exceeds this. With rows waiting, the merge need not
    wait until a reader has woken up."""
    least_bytes: int = 64 << 10
    """Everything smaller counts as this size: a silent reader also puts something in, again and again until it is
    taken."""
    most_ahead: int = 3_600_000_000
    """How far in the future a transaction of a source without commit times may be (microseconds): it waits until its
    time, and so does all that follows it. Farther ones are an error."""
    decode: DecodeLimits = DECODE_LIMITS
