"""How large the files and commits of mirrors become.
Not here: how long their earlier states are kept (the settings)."""

from __future__ import annotations

from msgspec import Struct


class MirrorLimits(Struct, frozen=True):
    """Limits of one mirror."""

    checkpoint_commits: int = 50
    """One of this many commits has a checkpoint. With fewer checkpoints, each open reads more small files; with more,
    each checkpoint saves less."""
    file_rows: int = 1 << 20
    """Rows of one file, at most."""
    file_bytes: int = 64 << 20
    """Bytes of Parquet that are held for one file; the row group that passes this bound ends the file."""
    batch_rows: int = 1 << 18
    """Changes that are applied in one commit: the batch ends once whole transactions make this many."""
    batch_bytes: int = 160 << 20
    """The same, in bytes of Arrow memory."""
