"""How far the folder of a TiCDC sink has landed, and what was special in it.
Not here: the steps after landing (`status.py`), landing (`ticdc/land_sink.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.position.commit_ts import time_of
from strata_cdc.ticdc.land_sink import landing_state

if TYPE_CHECKING:
    from strata_cdc.landing.landed import LandedStream


class RowsAcross(Struct, frozen=True):
    """Rows whose data are of another schema than the one valid at their commit."""

    table: str
    ddl: str
    """Its kind."""
    quadrant: str
    rows: int


class DroppedValues(Struct, frozen=True):
    """Values that the valid schema has no column for."""

    table: str
    column: str
    values: int


class SinkStatus(Struct, frozen=True):
    """What has landed of a sink, since its first landing."""

    commit_ts: int
    """Everything with smaller commit timestamps has landed."""
    until: int
    """The same by TiDB's clock, microseconds UTC."""
    crossed: tuple[RowsAcross, ...] = ()
    repeats: int = 0
    """Rows that came again, and were skipped."""
    dropped: tuple[DroppedValues, ...] = ()

    @property
    def crossed_rows(self) -> int:
        """All rows across a DDL; one across several DDL counts for each."""
        return sum(rows.rows for rows in self.crossed)


def sink_status(stream: LandedStream) -> SinkStatus | None:
    """What has landed of a sink; None if nothing has.

    Raises:
        BadData: The last segment is not as it was written.
        LakeUnavailableError: The storage does not answer.
    """
    state = landing_state(stream)
    if not state.end_ts:
        return None
    counts = state.counts
    return SinkStatus(
        state.end_ts,
        time_of(state.end_ts),
        tuple(RowsAcross(*counted_rows) for counted_rows in counts.crossed),
        sum(counts.repeats.values()),
        tuple(DroppedValues(*counted_rows) for counted_rows in counts.dropped),
    )
