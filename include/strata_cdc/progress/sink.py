"""How far the folder of a TiCDC sink has landed, and what was special in it.
Not here: the steps after landing (`status.py`), landing (`ticdc/land_sink.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from strata_cdc.errors import Crossing, Location
from strata_cdc.position.commit_ts import time_of
from strata_cdc.schema.model.quadrants import crossed_line
from strata_cdc.ticdc.land_sink import landing_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.landing.landed import LandedStream
    from strata_cdc.ticdc.landed_rows import SinkCounts


class RowsAcross(Struct, frozen=True):
    """Rows whose data are of another schema than the one valid where they are."""

    table: str
    ddl: str
    """Its kind."""
    quadrant: str
    rows: int
    row: Location | None = None
    """The position of one of them, of the newest; None if it is not known."""
    made_at: Location | None = None
    """That of the DDL around which that row is; None likewise."""

    def line(self) -> str:
        """For people."""
        crossing = Crossing(self.ddl, self.quadrant, self.made_at or Location())
        return f"{self.table}: {crossed_line(self.rows, crossing, self.row)}"


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
        tuple(_across(counts)),
        sum(counts.repeats.values()),
        tuple(DroppedValues(*counted_rows) for counted_rows in counts.dropped),
    )


def _across(counts: SinkCounts) -> Iterator[RowsAcross]:
    newest = {(crossed.table, crossed.kind, crossed.quadrant): crossed for crossed in counts.newest}
    for *key, rows in counts.crossed:
        table, kind, quadrant = map(str, key)
        crossed = newest.get((table, kind, quadrant))
        locations = (crossed.row, crossed.made_at) if crossed is not None else ()
        yield RowsAcross(table, kind, quadrant, rows, *locations)
