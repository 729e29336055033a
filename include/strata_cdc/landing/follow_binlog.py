"""Lands a server's binlog as it is written, until it is stopped; connects again if a connection breaks.
Not here: one connection (`land_binlog.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from strata_cdc.errors import AlreadyRunningError, SourceUnavailableError, StrataError
from strata_cdc.landing.cut_segments import SEGMENT_BYTES, LandReport, SegmentCutter, open_landing
from strata_cdc.landing.land_binlog import Landing, connected, landing_lock
from strata_cdc.landing.land_state import Doing, LandNotes, LandProgress
from strata_cdc.landing.landed import LandedStream
from strata_cdc.landing.landing_terms import FREE, LandingTerms
from strata_cdc.landing.resume_landing import LandingGoal, check_history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.source_lock import SourceLock
    from strata_cdc.landing.first_landing import FirstMoment
    from strata_cdc.position.port import Executed

SEGMENT_SECONDS = 60.0
"""What was landed can be read after this time, even if it is little."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_STEP_SECONDS = 0.2
_LOOK_SECONDS = 1.0
WAIT_SECONDS = 3 * SEGMENT_SECONDS


def follow_binlog(  # noqa: PLR0913  each is a part of the request
    address: ServerAddress,
    *,
    lake: str,
    source: str,
    stop: Callable[[], bool],
    segment_bytes: int = SEGMENT_BYTES,
    segment_seconds: float = SEGMENT_SECONDS,
    begins: Sequence[FirstMoment] = (),
    terms: LandingTerms = FREE,
    progress: Callable[[LandProgress], None] | None = None,
) -> LandReport:
    """Lands what the server executes until `stop` returns true, then publishes the complete transactions.

    If the server stops answering, it is tried again after 1, 2, 4, ... 60 seconds, without a limit; if it does not
    answer at first, that is an error. Any other error ends the landing, as it ends `land_binlog`.

    Args:
        address: The server.
        lake: Folder or URL of the lake.
        source: Name of the source.
        stop: Called several times a second.
        segment_bytes: As for `land_binlog`.
        segment_seconds: A segment is published when it is this old, with the transactions that are complete by then.
        begins: As for `land_binlog`.
        terms: As for `land_binlog`.
        progress: Called every second.

    Raises:
        StrataError: As `land_binlog`.
    """
    notes = LandNotes(lake, source, str(address), Doing.FOLLOWING, progress)
    lock = landing_lock(address, source)
    with open_landing(lake, source, segment_bytes, notes, lock) as cutter:

        def follow() -> None:
            with connected(address, cutter, begins, terms) as connection:
                Landing(connection, cutter, notes, terms).follow(stop, segment_seconds)

        _repeat(follow, lock, cutter, notes, stop)
    return cutter.report(cutter.end.executed)


def wait_for_follower(address: ServerAddress, lake: str, source: str, *, seconds: float = WAIT_SECONDS) -> Executed:
    """Waits until another process, which follows the server, has landed everything that the server has executed by now.

    Returns:
        GTID set that had been executed.

    Raises:
        AlreadyRunningError: It has not landed after this many seconds.
        SourceDivergedError: The server lacks what has landed.
        StrataError: The server or the lake does not answer.
    """
    goal = LandingGoal.from_server(address)
    check_history(address, LandedStream.open(lake, source))
    until = time.monotonic() + seconds
    while not goal.is_reached(LandedStream.open(lake, source)):
        if time.monotonic() > until:
            raise AlreadyRunningError(
                f"`strata land --follow` has not landed the transactions that were executed {seconds:.0f} s ago",
                source=source,
                remedy="`strata status` shows how far it is.",
            )
        time.sleep(_LOOK_SECONDS)
    return goal.server.executed


def _repeat(
    follow: Callable[[], None], lock: SourceLock, cutter: SegmentCutter, notes: LandNotes, stop: Callable[[], bool]
) -> None:
    pause = _FIRST_PAUSE_SECONDS
    retried: tuple[type[StrataError], ...] = (SourceUnavailableError,)
    while not stop():
        landed = cutter.end.seq
        try:
            lock.acquire()
            cutter.look_again()
            follow()
        except retried as error:
            # The server may hold the lock of the connection that broke for a while.
            retried = (SourceUnavailableError, AlreadyRunningError)
            if cutter.end.seq > landed:
                pause = _FIRST_PAUSE_SECONDS
            notes.retry(error, pause)
            _wait(pause, stop)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _wait(seconds: float, stop: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not stop():
        time.sleep(_STEP_SECONDS)
