"""A lock on a local folder, which ends when its owner ends, in any way.
Not here: what is locked, and locks for folders at a URL (`GET_LOCK` on the source's server)."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from strata_cdc.errors import AlreadyRunningError
from strata_cdc.files.storage import lake_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strata_cdc.files.storage import Folder

LOCK_FILE = ".lock"


class _Owner(Struct, frozen=True):
    """The content of a lock's file, only for messages."""

    host: str
    pid: int
    since: float
    """Seconds since 1970."""
    purpose: str = ""
    """What the owner does; empty if all who lock the folder do the same."""
    format: int = 1


@contextmanager
def hold_folder(folder: Folder, purpose: str) -> Iterator[None]:
    """Locks the folder for the time of a `with` block, if it is on this machine.

    Args:
        folder: It need not exist yet.
        purpose: What the owner does, for the message that another process gets.

    Raises:
        AlreadyRunningError: Another process has locked it; the message has the owner and the age of the lock.
        LakeUnavailableError: The folder cannot be written.
    """
    if not folder.is_local:
        yield
        return
    with lake_errors(folder.join(LOCK_FILE)):
        Path(folder.path).mkdir(parents=True, exist_ok=True)
        handle = os.open(f"{folder.path}/{LOCK_FILE}", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            # The kernel releases the lock with the process, so a killed run leaves no lock.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = _owner(os.pread(handle, 4096, 0))
            raise AlreadyRunningError(
                f"another process is {(owner and owner.purpose) or purpose}: {_described(owner)}",
                file=folder.url,
                remedy="Wait until it has ended, or end it; nothing is left locked after it.",
            ) from None
        owner = _Owner(socket.gethostname(), os.getpid(), time.time(), purpose)
        with suppress(OSError):
            # On a full disk only the owner stays unknown: the work that frees space there needs the lock too.
            os.ftruncate(handle, 0)
            os.pwrite(handle, msgspec.json.encode(owner), 0)
        yield
    finally:
        os.close(handle)


def _owner(content: bytes) -> _Owner | None:
    try:
        return msgspec.json.decode(content, type=_Owner)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _described(owner: _Owner | None) -> str:
    if owner is None:
        return "owner unknown"
    return f"process {owner.pid} on {owner.host}, for {max(0, time.time() - owner.since):.0f} s"


def when_free(step: Callable[[], object], deadline: float, pause_seconds: float) -> None:
    """Does a step that another process may be doing, again and again until that one has finished.

    Args:
        step: Raises AlreadyRunningError as long as another process does it.
        deadline: Until when it is tried again, a time of `time.monotonic`.
        pause_seconds: Between two tries.

    Raises:
        AlreadyRunningError: The other process has not finished in time.
    """
    while True:
        try:
            step()
        except AlreadyRunningError:
            if time.monotonic() > deadline:
                raise
            time.sleep(pause_seconds)
        else:
            return
