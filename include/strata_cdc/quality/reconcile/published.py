"""Up to where the changes of a table are published without a hole, and where the others lie.
Not here: the changes (`lake_rows.py`), those that are landed alone (`judge.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import StreamHoleError
from strata_cdc.landing.count_rows import count_rows
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.store.table_intervals import IntervalState, TableIntervalLedger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import sqlalchemy as sa

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.store.table_intervals import TableInterval

SeqRange = tuple[int, int]
"""Transactions first < seq <= last."""


class PublishedReach(Struct, frozen=True):
    """How far the published changes of a table reach."""

    upto: int
    """Ordinal of a transaction: all of the table's changes up to it, after `since`, are published."""
    since: int = 0
    """Ordinal: changes up to it are not wanted, or were deleted before anybody planned them."""
    left: tuple[SeqRange, ...] = ()
    """After `upto`: transactions with changes of the table that are not published."""
    reason: str | None = None
    """Why it does not reach further."""


def reach_of(engine: sa.Engine, stream: LandedStream, names: Collection[TableName], last_seq: int) -> PublishedReach:
    """How far the published changes of a table, under all of its names, reach.

    Args:
        last_seq: The last transaction that matters.
    """
    intervals = _unpublished(engine, stream.source, names)
    walk = _IntervalWalk(stream, names)
    for interval in sorted(
        IntervalLedger(engine).all(stream.source), key=lambda interval: (interval.after_seq, interval.last_seq)
    ):
        if interval.after_seq >= last_seq:
            break
        walk.unowned(interval.after_seq)
        walk.owned(interval.after_seq, interval.last_seq, intervals.get(interval.start))
    walk.unowned(last_seq)
    return walk.reach(last_seq)


def _unpublished(engine: sa.Engine, source: str, names: Collection[TableName]) -> Mapping[int, TableInterval]:
    """By start of the interval, what of the table is not published in it."""
    states = tuple(state for state in IntervalState if state is not IntervalState.PUBLISHED)
    ledger = TableIntervalLedger(engine)
    intervals = [
        interval for name in names for interval in ledger.select(source, states, table=(name.database, name.table))
    ]
    return {interval.start: interval for interval in intervals if interval.rows}


class _IntervalWalk:
    """Along the intervals, in stream order."""

    def __init__(self, stream: LandedStream, names: Collection[TableName]) -> None:
        self._stream, self._names = stream, names
        self._at, self._since = 0, 0
        self._has_published = False
        self._stop: int | None = None
        self._left: list[SeqRange] = []
        self._reason: str | None = None

    def unowned(self, until: int) -> None:
        """Transactions that are in no interval."""
        if until > self._at:
            try:
                rows = sum(count_rows(self._stream, self._at, until).get(name, 0) for name in self._names)
            except StreamHoleError as error:
                # Deleted by age before anybody planned it.
                self._miss(self._at, until, error.message, is_wanted=self._has_published)
            else:
                if rows:
                    why = f"{rows:,} changes are landed and not published: `strata run --source {self._stream.source}`"
                    self._miss(self._at, until, why, is_wanted=True)
        self._at = max(self._at, until)

    def owned(self, first: int, last: int, missing: TableInterval | None) -> None:
        """An interval, and what of the table is not published in it."""
        if missing is None:
            self._has_published = True
        else:
            why = missing.reason.message if missing.reason else f"they are {missing.state}"
            why_missing = f"{missing.rows - missing.published_rows:,} changes are not published: {why}"
            wanted = missing.state is not IntervalState.UNWANTED or self._has_published
            self._miss(first, last, why_missing, is_wanted=wanted)
        self._at = max(self._at, last)

    def _miss(self, first: int, last: int, why: str, *, is_wanted: bool) -> None:
        if self._stop is None and not is_wanted:
            self._since = last
            return
        if self._stop is None:
            self._stop, self._reason = first, why
        self._left.append((first, last))

    def reach(self, last_seq: int) -> PublishedReach:
        """What came of it."""
        left = tuple((first, min(last, last_seq)) for first, last in self._left if first < last_seq)
        return PublishedReach(last_seq if self._stop is None else self._stop, self._since, left, self._reason)
