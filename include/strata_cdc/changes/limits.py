"""How much of a binlog is decoded before its rows are given.
Not here: how that is done (`windows.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeLimits:
    """Of one reader of events."""

    window_bytes: int = 1 << 20
    """Of events whose checksums are verified before they are walked, so that they are still in the cache."""
    first_bytes: int = 16 << 20
    """After so many bytes of events all rows that wait are given for the first time; each time twice as many follow."""
    flush_bytes: int = 16 << 20
    """Up to so many, however few rows they have."""
