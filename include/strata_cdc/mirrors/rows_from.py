"""What all rows of a mirror's table come from: without such an origin, a mirror may lack rows that are older than it.
Not here: what the log shows of mirrors that were made before this was stored (`mirrors/follow/blocked.py`)."""

from __future__ import annotations

from enum import StrEnum


class RowsFrom(StrEnum):
    """What made a mirror complete."""

    CREATE = "create"
    """A statement in the landed stream after which the table had no rows, or only rows that are in the stream."""
    DUMP = "dump"
    """The rows were read from the server, or from a backup."""
    MIRROR = "mirror"
    """Another complete mirror: that of the table whose former name this was."""
    UNKNOWN = "unknown"
    """An older version of Strata made it, and nothing shows that it was made without rows."""
