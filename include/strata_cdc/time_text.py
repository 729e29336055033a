"""A time as people write it, the same in every command, page and position.
Not here: times as they are printed (`clock.py`), times in the forms of Airflow (`runs/form_fields.py`)."""

from __future__ import annotations

from datetime import UTC, datetime

from strata_cdc.clock import to_micros
from strata_cdc.errors import Usage


def parse_time(text: str) -> int:
    """Reads ISO 8601, with up to six digits of a second, in UTC unless it has a zone; returns microseconds since 1970
    UTC.

    Raises:
        Usage: It is not such a time, or is beyond the calendar in UTC.
    """
    try:
        time = datetime.fromisoformat(text.strip())
        return to_micros(time if time.tzinfo else time.replace(tzinfo=UTC))
    except ValueError:
        raise Usage(f"{text[:60]!r} is no time", remedy="Write it as in `2026-11-21 03:30:00` (UTC).") from None
