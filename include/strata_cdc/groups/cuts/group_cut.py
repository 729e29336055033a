"""What a run publishes of a group: its state, and the cut that all of its sources have passed.
Not here: finding both (`common_cut.py`, `groups/status.py`), informing others (`airflow/groups.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import now_micros
from strata_cdc.errors import MirrorBehindError
from strata_cdc.groups.cuts.common_cut import Cut, cut_of
from strata_cdc.groups.status import GroupStatus, group_status

if TYPE_CHECKING:
    from strata_cdc.config.settings import Settings


class GroupCut(Struct, frozen=True):
    """The state and the cut of a group at one moment."""

    status: GroupStatus
    cut: Cut | None
    """None: a source has not published anything yet."""
    lacking: str = ""
    """Why there is no cut."""


def group_cut(name: str, *, settings: Settings) -> GroupCut:
    """Returns the newest cut of a group, and the state of the group.

    Args:
        name: Name of the group.

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
