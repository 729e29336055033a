"""Commit timestamps of a landed sink, and the ordinals of its commits: each from the other.
Not here: segments (`landed_rows.py`), times (`landing/landed.py`)."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from strata_cdc.errors import StrataError, Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.commit_ts import CommitStep, refuse_commit_ts, time_of
from strata_cdc.ticdc.landed_rows import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.config.settings import Source


def step_at(landed: LandedStream, seq: int) -> CommitStep:
    """Returns what an ordinal has; of the one before the first, too.

    Raises:
        DamagedFileError: The segment is not as it was written.
        StoreFormatError: A former version landed it, and kept no timestamps.
        LakeUnavailableError: The storage does not answer.
    """
    if not landed.segments:
        return CommitStep(0)
    if seq < landed.first_seq:
        return SegmentRows(landed.segments[0]).contents.before
    segment = landed.segments_of(seq, seq)[0]
    return SegmentRows(segment).steps()[seq - segment.summary.first_seq]


class CommitPlaces:
    """Where a DDL is in a sink, for people: its schema file, which is not stored, has the timestamp in its name."""

    def __init__(self, lake: str, source: str) -> None:
        self._lake, self._source = lake, source

    @cached_property
    def _landed(self) -> LandedStream:
        return LandedStream.open(self._lake, self._source)

    def text(self, seq: int) -> str:
        """`commit-ts 449012345678901234`; empty of what the lake does not have any more, or not now."""
        with suppress(StrataError):
            steps = steps_of(self._landed, [seq], most_segments=1)
            if seq in steps:
                return f"commit-ts {steps[seq].ts}"
        return ""


def commit_places(source: Source) -> CommitPlaces | None:
    """Of a source that is a TiCDC sink; None of a server."""
    return CommitPlaces(source.lake, source.name) if source.is_sink else None


def seq_of(landed: LandedStream, step: CommitStep) -> int:
    """The ordinal of the last landed commit up to a step; that before the first one if the step is before it.

    Raises:
        As `step_at`.
    """
    if not landed.segments:
        return 0
    before = max(landed.seq_before(time_of(step.ts)), landed.first_seq - 1)
    for segment in landed.segments_after(before):
        steps = SegmentRows(segment).steps()
        count = bisect_right(steps, step)
        if count < len(steps):
            return segment.summary.first_seq - 1 + count
    return landed.last_seq


def steps_of(landed: LandedStream, ordinals: Iterable[int], *, most_segments: int) -> dict[int, CommitStep]:
    """The steps of some ordinals, as far as they are landed and few segments have them: each segment is read.

    Raises:
        As `step_at`.
    """
    steps: dict[int, CommitStep] = {}
    of_segments: dict[str, tuple[CommitStep, ...]] = {}
    for seq in ordinals:
        if not landed.segments or not landed.first_seq <= seq <= landed.last_seq:
            continue
        segment = landed.segments_of(seq, seq)[0]
        if segment.url not in of_segments:
            if len(of_segments) == most_segments:
                break
            of_segments[segment.url] = SegmentRows(segment).steps()
        steps[seq] = of_segments[segment.url][seq - segment.summary.first_seq]
    return steps


def seq_at_step(landed: LandedStream, step: CommitStep) -> int:
    """As `seq_of`, if all commits up to the step are known.

    Raises:
        Usage: The source is no sink, has not landed up to there, or its commits of then were deleted by age.
        DamagedFileError: The segment is not as it was written.
        StoreFormatError: A former version landed it, and kept no timestamps.
        LakeUnavailableError: The storage does not answer.
    """
    if not landed.segments:
        raise Usage(f"nothing has landed yet, so nothing is known of {step}", source=landed.source)
    if landed.has_server:
        raise refuse_commit_ts(str(step), "a time as in `2026-11-21 03:30:00` (UTC), or a GTID set", landed.source)
    end = SegmentRows(landed.segments[-1]).contents.state.end_ts
    if step.ts >= end:
        raise Usage(
            f"what was committed up to {step} has not landed yet: the landed commits are those below {end}",
            source=landed.source,
            remedy=f"Run `strata run --source {landed.source}` when the changefeed's checkpoint is later.",
        )
    if step < (gone := step_at(landed, landed.first_seq - 1)):
        raise Usage(
            f"the commits after {step} were deleted from the lake by age; those after {gone} are there",
            source=landed.source,
            remedy="Give a later commit timestamp.",
        )
    return seq_of(landed, step)
