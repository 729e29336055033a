"""A moment of the past: one transaction boundary of a source's stream, for all of its tables.
Not here: the tables at that moment (`table_at.py`), positions in other forms (`progress/find_position.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from strata_cdc.clock import from_micros
from strata_cdc.errors import InvalidGtidSetError, PastUnknownError, StreamHoleError, Usage
from strata_cdc.landing.land_state import read_state
from strata_cdc.landing.landed import LandedStream
from strata_cdc.position.commit_ts import COMMIT_STEP, CommitStep
from strata_cdc.position.executed import parse_executed
from strata_cdc.position.port import Executed
from strata_cdc.store.ledgers import IntervalLedger
from strata_cdc.ticdc.land_sink import landed_until
from strata_cdc.ticdc.landed_steps import seq_at_step
from strata_cdc.time_text import parse_time

if TYPE_CHECKING:
    import sqlalchemy as sa

_LOOKS_LIKE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d")
_INTERVAL: Final = "interval "


class PastMoment(Struct, frozen=True):
    """The state after one transaction and before the next."""

    seq: int
    """Ordinal of the last transaction; 0 before the first."""
    gtid_executed: str = ""
    """What had been executed; empty if the source has no GTIDs, or if it is not known."""


class IntervalMark(Struct, frozen=True):
    """The end of an interval: what its store has noted of it stays after its segments are gone."""

    time: int
    """A time in the interval, microseconds UTC."""


MomentPoint = int | IntervalMark | CommitStep | Executed
"""A time in microseconds UTC, the end of an interval, a commit timestamp of TiDB, or a GTID set."""


def point_of(text: str) -> MomentPoint:
    """Reads a moment.

    Args:
        text: ISO 8601, in UTC unless it has a zone, with up to six digits of a second; such a time after the word
            `interval`, for the end of the interval that has the time; a commit timestamp of TiDB; or what a server
            prints as `gtid_executed` or `gtid_current_pos`.

    Raises:
        Usage: It is none of these; or it is blank, as a variable of a shell that is not set: to a server that is the
            set of no transaction.
    """
    if not text.strip():
        raise Usage("the moment is blank", remedy="Leave it out for the newest state, or name a time or a GTID set.")
    if _LOOKS_LIKE_TIME.match(text):
        return parse_time(text)
    if text.lower().startswith(_INTERVAL):
        return IntervalMark(parse_time(text[len(_INTERVAL) :]))
    if COMMIT_STEP.fullmatch(text):
        return CommitStep.parse(text)
    try:
        return parse_executed(text)
    except InvalidGtidSetError as error:
        raise Usage(
            f"{text!r} is neither a time, nor a GTID set, nor a commit timestamp of TiDB",
            remedy="A time begins with its date: 2026-02-01 12:00:00.",
        ) from error


def find_moment(lake: str, source: str, engine: sa.Engine, point: MomentPoint) -> PastMoment:
    """The moment of a time, of an interval's end, of a commit timestamp, or of a GTID set.

    Args:
        point: Microseconds UTC on the source's commit clock: the last transaction that was committed up to then, that
            time included; the end of an interval: all transactions up to it; a commit timestamp: all that was committed
            up to it, also a DDL that finished with it; or a GTID set: exactly these transactions.

    Raises:
        PastUnknownError: The landed stream does not show which transactions had been committed by then.
        Usage: The stream never was at this set, or no closed interval has the time.
        LakeUnavailableError: The storage does not answer.
    """
    if isinstance(point, IntervalMark):
        return _moment_of_mark(source, engine, point)
    stream = LandedStream.open(lake, source)
    if isinstance(point, int):
        return _moment_of_time(lake, stream, point)
    if isinstance(point, CommitStep):
        return PastMoment(seq_at_step(stream, point))
    try:
        return PastMoment(stream.seq_at(point), str(point))
    except (StreamHoleError, Usage):
        # The segments may have been deleted by age; closed intervals keep their marks.
        for interval in IntervalLedger(engine).all(source):
            if interval.gtid_executed and parse_executed(interval.gtid_executed) == point:
                return PastMoment(interval.last_seq, interval.gtid_executed)
        raise


def _moment_of_mark(source: str, engine: sa.Engine, mark: IntervalMark) -> PastMoment:
    interval = IntervalLedger(engine).at(source, mark.time)
    if interval is None:
        raise Usage(
            f"no closed interval has the time {from_micros(mark.time)}",
            source=source,
            remedy="`strata intervals` lists them; a time alone needs no interval.",
        )
    return PastMoment(interval.last_seq, interval.gtid_executed)


def _moment_of_time(lake: str, stream: LandedStream, time: int) -> PastMoment:
    begin = stream.segments[0].summary.clock_before if stream.segments else 0
    if stream.first_seq > 1 and time < begin:
        raise PastUnknownError(
            f"the landed stream begins at {from_micros(begin)}: which transactions had been committed by "
            f"{from_micros(time)} is not known any more",
            source=stream.source,
            remedy=f"Name the end of the interval that has the time: 'interval {from_micros(time):%Y-%m-%d %H:%M:%S}'.",
        )
    known = _known_until(lake, stream)
    # Times of MariaDB are whole seconds: another transaction of the last one's time may follow.
    if time >= known:
        raise PastUnknownError(
            f"the stream has landed up to {from_micros(known)}, and more may have been committed by "
            f"{from_micros(time)}",
            source=stream.source,
            remedy="`strata run` lands what is newer. If the server has committed nothing, leave the moment out: "
            "that is the newest state of the mirrors.",
        )
    seq = stream.seq_before(time + 1)
    return PastMoment(seq, str(stream.executed_at(seq)))


def _known_until(lake: str, stream: LandedStream) -> int:
    """The time before which all transactions have landed, microseconds UTC."""
    if not stream.has_server:
        return max(stream.clock, landed_until(stream) - 1)
    landing = read_state(lake, stream.source)
    complete = None if landing is None else landing.complete
    # It is stored while a segment may still be open.
    return stream.clock if complete is None or complete.seq > stream.last_seq else max(stream.clock, complete.time)
