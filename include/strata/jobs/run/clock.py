"""This machine's clock: read at the edges, and handed down.
Not here: servers' clocks (`events/commit_clock.py`, `groups/clocks.py`)."""

from __future__ import annotations

import time


def now_micros() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000
