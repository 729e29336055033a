"""Where a mirror has all of its table's rows from: without one of these it may lack those that are older than it.
Not here: what the log says of mirrors that were made before this was kept (`mirrors/follow/loss.py`)."""

from __future__ import annotations

from enum import StrEnum


class RowsFrom(StrEnum):
    """What made a mirror complete."""

    CREATE = "create"
    """A statement in the landed stream behind which the table had no rows, or those that the stream has."""
    DUMP = "dump"
    """They were read from the server, or from a backup."""
    MIRROR = "mirror"
    """Another complete mirror: the table had its name before."""
    UNKNOWN = "unknown"
    """An older version of Strata made it, and nothing says that it was made without rows."""
