"""Memory that a server has freed goes back to the system."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from strata_cdc.serve.memory import release_memory, release_memory_often

SCATTERED = """
import psutil
from strata_cdc.serve.memory import release_memory
release_memory()
parts = [bytearray(30_000) for _ in range(4000)]
# Each second part stays: nothing is free at the end of the heap.
parts[::2] = [None] * 2000
before = psutil.Process().memory_info().rss
release_memory()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(not release_memory(), reason="the C library has no malloc_trim")
def test_free_pages_between_pages_in_use_are_released() -> None:
    done = subprocess.run([sys.executable, "-c", SCATTERED], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 30_000_000


def test_the_thread_does_not_keep_the_process() -> None:
    before = set(threading.enumerate())
    release_memory_often(3600)
    assert {thread.daemon for thread in set(threading.enumerate()) - before} <= {True}
