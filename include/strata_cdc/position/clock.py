"""The commit clock, which cuts a stream into intervals.
Not here: the intervals themselves (`pipeline/`)."""

from __future__ import annotations

from msgspec import Struct


class CommitClock(Struct):
    """The running maximum of commit timestamps along a stream.

    A server's clock may jump back, and a replica's transactions have their own times; the maximum is monotone,
    so every transaction falls into exactly one half-open span of time.
    """

    now: int = 0
    """Microseconds since 1970-01-01 UTC of the newest commit seen."""

    def advance(self, timestamp: int) -> int:
        """Advances by the next transaction's own timestamp (microseconds) and returns its time on this clock."""
        self.now = max(self.now, timestamp)
        return self.now
