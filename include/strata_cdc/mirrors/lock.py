"""Locks on mirrors, one for each table: a process holds it while it commits to a mirror or deletes its files.

In a lake on this machine, the kernel holds the lock, and releases it when the process ends. On an object store nothing
does; so there the source's server holds the lock, and releases it when the connection ends. A sink has no server: the
lock is where its store is, on a MySQL server or beside the file of SQLite.
Not here: commits (`mirrors/log.py`), the lock on a whole dump (`mirrors/dump/folder.py`)."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from strata_cdc.binlog.protocol.source_lock import SourceLock
from strata_cdc.errors import SourceSettingsError, StrataError
from strata_cdc.files.lock import hold_folder, when_free
from strata_cdc.files.storage import Folder
from strata_cdc.mirrors.layout import lock_name, locks_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.schema.model.definition import TableName

WAIT_SECONDS: Final = 30.0
"""How long an update waits for another one; maintenance holds a lock for a few seconds at a time."""
_PAUSE_SECONDS: Final = 0.05


class MirrorLocks:
    """The locks of a source's mirrors, for one thread, or for several threads that never share a table.

    Args:
        lake: Folder or URL of the lake.
        source: The source's name.
        holder: What holds the locks if the lake is at a URL: a server, or a folder on this machine.
        wait_seconds: How long to wait for another process.
    """

    def __init__(
        self, lake: str, source: str, holder: ServerAddress | str | None = None, *, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._lake, self._source, self._holder, self._wait_seconds = lake, source, holder, wait_seconds
        self._held: set[TableName] = set()

    @contextmanager
    def alone(self, table: TableName, *, purpose: str) -> Iterator[None]:
        """Makes this process the only writer of a table's mirror, during a `with` block; blocks may be nested.

        Args:
            table: The table; it need not have a mirror.
            purpose: The reason, for the message that another process gets: "updating this mirror".

        Raises:
            AlreadyRunningError: Another process holds the lock, and does not release it in time.
            SourceUnavailableError: The server, which holds the lock, does not answer.
            LakeUnavailableError: The folder of locks cannot be written.
        """
        if table in self._held:
            yield
            return
        with ExitStack() as stack:
            try:
                self._take(stack, table, purpose)
            except StrataError as error:
                raise error.located(source=self._source, table=str(table)) from None
            self._held.add(table)
            stack.callback(self._held.discard, table)
            yield

    def _take(self, stack: ExitStack, table: TableName, purpose: str) -> None:
        holder = self._holder if "://" in self._lake else locks_url(self._lake, self._source)
        if holder is None:
            raise SourceSettingsError(
                "mirrors in a lake at a URL need locks, and the store of this source cannot hold them",
                remedy="Let `store` be on a MySQL server or in an SQLite file, or `lake` a folder on this machine; "
                "or leave `mirrors` out.",
            )
        if not isinstance(holder, str):
            name = f"strata-mirror-{self._lake}-{self._source}-{lock_name(table)}"
            lock = SourceLock(holder, name, "writes to the same mirror", wait_seconds=self._wait_seconds)
            stack.callback(lock.release)
            lock.acquire()
            return
        folder = Folder.open(f"{holder}/{lock_name(table)}")
        deadline = time.monotonic() + self._wait_seconds
        when_free(lambda: stack.enter_context(hold_folder(folder, purpose)), deadline, _PAUSE_SECONDS)
