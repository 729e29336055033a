"""Whether everything that a server had written up to a position has landed.
Not here: landing it (`land_binlog.py`), which transaction of the stream is the last one there (`landing/landed.py`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from strata_cdc.landing.resume_landing import LandingGoal

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.connection import ServerAddress
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.position.binlog_position import ServerPosition

_PAUSE_SECONDS: Final = 1.0
"""Longer than the time between a transaction's entry in the binlog and in the server's set of executed GTIDs."""


def has_arrived(address: ServerAddress, stream: LandedStream, position: ServerPosition) -> bool:
    """Whether everything before a position has landed.

    What a server writes when it starts, or begins a new file, does not land before the next transaction. So if the
    stream ends before the position, the server is queried whether it has executed anything more.

    Args:
        address: The server.
        stream: What has landed.
        position: The server's position at some earlier moment.

    Raises:
        SourceUnavailableError: The server does not answer.
        AccessDeniedError: A grant is missing.
    """
    if stream.reaches(position):
        return True
    time.sleep(_PAUSE_SECONDS)
    goal = LandingGoal.from_server(address)
    return goal.server.uuid == position.server_uuid and goal.is_reached(stream)
