"""A point of the landed stream in all of its forms: time, GTID set, file and offset, commit timestamp, ordinal.
Not here: the look-ups (`landing/landed.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.clock import from_micros
from strata_cdc.config.source_kinds import no_position
from strata_cdc.errors import Usage
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.commit_ts import COMMIT_STEP, CommitStep
from strata_cdc.position.executed import parse_executed
from strata_cdc.schema.answers.positions import at_time, position_of
from strata_cdc.schema.history.stream_positions import AtSeq
from strata_cdc.ticdc.landed_steps import seq_at_step, step_at, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strata_cdc.config.settings import Source
    from strata_cdc.schema.history.historian import History
    from strata_cdc.schema.history.stream_positions import StreamPosition


class StreamPoint(Struct, frozen=True):
    """A point between two transactions."""

    source: str
    seq: int
    """Ordinal of the last transaction before it; 0 at the beginning of the stream."""
    gtid: str | None
    """GTID of that transaction."""
    committed_at: str | None
    """Its time on the commit clock, ISO 8601, UTC."""
    binlog_position: str | None
    """Where the next transaction begins in the server's files, as FILE:OFFSET: the end of this one."""
    segment: str | None
    """The landed segment that holds it."""
    gtid_executed: str
    """All transactions that had been executed up to there."""
    commit_ts: str | None = None
    """Of a TiCDC sink the commit timestamp of that transaction, as a stream's `--from` takes it."""


def find_position(
    lake: str,
    source: str,
    *,
    time: int | None = None,
    gtid_set: str | None = None,
    file: str | None = None,
    commit_ts: str | None = None,
) -> StreamPoint:
    """The point that one of the arguments names.

    Args:
        time: Microseconds UTC: the point after all transactions that were committed before it.
        gtid_set: The point after exactly these transactions.
        file: `FILE:OFFSET`: the point after all transactions that begin before it.
        commit_ts: A commit timestamp of TiDB: the point after everything that was committed up to it, also a DDL that
            finished with it.

    Raises:
        Usage: The stream has no such point.
        LakeUnavailableError: The storage does not answer.
    """
    stream = LandedStream.open(lake, source)
    executed = None
    if time is not None:
        seq = stream.seq_before(time)
    elif commit_ts is not None:
        seq = seq_at_step(stream, CommitStep.parse(commit_ts))
    elif not stream.has_server:
        raise no_position(source, f"{gtid_set if file is None else file!r} is a position of a server's binlog")
    elif gtid_set is not None:
        executed = parse_executed(gtid_set)
        seq = stream.seq_at(executed)
    else:
        seq = stream.seq_at_position(BinlogPosition.parse(file or ""))
    at = None if stream.has_server else str(step_at(stream, seq))
    if seq < stream.first_seq:
        return StreamPoint(source, seq, None, None, None, None, str(stream.executed_before()), at)
    segment, record = stream.record_at(seq)
    return StreamPoint(
        source=source,
        seq=seq,
        gtid=str(record.gtid) if record.gtid else None,
        committed_at=from_micros(record.committed_at).isoformat(),
        binlog_position=f"{record.binlog_file}:{record.server_end}" if at is None else None,
        segment=segment.url,
        gtid_executed=str(executed or stream.executed_at(seq)),
        commit_ts=at,
    )


def commit_steps(source: Source, ordinals: Iterable[int], *, most_segments: int) -> dict[int, CommitStep]:
    """As `steps_of`, for a source that is a TiCDC sink."""
    return steps_of(LandedStream.open(source.lake, source.name), ordinals, most_segments=most_segments)


def schema_position(history: History, source: Source, text: str) -> StreamPosition:
    """The position of a source's history that a text names: of a server as `position_of`; of a TiCDC sink a commit
    timestamp or a time.

    Raises:
        Usage: The text has none of the forms, or the source has no such position.
        UnknownSourceError: The source has never been tracked.
        LakeUnavailableError: The storage does not answer.
    """
    text = text.strip()
    if not source.is_sink:
        return position_of(history, text)
    if COMMIT_STEP.fullmatch(text):
        return AtSeq(seq_at_step(LandedStream.open(source.lake, source.name), CommitStep.parse(text)))
    try:
        return at_time(history, text)
    except Usage:
        raise no_position(source.name, f"{text!r} is no position") from None
