"""Delta tables that this process has opened before: opened again, they read only what is new in their logs.
Not here: what is read and committed (`log.py`, `table.py`).

A run opens a change table for the check, for its publication and for its mirror, and a follower does so every few
seconds. Each time deltalake (1.6) would read the newest checkpoint and all commits since, up to a hundred: 20 ms of a
processor, against 1 ms for what is new.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from deltalake.exceptions import DeltaError

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.files.objects import S3Object, is_s3

if TYPE_CHECKING:
    from collections.abc import Hashable

    from deltalake import DeltaTable

_MOST: Final = 100
"""Tables that are kept; those that were not used for longest go first. One takes about 1.6 KB for each of its files."""


class OpenTable:
    """A Delta table that one owner reads and commits to; it is kept for the next when the owner is gone.

    Args:
        url: Folder or URL of the table.
    """

    def __init__(self, url: str, table: DeltaTable) -> None:
        self.url = url
        self.table = table
        self._newest: Hashable = None
        self.note()

    def note(self) -> None:
        """Notes which file the newest commit is, after each commit. If the storage does not answer, the commit is made
        all the same, and the next owner opens the table anew."""
        try:
            self._newest = _identity(self.url, self.table.version())
        except (LakeUnavailableError, OSError):
            self._newest = None

    def renewed(self) -> bool:
        """Whether the log goes on where it ended, and what is new is known now. It does not if it was lost, if it is
        another table's or an older copy of it, or if it was trimmed."""
        before = self.table.version()
        try:
            if self._newest is None or _identity(self.url, before) != self._newest:
                return False
            self.table.update_incremental()
            if self.table.version() != before:
                self.note()
        except (DeltaError, LakeUnavailableError, OSError):
            return False
        return self._newest is not None


class _Pool:
    """Tables without an owner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[Hashable, OpenTable] = OrderedDict()
        # The collector may end an owner in the middle of any statement of this thread, also in `take_idle`: of the
        # queues, this one may be put to there.
        self._returned: SimpleQueue[tuple[Hashable, OpenTable]] = SimpleQueue()

    def take_idle(self, key: Hashable) -> OpenTable | None:
        with self._lock:
            for _ in range(self._returned.qsize()):
                returned, opened = self._returned.get()
                self._idle[returned] = opened
                self._idle.move_to_end(returned)
            while len(self._idle) > _MOST:
                self._idle.popitem(last=False)
            return self._idle.pop(key, None)

    def lend(self, owner: object, key: Hashable, opened: OpenTable) -> None:
        weakref.finalize(owner, self._returned.put, (key, opened)).atexit = False


_POOL: Final = _Pool()


def reopen(url: str) -> OpenTable | None:
    """A table that was opened before, as it is now; None if it has to be opened."""
    opened = _POOL.take_idle(_key(url))
    return opened if opened is not None and opened.renewed() else None


def lend(owner: object, opened: OpenTable) -> None:
    """Gives a table to an owner, which alone uses it; afterwards it may be opened again."""
    _POOL.lend(owner, _key(opened.url), opened)


def _key(url: str) -> Hashable:
    # A forked process opens its tables itself, and so does who has other credentials by now.
    credentials = () if "://" not in url else tuple(sorted(kv for kv in os.environ.items() if kv[0].startswith("AWS_")))
    return url, os.getpid(), credentials


def _identity(url: str, version: int) -> Hashable:
    """What tells a commit's file from any that takes its place; None if there is none, or the storage cannot say."""
    file = f"{url}/_delta_log/{version:020d}.json"
    try:
        if is_s3(url):
            return S3Object.open(file, 1)[0].etag
        if "://" in url:
            return None
        status = Path(file).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
