"""When the log of a mirror gets a checkpoint.
Not here: writing it (`tables/delta/checkpoint.py`), reading it (`log.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.tables.delta.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from strata_cdc.mirrors.actions import LogSnapshot


def write_checkpoint_if_due(snapshot: LogSnapshot, before: LogSnapshot, every: int) -> None:
    """Writes a checkpoint if it is due, or if the last commit has changed the table's columns.

    Commits of older versions of Strata have bounds, which readers then parse by the new types; a checkpoint has no
    bounds of removed files.
    Nothing else depends on it: if a checkpoint cannot be written, a later commit writes one.

    Args:
        snapshot: The table after the last commit.
        before: The table before the last commit.
        every: One of this many commits has a checkpoint.
    """
    if snapshot.version % every and before.schema_text == snapshot.schema_text:
        return
    try:
        write_checkpoint(snapshot.url, snapshot.version)
    except LakeUnavailableError:
        return
