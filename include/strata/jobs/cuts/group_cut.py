"""What a run publishes of a group: how it stands, and the cut that all of its sources have passed.
Not here: finding either (`common_cut.py`, `jobs/progress/group_status.py`), who is told (`dags/groups.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata.errors import MirrorBehindError
from strata.jobs.cuts.common_cut import Cut, cut_of
from strata.jobs.progress.group_status import GroupStatus, group_status
from strata.jobs.run.clock import now_micros

if TYPE_CHECKING:
    from strata.config.settings import Settings


class GroupCut(Struct, frozen=True):
    """A group at one moment."""

    status: GroupStatus
    cut: Cut | None
    """None: some source has published nothing yet."""
    lacking: str = ""
    """Why there is none."""


def group_cut(name: str, *, settings: Settings) -> GroupCut:
    """The newest cut of a group, and how the group stands.

    Args:
        name: Of the group.
        settings: The settings.

    Raises:
        UnknownSourceError: The settings have no such group.
        StrataError: A store or the lake does not answer.
    """
    group = settings.group(name)
    status = group_status(group, now=now_micros())
    try:
        return GroupCut(status, cut_of(group, status))
    except MirrorBehindError as error:
        return GroupCut(status, None, error.message)
