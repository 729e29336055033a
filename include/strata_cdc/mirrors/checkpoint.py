"""When the log of a mirror gets a checkpoint.
Not here: writing it (`tables/delta/checkpoint.py`), reading it (`log.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.tables.delta.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from strata_cdc.mirrors.actions import LogSnapshot


def write_checkpoint_if_due(snapshot: LogSnapshot, before: LogSnapshot, every: int) -> None:
    """Writes one if it is time, or if the last commit has given the table other columns: commits of older versions of
    Strata have bounds, which readers then parse by the new types. A checkpoint has none of files that were removed.
    Nothing else depends on it: one that cannot be written is left to the next.

    Args:
        snapshot: The table behind the last commit.
        before: In front of it.
        every: Of so many commits one has a checkpoint.
    """
    if snapshot.version % every and before.schema_text == snapshot.schema_text:
        return
    try:
        write_checkpoint(snapshot.url, snapshot.version)
    except LakeUnavailableError:
        return
