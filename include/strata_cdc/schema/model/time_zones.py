"""Time zones of sessions, as far as all programs agree on them.
Not here: converting values (`tables/values/moments.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"([+-])(\d{1,2}):([0-5]\d)", re.ASCII)
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_END: Final = datetime(2038, 1, 20, tzinfo=UTC)
"""The end of the range of TIMESTAMP."""
_STEP: Final = timedelta(days=5)
"""No zone has kept daylight saving time for a shorter time, including its break during Ramadan."""


@lru_cache(64)
def offset_of(zone: str | None) -> int | None:
    """Seconds east of UTC for a zone that has had only this offset since 1970; None for all other zones, and if it is
    not known.

    For a zone with daylight saving time the server uses what was loaded into it (`mysql_tzinfo_to_sql`), from time zone
    files of any year; files of the newer, slim form end there in 2007 or before. SYSTEM may be any zone.
    """
    match = _OFFSET.fullmatch(zone or "")
    if match is not None:
        seconds = (int(match[2]) * 60 + int(match[3])) * 60
        return -seconds if match[1] == "-" else seconds
    return None if not zone or zone.upper() == "SYSTEM" else _constant(zone)


def _constant(zone: str) -> int | None:
    try:
        named = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return None
    moment = _BEGIN
    offsets: set[timedelta | None] = set()
    while moment < _END and len(offsets) < 2:
        offsets.add(moment.astimezone(named).utcoffset())
        moment += _STEP
    [first, *others] = offsets
    return None if others or first is None else int(first.total_seconds())
