"""The memory of mapped bytes: loads what will be read, releases what has been read.
Not here: mapping files (`files.py`)."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes


def load_pages(buffer: Bytes, begin: int, end: int) -> None:
    """Loads the pages of a mapped file between two offsets, before they are written to another file: Linux copies them
    page by page with a failed try for each page that is not there, which takes twice the time."""
    buffer[begin : end : mmap.PAGESIZE].sum()


def forget_pages(buffer: Bytes, begin: int, end: int) -> None:
    """Drops the pages of a mapped file between two offsets from this process; they load again if they are read.

    Without it the whole of a file that was read counts as this process' memory. A buffer that is no map is not changed.
    """
    mapped: object = buffer.base
    if isinstance(mapped, memoryview):
        mapped = mapped.obj
    if not isinstance(mapped, mmap.mmap):
        return
    first = max(begin, 0) // mmap.PAGESIZE * mmap.PAGESIZE
    length = end // mmap.PAGESIZE * mmap.PAGESIZE - first
    if length > 0:
        mapped.madvise(mmap.MADV_DONTNEED, first, length)
