"""Disks that are full: a file system of a few bytes, and a limit on the size of files.
Not here: what must hold on them (the tests)."""

from __future__ import annotations

import gc
import resource
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_BUSY: Final = 32
"""What `umount` ends with where it could not (umount(8))."""


@contextmanager
def no_file_above(limit: int) -> Iterator[None]:
    """Writing beyond so many bytes of a file fails, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A file system of its own, of so many bytes, on a folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        yield
    finally:
        _unmount(folder)


def _unmount(folder: Path) -> None:
    """Takes a file system away.

    Arrow's threads let go of a file a moment after they have given what was read of it, and a fault holds the files of
    the frames that it came through until Python looks for cycles.
    """
    until = time.monotonic() + 10
    while (ended := subprocess.run(["umount", folder], capture_output=True, check=False)).returncode:
        if ended.returncode != _BUSY or time.monotonic() > until:
            pytest.fail(f"{ended.stderr.decode()}; this process has open {_opened_in(folder)}")
        gc.collect()
        time.sleep(0.05)


def _opened_in(folder: Path) -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(one.readlink()))
    return [path for path in found if path.startswith(str(folder))]


def enlarge(folder: Path, size: int) -> None:
    """Gives such a file system so many bytes."""
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)
