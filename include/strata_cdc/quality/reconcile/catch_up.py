"""Brings what has landed to a position in the server's binlog, so that all that a SELECT can have shown is there.
Not here: landing and tracking (`landing/`, `tracking/`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strata_cdc.errors import SourceUnavailableError
from strata_cdc.files.lock import when_free
from strata_cdc.landing.arrival import has_arrived
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.resume_landing import check_history

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata_cdc.config.settings import Source
    from strata_cdc.position.binlog_position import ServerPosition

_PAUSE = 1.0
"""Seconds."""


def catch_up(
    source: Source, end: ServerPosition, land: Callable[[], object], track: Callable[[], object], *, seconds: float
) -> None:
    """Lands until everything before a position is there, then tracks.

    Args:
        end: A position in its binlog, before which the server has written everything.
        land: Lands what the server has executed.
        track: Tracks what has landed.
        seconds: How long to wait for others who land or track.

    Raises:
        AlreadyRunningError: Somebody else is still at it.
        SourceDivergedError: The server lacks what has landed.
        SourceUnavailableError: The server does not answer, or holds a transaction back between binlog and commit.
        StrataError: As landing and tracking.
    """
    check_history(source.address, _landed(source))
    deadline = time.monotonic() + seconds
    while not _landed(source).reaches(end):
        when_free(land, deadline, _PAUSE)
        if has_arrived(source.address, _landed(source), end):
            break
        if time.monotonic() > deadline:
            raise SourceUnavailableError(
                f"what the server has written up to {end.position} cannot be landed yet", source=source.name
            )
    when_free(track, deadline, _PAUSE)


def _landed(source: Source) -> LandedStream:
    return LandedStream.open(source.lake, source.name)
