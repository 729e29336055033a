"""How much of a dump is held in memory while its rows are made exact.
Not here: the size of the chunks that are read (the settings)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DumpLimits:
    """Of one table's dump."""

    held_bytes: int = 64 << 20
    """Of changes (Arrow) that are held at once; where there are more, they are put aside on disk by their keys."""
    batch_rows: int = 1 << 18
    """Rows whose keys are looked for together: that has a price for each time."""
    batch_bytes: int = 64 << 20
    """Of Arrow memory, likewise."""
    aside_bytes: int = 32 << 20
    """Of Arrow memory, that are gathered for a file of what is put aside."""
    parts: int = 256
    """Of all keys, a power of two: one is in memory at a time."""
    marks: int = 1 << 26
    """Bytes, a power of two, that say which keys may have been changed."""
