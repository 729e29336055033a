"""Waiting for what a real server, process or thread is about to do: for a condition, never for a time.
Not here: what to wait for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 120
"""Three processes share two busy cores: what takes a second alone has taken twenty."""


def wait_until(holds: Callable[[], object], *, seconds: float = PATIENCE_SECONDS, pause: float = 0.02) -> None:
    """Returns as soon as a condition holds.

    Raises:
        AssertionError: It did not within the time.
    """
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, f"nothing within {seconds} s"
        time.sleep(pause)
