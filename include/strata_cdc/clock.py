"""Times: this machine's clock, read at the edges and handed down, and microseconds since 1970 in their other forms.
Not here: servers' clocks (`binlog/protocol/server_clocks.py`), the commit clock of a stream (`position/clock.py`)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_micros() -> int:
    """Microseconds since 1970 UTC."""
    return time.time_ns() // 1000


def to_micros(time: datetime) -> int:
    """Microseconds since 1970 UTC; exact.

    Raises:
        ValueError: The time has no zone, or is in UTC before the year 1 or after 9999, for which there is no inverse.
    """
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    try:
        return (time.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        raise ValueError(f"{time} is beyond the calendar in UTC") from None


def from_micros(micros: int) -> datetime:
    """The inverse of `to_micros`."""
    return _EPOCH + timedelta(microseconds=micros)


def moment_key(micros: int) -> str:
    """A time as it is written in paths; sorts as text in the order of time."""
    return f"{from_micros(micros):%Y%m%dT%H%M%S.%f}Z"


def second_text(micros: int) -> str:
    """A time as people read it, to the second (UTC)."""
    return f"{from_micros(micros):%Y-%m-%d %H:%M:%S}"


def exact_text(micros: int) -> str:
    """A time as people read it, with as many digits of a second as it has (UTC)."""
    return f"{from_micros(micros):%Y-%m-%d %H:%M:%S.%f}".rstrip("0").rstrip(".")
