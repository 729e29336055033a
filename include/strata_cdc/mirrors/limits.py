"""How large the files and commits of mirrors become.
Not here: how long their former states are kept (the settings)."""

from __future__ import annotations

from msgspec import Struct


class MirrorLimits(Struct, frozen=True):
    """Of one mirror."""

    checkpoint_commits: int = 50
    """Of so many commits one has a checkpoint. With fewer each open reads more small files, with more each checkpoint
    is worth it less."""
    file_rows: int = 1 << 20
    """Rows of one file at most."""
    file_bytes: int = 64 << 20
    """Bytes of Parquet that are held for one file; the row group that passes it ends the file."""
    batch_rows: int = 1 << 18
    """Changes that are applied in one commit, once whole transactions make so many."""
    batch_bytes: int = 160 << 20
    """Of Arrow memory, likewise."""
