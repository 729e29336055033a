"""Returns free memory to the system, for a server that runs for months.
Not here: bounds on what is kept (`limits.py`)."""

from __future__ import annotations

import ctypes
import threading
from typing import Final

SECONDS: Final = 60.0


def release_memory() -> bool:
    """Returns the pages that the C library keeps and nobody uses; whether the C library can do so (glibc: yes).

    glibc keeps free pages between small allocations that are in use: a server with readers grew by half a megabyte a
    minute although it used no more than before (decision 77).
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return False
    trim(0)
    return True


def release_memory_often(seconds: float = SECONDS) -> None:
    """Releases memory at intervals, in a daemon thread, until the process ends.

    Args:
        seconds: The interval.
    """
    interval = threading.Event()

    def work() -> None:
        while release_memory():
            interval.wait(seconds)

    threading.Thread(target=work, name="strata-memory", daemon=True).start()
