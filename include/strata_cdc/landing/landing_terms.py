"""On which terms a server's binlog is read: as which replica, and how fast.
Not here: reading it (`land_binlog.py`)."""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct

_LONGEST_PAUSE_SECONDS: Final = 5.0
"""Far less than the time after which a server gives up a reader that takes nothing (`net_write_timeout`, 60 s)."""


class LandingTerms(Struct, frozen=True):
    """What the settings say of reading."""

    server_id: int | None = None
    """The number with which landing is a replica of the server; None: a random one."""
    bytes_per_second: int | None = None
    """At most so many, on average; None: as fast as they come."""


FREE: Final = LandingTerms()
"""As any replica, as fast as it comes."""


class LandingThrottle:
    """Pauses, so that one connection reads no faster than the terms allow. Meanwhile the server waits, as for a slow
    replica."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._due = time.monotonic()

    def pause(self, read_bytes: int) -> None:
        """Waits until what was read was not too fast; time in which less came is not made up for."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now) + read_bytes / self._rate
        time.sleep(min(self._due - now, _LONGEST_PAUSE_SECONDS))
