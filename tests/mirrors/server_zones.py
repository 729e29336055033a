"""A server's named time zones, from those of this machine: what `mysql_tzinfo_to_sql` would load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.mysql_server import MysqlServer


def load_zones(server: MysqlServer, names: list[str]) -> None:
    for number, name in enumerate(names, 1):
        types: dict[timedelta, int] = {}
        rows = [(moment, types.setdefault(offset, len(types))) for moment, offset in changes(ZoneInfo(name))]
        kinds = ", ".join(
            f"({number}, {kind}, {int(offset.total_seconds())}, 0, 'X')" for offset, kind in types.items()
        )
        times = ", ".join(f"({number}, {int(moment.timestamp())}, {kind})" for moment, kind in rows)
        server.run_sql(
            f"REPLACE INTO time_zone VALUES ({number}, 'N'); REPLACE INTO time_zone_name VALUES ('{name}', {number});"
            f"REPLACE INTO time_zone_transition_type VALUES {kinds}; REPLACE INTO time_zone_transition VALUES {times}",
            "mysql",
        )


def changes(zone: ZoneInfo) -> Iterator[tuple[datetime, timedelta]]:
    """From when on it has which offset."""
    moment = datetime(1969, 12, 1, tzinfo=UTC)
    known = offset(zone, moment)
    yield moment, known
    while moment.year < 2038:
        later = moment + timedelta(days=7)
        if offset(zone, later) != known:
            low, high = moment, later
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
                low, high = (middle, high) if offset(zone, middle) == known else (low, middle)
            known = offset(zone, later)
            yield high, known
        moment = later


def offset(zone: ZoneInfo, moment: datetime) -> timedelta:
    found = moment.astimezone(zone).utcoffset()
    assert found is not None
    return found
