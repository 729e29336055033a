"""A point of the landed stream in all of its forms: time, GTID set, file and offset, ordinal.
Not here: the look-ups (`landing/landed.py`)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from strata_cdc.clock import from_micros
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.binlog_position import BinlogPosition
from strata_cdc.position.executed import parse_executed
from strata_cdc.values import to_plain


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

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return to_plain(self)


def find_position(
    lake: str,
    source: str,
    *,
    time: int | None = None,
    gtid_set: str | None = None,
    file: str | None = None,
) -> StreamPoint:
    """The point that one of the three arguments names.

    Args:
        time: Microseconds UTC: the point after all transactions that were committed before it.
        gtid_set: The point after exactly these transactions.
        file: `FILE:OFFSET`: the point after all transactions that begin before it.

    Raises:
        Usage: The stream has no such point.
        LakeUnavailableError: The storage does not answer.
    """
    stream = LandedStream.open(lake, source)
    executed = None
    if time is not None:
        seq = stream.seq_before(time)
    elif gtid_set is not None:
        executed = parse_executed(gtid_set)
        seq = stream.seq_at(executed)
    else:
        seq = stream.seq_at_position(BinlogPosition.parse(file or ""))
    if seq < stream.first_seq:
        return StreamPoint(source, seq, None, None, None, None, str(stream.executed_before()))
    segment, record = stream.record_at(seq)
    return StreamPoint(
        source=source,
        seq=seq,
        gtid=str(record.gtid) if record.gtid else None,
        committed_at=from_micros(record.committed_at).isoformat(),
        binlog_position=f"{record.binlog_file}:{record.binlog_pos + record.end - record.begin}",
        segment=segment.url,
        gtid_executed=str(executed or stream.executed_at(seq)),
    )
