"""Brings what has landed to a place of the server's binlog, so that all that a SELECT can have shown is there.
Not here: landing and tracking (`jobs/land/`, `jobs/track/`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strata.errors import AlreadyRunningError, SourceUnavailableError
from strata.events.landed import LandedStream
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet
from strata.wire.connection import connect, server_errors
from strata.wire.server_files import ServerFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from strata.config.settings import Source

_PAUSE = 1.0
"""Seconds; also longer than a transaction lies between the binlog and the set of what is executed."""


def catch_up(
    source: Source, end: BinlogPosition, land: Callable[[], object], track: Callable[[], object], *, seconds: float
) -> None:
    """Lands until all in front of a place is there, then tracks.

    Args:
        source: The source.
        end: A place of its binlog, which the server has written already.
        land: Lands what the server has executed.
        track: Tracks what has landed.
        seconds: How long to wait for others who land or track.

    Raises:
        AlreadyRunningError: Somebody else is still at it.
        SourceUnavailableError: The server does not answer, or holds a transaction back between binlog and commit.
        StrataError: As landing and tracking.
    """
    deadline = time.monotonic() + seconds
    while not _has_landed(source, end):
        _patiently(land, deadline)
        if _has_landed(source, end) or _is_idle(source, end):
            break
        if time.monotonic() > deadline:
            raise SourceUnavailableError(
                f"what the server has written up to {end} cannot be landed yet", source=source.name
            )
        time.sleep(_PAUSE)
    _patiently(track, deadline)


def _patiently(step: Callable[[], object], deadline: float) -> None:
    while True:
        try:
            step()
        except AlreadyRunningError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _has_landed(source: Source, end: BinlogPosition) -> bool:
    stream = LandedStream.open(source.lake, source.name)
    if not stream.segments:
        return False
    summary = stream.segments[-1].summary
    return BinlogPosition.of(summary.binlog_file, summary.server_end) >= end


def _is_idle(source: Source, end: BinlogPosition) -> bool:
    """Whether a place is behind the last transaction: events without one, as a server writes when it starts, do not
    land before the next comes."""
    time.sleep(_PAUSE)
    with connect(source.address) as connection, server_errors(source.address), connection.cursor() as cursor:
        if ServerFiles.read(connection).end != end:
            return False
        cursor.execute("SELECT @@GLOBAL.gtid_executed")
        [[text]] = cursor.fetchall()
    return GtidSet.parse(str(text)) <= LandedStream.open(source.lake, source.name).executed()
