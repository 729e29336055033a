"""Whether the clocks of a group were measured to agree around a cut. Commit times come from the servers' clocks: they
prove that a cut is common only if the clocks were right around the cut.
Not here: the cut (`common_cut.py`), measuring (`landing/clock_readings.py`).

For each source, there are two readings around the cut: that of the last landing that ended before the cut's time; and
that of the first landing that began after this time and has all of the cut, or what the server reports now. In both,
the clock must agree with the group's. The times of the transactions that landed in between must lie between the two
readings, and must not go back.

Between two readings, a clock may have been set, and set back. A clock that is set forward skips times: from one commit
to the next, or between a commit and a reading, it jumps by the amount. So if known times follow each other within
`bound`, the clock was not set forward by more than `bound` at once; then it was not set back and forward again either.
A pause proves nothing: what was committed after it may have been earlier by the pause's length, and what was committed
before it may have been later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strata_cdc.landing.clock_readings import clock_now, clock_readings, reading_between

if TYPE_CHECKING:
    from collections.abc import Mapping

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.config.settings import Source
    from strata_cdc.landing.clock_readings import ClockReading
    from strata_cdc.landing.landed import LandedStream


class CutPosition(NamedTuple):
    """The position of a cut in a source."""

    source: Source
    landed: LandedStream
    seq: int
    """Ordinal of the last transaction that is in the cut."""
    time: int
    """Time of the cut, by the source's own clock: microseconds UTC."""
    amount: int
    """How far that clock is past the group's (microseconds)."""


class _ReadingsAround(NamedTuple):
    before: ClockReading
    after: ClockReading


def clock_doubts(positions: Mapping[str, CutPosition], bound: int) -> dict[str, str]:
    """Returns for which sources it is not known that their clocks agreed with the group's around a cut, and why.

    Args:
        positions: The position of the cut, by source.
        bound: How much clocks that agree may differ, and commit times may differ from what was measured (microseconds).

    Returns:
        The reasons by source. The clocks of all other sources were measured to agree.
    """
    around = {name: _around(position) for name, position in positions.items()}
    known = {name: around_cut for name, around_cut in around.items() if isinstance(around_cut, _ReadingsAround)}
    doubts = {name: doubt for name, doubt in around.items() if isinstance(doubt, str)}
    amounts = {name: positions[name].amount for name in known}
    before, after = ({name: clocks[side] for name, clocks in known.items()} for side in (0, 1))
    for readings in (before, after):
        for name, away in _away(readings, amounts).items():
            if away > bound:
                doubts.setdefault(name, f"its clock was up to {away / 1e6:.3f} s away from the group's")
    for name, clocks in known.items():
        why = _contradiction(positions[name].landed, clocks, bound) or _unproved(positions[name], clocks, bound)
        if why:
            doubts.setdefault(name, why)
    return doubts


def _around(position: CutPosition) -> _ReadingsAround | str:
    readings = clock_readings(position.source.lake, position.source.name)
    earlier = [
        at for at, reading in enumerate(readings) if reading.end <= position.time and reading.seq <= position.seq
    ]
    if not earlier:
        return "its clock was not measured before the time of the cut"
    before = readings[earlier[-1]]
    after = [
        reading
        for reading in readings[earlier[-1] + 1 :]
        if reading.begin >= position.time and reading.seq >= position.seq
    ]
    last = after[0] if after else _reading_now(position)
    if last is None:
        return "its clock was not measured after the time of the cut"
    if last.server_uuid != before.server_uuid:
        return "another server took over around the time of the cut"
    return _ReadingsAround(before, last)


def _reading_now(position: CutPosition) -> ClockReading | None:
    now = clock_now(position.source.address)
    if now is None or now.clock < position.time or not now.executed <= position.landed.executed():
        return None
    return reading_between(now, now, position.landed.last_seq)


def _away(readings: Mapping[str, ClockReading], amounts: Mapping[str, int]) -> dict[str, int]:
    """How much each corrected clock may have differed from the median clock (microseconds)."""
    middles = sorted((reading.lowest + reading.highest) // 2 - amounts[name] for name, reading in readings.items())
    middle = middles[(len(middles) - 1) // 2] if middles else 0
    return {
        name: max(abs(edge - amounts[name] - middle) for edge in (reading.lowest, reading.highest))
        for name, reading in readings.items()
    }


class _Times(NamedTuple):
    """The times of transactions, in order."""

    seqs: Ints
    own: Ints
    """By the server's clock: microseconds UTC."""
    clock: Ints
    """By the stream's commit clock, which never goes back."""


def _times(landed: LandedStream, first: int, last: int) -> _Times:
    """The times of the transactions with first <= seq <= last."""
    parts = [np.empty((3, 0), np.int64)]
    for segment in landed.segments_of(first, last):
        for batch in segment.index.batches(first):
            seqs = batch.first_seq + np.arange(len(batch))
            inside = (seqs >= first) & (seqs <= last)
            parts.append(np.stack([seqs, batch.commit_timestamps, batch.committed_at]).astype(np.int64)[:, inside])
    return _Times(*np.concatenate(parts, axis=1))


def _contradiction(landed: LandedStream, around: _ReadingsAround, bound: int) -> str:
    """How commit times contradict the readings around them; empty: they do not."""
    first, last = around.before.seq + 1, around.after.seq
    if first < landed.first_seq and first <= last:
        return "what was committed around the cut has been deleted"
    times = _times(landed, first, last)
    if (back := int((times.clock - times.own).max(initial=0))) > bound:
        return f"its clock went back by {back / 1e6:.3f} s around the cut"
    earliest, latest = around.before.begin - bound, around.after.end + bound
    if np.any((times.own < earliest) | (times.own > latest)):
        return "its commit times are not those of the clock that was measured around them"
    return ""


def _unproved(position: CutPosition, around: _ReadingsAround, bound: int) -> str:
    """By how much time transactions may be on the wrong side of the cut, because the clock is not known in a pause;
    empty: by no more than the bound."""
    landed, (before, after) = position.landed, around
    if before.seq >= after.seq:
        return ""
    # What was committed during one of the two readings shows how the clock ran then.
    first = max(min(before.seq, landed.seq_before(before.begin)) + 1, landed.first_seq)
    times = _times(landed, first, max(after.seq, landed.seq_before(after.end)))
    known = np.maximum.accumulate(np.concatenate([[before.begin], times.own, [after.end]]))
    steps = np.diff(known)
    pauses = np.where(steps > bound, steps, 0)
    earlier, later = np.cumsum(pauses)[:-1], np.cumsum(pauses[::-1])[::-1][1:]
    away = np.where(
        times.seqs > position.seq, earlier - (times.own - position.time), later - (position.time - times.own)
    )
    worst = int(away[(times.seqs > before.seq) & (times.seqs <= after.seq)].max(initial=0))
    if worst <= bound:
        return ""
    return (
        f"its clock was not measured for {(after.end - before.begin) / 1e6:.3f} s around the cut, with pauses in what "
        f"was committed: had it been set in one, and set back, the cut would be off by up to {worst / 1e6:.3f} s"
    )
