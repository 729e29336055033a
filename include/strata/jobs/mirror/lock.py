"""Who commits to mirrors in an object store does so alone: no version of the log can be put there only if it is absent.
Not here: commits (`mirrors/log.py`), which on a local file system exclude each other by themselves."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from strata.wire.source_lock import SourceLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata.wire.connection import ServerAddress


@contextmanager
def alone(address: ServerAddress, lake: str, source: str) -> Iterator[None]:
    """For the time of a `with` block the only one who commits to the mirrors of a source, if the lake is no folder.

    Raises:
        AlreadyRunningError: Another process commits to them.
        SourceUnavailableError: The server, which holds the lock, does not answer.
    """
    if "://" not in lake:
        yield
        return
    lock = SourceLock(address, f"strata-mirror-{source}")
    lock.take()
    try:
        yield
    finally:
        lock.release()
