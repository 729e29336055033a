"""How spans of time become intervals that own transactions: disjoint, without gaps, for ever.
Not here: where intervals are stored (`store/ledgers.py`), what is decoded for them (`plan_slices.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.runs.specs import Interval, TimeSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def cover(request: TimeSpan, owned: Sequence[Interval]) -> list[TimeSpan | Interval]:
    """Cuts a requested span at the intervals that exist: each that shares time with it, whole, and between them what
    nobody owns as new spans.

    An interval is all or nothing, so the result reaches out of the request where an interval does. It is in order of
    time and disjoint.
    """
    spans: list[TimeSpan | Interval] = []
    at = request.start
    for interval in sorted(owned, key=lambda interval: interval.start):
        if interval.end <= request.start or interval.start >= request.end:
            continue
        if at < interval.start:
            spans.append(TimeSpan(at, interval.start))
        spans.append(interval)
        at = max(at, interval.end)
    if at < request.end:
        spans.append(TimeSpan(at, request.end))
    return spans


def close(
    span: TimeSpan,
    owned: Sequence[Interval],
    seq_before: Callable[[int], int],
    gtid_executed_at: Callable[[int], str],
) -> Interval:
    """Decides, once, which transactions a span owns.

    Time only decides where a mark is first put: at a boundary that an interval has already, its mark is taken, so a
    transaction that landed late goes to the later side and is neither lost nor doubled.

    Args:
        span: Overlaps no interval in `owned`.
        owned: The intervals that exist.
        seq_before: From a time to the ordinal of the last transaction before it (0 if none).
        gtid_executed_at: From an ordinal to the GTID set executed up to and with it.
    """
    first = _mark(span.start, owned, seq_before)
    last = max(first, _mark(span.end, owned, seq_before))
    return Interval(span.start, span.end, first, last, gtid_executed_at(last))


def _mark(time: int, owned: Sequence[Interval], seq_before: Callable[[int], int]) -> int:
    """The ordinal of the last transaction on the earlier side of a boundary."""
    at_or_before = [interval for interval in owned if interval.end <= time]
    at_or_after = [interval for interval in owned if interval.start >= time]
    for interval in at_or_before:
        if interval.end == time:
            return interval.last_seq
    for interval in at_or_after:
        if interval.start == time:
            return interval.after_seq
    lowest = max((interval.last_seq for interval in at_or_before), default=0)
    highest = min((interval.after_seq for interval in at_or_after), default=None)
    seq = max(seq_before(time), lowest)
    return seq if highest is None else min(seq, highest)
