"""Limits of the memory of a dump while its rows are made exact.
Not here: the size of the chunks that are read (the settings)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DumpLimits:
    """Limits of the dump of one table."""

    held_bytes: int = 64 << 20
    """Changes (Arrow) that are held at once; more changes are stored on disk, by their keys."""
    batch_rows: int = 1 << 18
    """Rows whose keys are looked up together: each lookup has a cost."""
    batch_bytes: int = 64 << 20
    """The same in bytes of Arrow memory."""
    aside_bytes: int = 32 << 20
    """Bytes of Arrow memory that are gathered for one file of rows on disk."""
    parts: int = 256
    """Number of parts into which all keys are divided, a power of two: one part is in memory at a time."""
    marks: int = 1 << 26
    """Bytes, a power of two, that mark the keys that may have been changed."""
