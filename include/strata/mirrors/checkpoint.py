"""When the log of a mirror gets a checkpoint.
Not here: writing it (`tables/delta/checkpoint.py`), reading it (`log.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata.errors import LakeUnavailableError
from strata.tables.delta.checkpoint import write_checkpoint

if TYPE_CHECKING:
    from strata.mirrors.actions import Snapshot

EVERY: Final = 50
"""Commits. With fewer each open reads more small files, with more each checkpoint is worth it less."""


def write_checkpoint_if_due(snapshot: Snapshot) -> None:
    """Writes one if it is time. Nothing depends on it: one that cannot be written is left to the next."""
    if snapshot.version % EVERY:
        return
    try:
        write_checkpoint(snapshot.url, snapshot.version)
    except LakeUnavailableError:
        return
