"""Disks that are full: a file system of a few bytes, and a limit on the size of files.
Not here: what must hold on them (the tests)."""

from __future__ import annotations

import resource
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
        subprocess.run(["umount", folder], check=True)


def enlarge(folder: Path, size: int) -> None:
    """Gives such a file system so many bytes."""
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)
