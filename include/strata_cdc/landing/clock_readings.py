"""A server's clock when its binlog was landed, kept beside the segments: whether a cut through several servers holds at
one time can be known only from clocks that were measured then (`groups/cuts/measured_clocks.py`).
Not here: what a server's clock and position are, and how they are queried (`binlog/protocol/server_clocks.py`)."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from strata_cdc.binlog.protocol.server_clocks import Server
from strata_cdc.errors import DamagedFileError, LakeUnavailableError, StoreFormatError, StrataError
from strata_cdc.files.stored import decode_stored
from strata_cdc.landing.landed import LandedStream, landing_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.binlog.protocol.server_clocks import ServerMoment

CLOCKS_FILE = "clocks.json"
_FORMAT: Final = 1
_MOST: Final = 2000
"""How many readings are kept: those of a landing each hour for twelve weeks."""
_LOG = logging.getLogger("strata.land")


class ClockReading(Struct, frozen=True):
    """A server's clock around one landing; times are microseconds UTC by that clock."""

    server_uuid: str
    seq: int
    """Ordinal of the last transaction that had landed after this landing."""
    begin: int
    """When the landing began: all that had been committed by then is up to `seq`."""
    end: int
    """When the landing had ended: all up to `seq` had been committed by then."""
    lowest: int
    """How far the clock was ahead of this machine's, at least, in the measurements before and after the landing."""
    highest: int
    """The same, at most."""


class _StoredReadings(Struct, frozen=True):
    readings: tuple[ClockReading, ...]
    format: int = _FORMAT


@contextmanager
def reading_clock(address: ServerAddress, lake: str, source: str) -> Iterator[None]:
    """Reads the clock of a server before and after its landing, and stores the reading if everything has landed.

    A missing reading makes nothing wrong: a cut then reports that it is not known whether it is common. So an error of
    the server or the lake here ends no landing.
    """
    before = clock_now(address)
    yield
    after = clock_now(address)
    if before is None or after is None or before.server_uuid != after.server_uuid:
        return
    landed = LandedStream.open(lake, source)
    if before.executed <= landed.executed():
        _keep(lake, source, reading_between(before, after, landed.last_seq))


def reading_between(before: ServerMoment, after: ServerMoment, seq: int) -> ClockReading:
    """The clock reading for the time between two measurements.

    Args:
        before: The first measurement.
        after: The second, of the same server.
        seq: Ordinal of the last transaction that had landed in between.
    """
    both = before, after
    lowest, highest = (
        min(moment.ahead - moment.bound for moment in both),
        max(moment.ahead + moment.bound for moment in both),
    )
    return ClockReading(before.server_uuid, seq, before.clock, after.clock, lowest, highest)


def clock_now(address: ServerAddress) -> ServerMoment | None:
    """A measurement of a server now; None if it does not answer, or has no GTIDs."""
    server = Server(address)
    try:
        return server.measure()
    except StrataError:
        return None
    finally:
        server.close()


def clock_readings(lake: str, source: str) -> tuple[ClockReading, ...]:
    """The readings of a source, in the order in which they were made."""
    folder = landing_folder(lake, source)
    if not folder.exists(CLOCKS_FILE):
        return ()
    try:
        stored = decode_stored(
            folder.read_file(CLOCKS_FILE),
            _StoredReadings,
            newest=_FORMAT,
            file=folder.join(CLOCKS_FILE),
            remedy="Delete it: cuts are common again after the next two runs.",
        )
    except (DamagedFileError, StoreFormatError) as error:
        # Cuts report that it is not known whether they are common.
        _LOG.warning("%s", error)
        return ()
    return stored.readings


def _keep(lake: str, source: str, reading: ClockReading) -> None:
    try:
        kept = (*clock_readings(lake, source), reading)[-_MOST:]
        landing_folder(lake, source).write(CLOCKS_FILE, msgspec.json.encode(_StoredReadings(kept)))
    except LakeUnavailableError as refused:
        _LOG.warning("%s: the reading of its clock cannot be kept: %s", source, refused)
