"""How much of the rows for Parquet files is held in memory.
Not here: how files are written (`row_groups.py`, `write.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileLimits:
    """Limits of one file at a time."""

    row_group_rows: int = 128 * 1024
    """Rows that are gathered before a row group is written."""
    row_group_bytes: int = 32 << 20
    """Bytes of Arrow buffers that are held for one row group, at most."""
    file_bytes: int = 256 << 20
    """Bytes of Parquet that are held for one staged file; the row group that passes this bound ends the file."""
