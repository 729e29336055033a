"""The ways to name a position of a source's stream at which its history is queried.
Not here: which version is valid there (`historian.py`)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.position.binlog_position import BinlogPosition
    from strata_cdc.position.port import Executed


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AtSeq(Struct, frozen=True):
    """The position of the rows of the transaction with this ordinal; a DDL in the same transaction comes before its
    rows."""

    seq: int

    def __str__(self) -> str:
        return f"transaction {self.seq}"


class AtGtidSet(Struct, frozen=True):
    """The position after exactly these transactions."""

    gtid_set: Executed

    def __str__(self) -> str:
        return f"GTID set {self.gtid_set or 'of nothing'}"


class AtBinlog(Struct, frozen=True):
    """The position after all events that start before this offset of the server's file; also inside a transaction."""

    position: BinlogPosition

    def __str__(self) -> str:
        return f"{self.position.file} @ {self.position.offset}"


class AtTime(Struct, frozen=True):
    """The position after all transactions whose time on the commit clock is before this time."""

    time: int
    """Microseconds UTC."""

    def __str__(self) -> str:
        return f"{_EPOCH + timedelta(microseconds=self.time):%Y-%m-%d %H:%M:%S.%f} UTC"


StreamPosition = AtSeq | AtGtidSet | AtBinlog | AtTime
