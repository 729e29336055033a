"""Which interval owns what: the interval that a start became part of, and whether an interval is still as it was.
Not here: closing intervals (`ledgers.py`), making one of several (`merges.py`)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

import sqlalchemy as sa

from strata_cdc.clock import from_micros, moment_key
from strata_cdc.errors import AlreadyRunningError
from strata_cdc.store.tables import closed_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class OwnedInterval(Protocol):
    """An interval as a plan has it."""

    @property
    def start(self) -> int:
        """Microseconds UTC."""

    @property
    def end(self) -> int:
        """Exclusive."""

    @property
    def after_seq(self) -> int:
        """Ordinal of the last transaction before it."""

    @property
    def last_seq(self) -> int:
        """Ordinal of its last transaction."""


def owners(intervals: Iterable[OwnedInterval]) -> Callable[[int], int]:
    """For the start of an interval, the start of the interval that it is part of now; itself if there is none.

    Intervals must be read after what has the starts: between two reads they may become longer, and never shorter.
    """
    known = sorted((interval.start, interval.end) for interval in intervals)

    def owner(start: int) -> int:
        at = bisect_right(known, start, key=lambda span: span[0]) - 1
        return known[at][0] if at >= 0 and start < known[at][1] else start

    return owner


def require_closed(connection: sa.Connection, source: str, interval: OwnedInterval) -> None:
    """Refuses what is to be stored about an interval that is part of a longer one by now; in the caller's transaction,
    until the end of which the interval stays as it is.

    Raises:
        AlreadyRunningError: It is.
    """
    columns = closed_interval.c
    same = (columns.source == source) & (columns.start_at == interval.start)
    query = sa.select(columns.end_at, columns.last_seq).where(same).with_for_update()
    row = connection.execute(query).one_or_none()
    if row is None or tuple(row) != (interval.end, interval.last_seq):
        raise merged_meanwhile(source, interval.start, interval.end)


def merged_meanwhile(source: str, start: int, end: int, *, table: str | None = None) -> AlreadyRunningError:
    """The error of a run whose interval became part of a longer one after the run was planned.

    Args:
        start: Of the interval as it was planned (microseconds UTC).
        table: `database.table`, if it is about one.
    """
    since, until = (f"{from_micros(time):%Y-%m-%dT%H:%M:%S.%fZ}" for time in (start, end))
    return AlreadyRunningError(
        f"the interval {moment_key(start)} was merged with its neighbours after the run was planned: the run publishes "
        "nothing of it",
        source=source,
        table=table,
        remedy=f"`strata run --source {source} --from {since} --until {until}` plans the longer interval.",
    )
