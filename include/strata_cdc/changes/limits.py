"""How much of a binlog is decoded before its rows are yielded.
Not here: how that is done (`windows.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeLimits:
    """The limits of one reader of events."""

    window_bytes: int = 1 << 20
    """Bytes of events whose checksums are verified before they are decoded, so that they are still in the cache."""
    first_bytes: int = 16 << 20
    """After this many bytes of events, all waiting rows are yielded for the first time; then after twice as many, and
    so on."""
    flush_bytes: int = 16 << 20
    """The largest such number of bytes, however few rows they have."""
