"""Where a stream begins and ends: what people write, and what it means for a stream that is there.
Not here: reading from there (`seam.py`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from strata.errors import Usage
from strata.gtid.position import BinlogPosition
from strata.gtid.sets import GtidSet
from strata.gtid.token import FilePosition, Place, Token
from strata.gtid.token_text import from_text

if TYPE_CHECKING:
    from strata.events.model import TransactionRecord

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?")
_FILE: Final = re.compile(r"[^:,\s]+\.\d+:\d+")


class Edge(Enum):
    """A position that needs no other word."""

    BEGINNING = "beginning"
    """The first transaction that can be had."""
    NOW = "now"
    """Behind all that the server has executed when the stream is opened."""
    LANDED = "landed"
    """Behind all that has landed then; no server is asked."""


Bound = Edge | Place | GtidSet | BinlogPosition | datetime
"""A time is exclusive as an end: the first transaction at or after it begins a stream, and does not end one."""


def parse_bound(text: str, source: str, lineage: str = "") -> Bound:
    """Reads `beginning`, `now`, `landed`, a token, a time, FILE:OFFSET or a GTID set.

    Args:
        text: What somebody wrote.
        source: Name of the source, which a token has to be of.
        lineage: The source's.

    Raises:
        InvalidTokenError: It looks like a token, and is none, or is damaged.
        InvalidGtidSetError: It is nothing of these.
        Usage: A token of another source, or of another history of it; a time that is none.
    """
    text = text.strip()
    if text in {edge.value for edge in Edge}:
        return Edge(text)
    if re.match(r"v\d+\.", text):
        return place_of(from_text(text), source, lineage)
    if _TIME.fullmatch(text):
        return parse_time(text)
    if _FILE.fullmatch(text):
        return BinlogPosition.parse(text)
    return GtidSet.parse(text)


def parse_time(text: str) -> datetime:
    """A time, UTC unless it says otherwise.

    Raises:
        Usage: It is not ISO 8601.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise Usage(f"{text!r} is no time", remedy="Write it as in `2026-11-21 03:30:00` (UTC).") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def place_of(token: Token, source: str, lineage: str = "") -> Place:
    """Where a token says that a source is.

    Raises:
        Usage: It does not name the source, or is of another history of it.
    """
    found = [place for place in token.places if place.source == source]
    if not found:
        named = ", ".join(place.source for place in token.places) or "no source"
        raise Usage(
            f"the token is of {named}, not of {source}",
            source=source,
            remedy="`strata token show TOKEN` shows what is in it.",
        )
    if found[0].lineage != lineage:
        raise Usage(
            f"the token is of another history of the source: its lineage is {found[0].lineage!r}, and that of the "
            f"settings is {lineage!r}",
            source=source,
            remedy="Its transactions are not in this stream. Begin with `--from beginning`, or at a time.",
        )
    return found[0]


def micros(time: datetime) -> int:
    """Microseconds UTC."""
    return (time - _EPOCH) // timedelta(microseconds=1)


class Begin:
    """Which transactions of a stream are behind the position where a reader begins."""

    def __init__(self, bound: Place | GtidSet | BinlogPosition | datetime | None) -> None:
        """Takes the position; None where each transaction that comes is behind it."""
        self._time = micros(bound) if isinstance(bound, datetime) else None
        self._at = bound if isinstance(bound, BinlogPosition) else None
        self._executed = bound if isinstance(bound, GtidSet) else None
        self._steps: dict[str, int] = {}
        self._file_steps = 0
        if isinstance(bound, Place):
            if isinstance(bound.position, FilePosition):
                self._at, self._file_steps = bound.position.at, bound.position.steps
            else:
                self._executed = bound.position
                self._steps = {str(part.gtid): part.steps for part in bound.parts}

    def is_in_front_of(self, record: TransactionRecord) -> bool:
        """Whether a transaction is to be given."""
        if self._time is not None:
            return record.committed_at >= self._time
        if self._at is not None:
            return BinlogPosition.of(record.binlog_file, record.binlog_pos) >= self._at
        if self._executed is not None and record.gtid is not None:
            return not self._executed.contains(record.gtid)
        return True

    def steps_given(self, record: TransactionRecord) -> int:
        """How many steps of a transaction had been given."""
        if self._file_steps and self._at == BinlogPosition.of(record.binlog_file, record.binlog_pos):
            return self._file_steps
        return self._steps.get(str(record.gtid), 0) if self._steps and record.gtid is not None else 0


class End:
    """Where a stream ends, by one of several ways to say it."""

    def __init__(self, bound: Place | GtidSet | BinlogPosition | datetime | int) -> None:
        """Takes the position; a number is the ordinal of the last transaction."""
        self.time = micros(bound) if isinstance(bound, datetime) else None
        self.seq = bound if isinstance(bound, int) else None
        self._at = bound if isinstance(bound, BinlogPosition) else None
        self._executed = bound if isinstance(bound, GtidSet) else None
        self._left, self._had = 0, GtidSet()
        """How many transactions of the set are to come, and what the reader had before them."""
        if isinstance(bound, Place):
            if isinstance(bound.position, FilePosition):
                self._at = bound.position.at
            else:
                self._executed = bound.executed()

    def stand_behind(self, executed: GtidSet) -> None:
        """Counts what is to come behind a GTID set."""
        if self._executed is not None:
            self._had, self._left = executed, (self._executed - executed).count()

    def is_in_front_of(self, record: TransactionRecord) -> bool:
        """Whether a transaction is not given any more."""
        if self.time is not None:
            return record.committed_at >= self.time
        if self._at is not None:
            return BinlogPosition.of(record.binlog_file, record.binlog_pos) >= self._at
        return self.seq is not None and record.seq > self.seq

    def takes_last(self, record: TransactionRecord) -> bool:
        """Takes the next transaction; returns whether it is the last."""
        if self._executed is not None:
            gtid = record.gtid
            self._left -= gtid is not None and self._executed.contains(gtid) and not self._had.contains(gtid)
            return self._left <= 0
        if self._at is not None:
            end = record.binlog_pos + record.end - record.begin
            return BinlogPosition.of(record.binlog_file, end) >= self._at
        return self.seq is not None and record.seq >= self.seq

    def is_reached(self, seq: int, at: BinlogPosition | None) -> bool:
        """Whether nothing is to come behind a place, as far as that tells."""
        if self._executed is not None:
            return self._left <= 0
        if self._at is not None:
            return at is not None and at >= self._at
        return self.seq is not None and seq >= self.seq
