"""Finds where the stream of a TiCDC sink begins and ends in what has landed of it, or why a position is not there.
Not here: what people write (`positions.py`), reading from there (`sink_stream.py`).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import to_micros
from strata_cdc.config.source_kinds import no_position
from strata_cdc.errors import BinlogPurgedError, SourceDivergedError, Usage
from strata_cdc.position.commit_ts import CommitStep, CommitTs
from strata_cdc.position.source_position import PartialTransaction, SourcePosition
from strata_cdc.streams.positions import Edge
from strata_cdc.ticdc.landed_steps import seq_of, step_at

if TYPE_CHECKING:
    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.streams.positions import Bound, StreamStart
    from strata_cdc.streams.request import StreamRequest


class SinkOpening(Struct, frozen=True):
    """Which part of the stream of a sink a reader gets."""

    at: CommitTs
    """The last landed commit that the reader has or does not want."""
    parts: tuple[PartialTransaction, ...] = ()
    """The next commit, if the reader has some of its rows."""
    after: CommitStep = CommitStep(0)
    """Nothing up to this step is yielded, also if it lands later."""
    end_seq: int | None = None
    """Ordinal of the last commit; None: what lands later is yielded, too."""
    end: CommitStep | None = None
    """Nothing after this step is yielded; None: there is no such end."""


def open_sink_at(landed: LandedStream, request: StreamRequest) -> SinkOpening:
    """Finds where a stream begins and ends.

    Args:
        landed: What has landed of the sink.
        request: What the reader requests.

    Raises:
        BinlogPurgedError: What follows the position was deleted by age.
        SourceDivergedError: The position is of another changefeed, or of another lake.
        Usage: The position means nothing for a sink, or nothing has landed.
        DamagedFileError: A segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    if not landed.segments and not request.follow:
        raise Usage(
            "nothing of the source has landed in this lake",
            source=landed.source,
            remedy=f"Run `strata land --source {landed.source}` first: streams of a sink read what has landed.",
        )
    if request.until is Edge.BEGINNING:
        raise Usage("a stream cannot end with the beginning", remedy="`--until` takes what `--from` takes.")
    start, until = request.start, request.until
    at, after = _begin(landed, start)
    parts = start.parts if isinstance(start, SourcePosition) else ()
    is_to_landed = until in (Edge.NOW, Edge.LANDED) or not request.follow
    return SinkOpening(at, parts, after, landed.last_seq if is_to_landed else None, _end(landed, until))


def _begin(landed: LandedStream, start: StreamStart) -> tuple[CommitTs, CommitStep]:
    """The last commit that is not wanted, and the step up to which nothing is wanted."""
    if isinstance(start, Edge):
        return _position(landed, landed.first_seq - 1 if start is Edge.BEGINNING else landed.last_seq), CommitStep(0)
    if isinstance(start, SourcePosition):
        return _refuse_other_feed(landed, start), CommitStep(0)
    after = _step_of(landed, start)
    if landed.segments and after < (gone := step_at(landed, landed.first_seq - 1)):
        raise _purged(landed, gone)
    return _position(landed, seq_of(landed, after)), after


def _end(landed: LandedStream, until: Bound | None) -> CommitStep | None:
    if until is None or isinstance(until, Edge):
        return None
    if not isinstance(until, SourcePosition):
        return _step_of(landed, until)
    position = _commit_ts(landed, until)
    if landed.first_seq - 1 <= position.seq <= landed.last_seq:
        _refuse_other_feed(landed, until)
    return max([position.at, *(part.transaction for part in until.parts if isinstance(part.transaction, CommitStep))])


def _step_of(landed: LandedStream, bound: object) -> CommitStep:
    match bound:
        case CommitStep():
            return bound
        case datetime():
            return CommitStep.before(to_micros(bound))
        case _:
            raise no_position(landed.source, f"{bound} is a position of a server's binlog")


def _commit_ts(landed: LandedStream, position: SourcePosition) -> CommitTs:
    if not isinstance(position.position, CommitTs):
        raise SourceDivergedError(
            f"the token is one of a server's binlog ({position.position.counted}), and the source is the folder of a "
            "TiCDC sink",
            source=landed.source,
            remedy="Its transactions are not in this stream. Begin with `--from beginning`, or at a time.",
        )
    return position.position


def _refuse_other_feed(landed: LandedStream, source_position: SourcePosition) -> CommitTs:
    """The position, if it is one of this stream."""
    position = _commit_ts(landed, source_position)
    if position.seq > landed.last_seq:
        raise _other_feed(landed, position, f"{landed.last_seq} commits have landed")
    if position.seq < landed.first_seq - 1:
        raise _purged(landed, step_at(landed, landed.first_seq - 1))
    step = step_at(landed, position.seq)
    if step != position.at:
        raise _other_feed(landed, position, f"commit {position.seq} is {step} here")
    for part in source_position.parts:
        # Of the next commit the reader has a part, so it had landed.
        following = step_at(landed, position.seq + 1) if position.seq < landed.last_seq else None
        if following != part.transaction:
            raise _other_feed(landed, position, f"the next commit is {following}, and not {part.transaction}")
    return position


def _position(landed: LandedStream, seq: int) -> CommitTs:
    return CommitTs(step_at(landed, seq), seq)


def _other_feed(landed: LandedStream, position: CommitTs, difference: str) -> SourceDivergedError:
    return SourceDivergedError(
        f"the position is commit {position.seq} at {position.at}, and {difference}: it is of another changefeed, or of "
        "another lake",
        source=landed.source,
        remedy="Its commits are not in this stream. Begin with `--from beginning`, or at a time.",
    )


def _purged(landed: LandedStream, earliest: CommitStep) -> BinlogPurgedError:
    return BinlogPurgedError(
        "the commits after the position were deleted from the lake by age; the earliest position that can still be "
        f"read is after {earliest}",
        source=landed.source,
        remedy=f"`strata stream --source {landed.source} --from beginning` begins there. Load what is missing once "
        "more.",
    ).beginning(earliest)
