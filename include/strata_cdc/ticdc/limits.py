"""How much of a sink is read at once.
Not here: how that is done (`records.py`, `windows.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SinkLimits:
    """The limits of one reader of a folder."""

    block_bytes: int = 1 << 20
    """Bytes of a data file that are converted together; a longer record is converted as a whole. Each file that is open
    keeps one block in memory: as many files are open as have rows of one time."""
    first_bytes: int = 1 << 16
    """Bytes that are read of each file to know its first commit timestamp."""
    batch_rows: int = 8192
    """The most rows of a batch."""
