"""Until when intervals may be closed.
Not here: closing them (`pending.py`), the commit clock (`position/clock.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strata_cdc.clock import now_micros
from strata_cdc.landing.landed import LandedStream
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.ticdc.land_sink import landed_until

if TYPE_CHECKING:
    import sqlalchemy as sa

    from strata_cdc.config.settings import Source

_CLOCKS_DIFFER_MICROS: Final = 60_000_000


def closable_until(source: Source, engine: sa.Engine, stream: LandedStream) -> int:
    """The time until which intervals may be closed, microseconds UTC.

    It is now, with two exceptions. A sink may be late, and what comes next was committed after its checkpoint. A server
    that does not log commit times has those of sessions: after one `SET TIMESTAMP` in the future, all that follows has
    that time, and would wait for it.
    """
    now = now_micros()
    if not source.is_sink and not is_ahead(stream, now):
        return now
    newest = IntervalLedger(engine).last(source.name)
    closed = 0 if newest is None else newest.end
    if source.is_sink:
        # TiDB's clock has milliseconds: what landed late of the last one gets an interval of its own.
        return min(now, max(landed_until(stream), closed + 1))
    return max(stream.clock, closed) + 1


def is_source_ahead(source: Source) -> bool:
    """Whether what has landed of a server is so far ahead that no time of now has the newest of it."""
    return not source.is_sink and is_ahead(LandedStream.open(source.lake, source.name), now_micros())


def is_ahead(stream: LandedStream, now: int) -> bool:
    """Whether the commit clock is later than `now` (microseconds UTC), by more than the clocks of machines differ."""
    return stream.clock > now + _CLOCKS_DIFFER_MICROS
