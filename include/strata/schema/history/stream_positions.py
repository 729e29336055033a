"""The ways to name a position of a source's stream, as its history is asked at one.
Not here: what held there (`historian.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata.gtid.position import BinlogPosition
    from strata.gtid.sets import GtidSet


class AtSeq(Struct, frozen=True):
    """As rows of the transaction with this ordinal see it; a DDL in the same transaction comes before its rows."""

    seq: int

    def __str__(self) -> str:
        return f"transaction {self.seq}"


class AtGtidSet(Struct, frozen=True):
    """After exactly these transactions."""

    gtid_set: GtidSet

    def __str__(self) -> str:
        return f"GTID set {self.gtid_set or 'of nothing'}"


class AtBinlog(Struct, frozen=True):
    """After all events that start before this offset of the server's file; also in the middle of a transaction."""

    position: BinlogPosition

    def __str__(self) -> str:
        return f"{self.position.file} @ {self.position.offset}"


class AtTime(Struct, frozen=True):
    """After all transactions whose time on the commit clock is before this one."""

    time: int
    """Microseconds UTC."""

    def __str__(self) -> str:
        return f"commit time {self.time} us"


StreamPosition = AtSeq | AtGtidSet | AtBinlog | AtTime
