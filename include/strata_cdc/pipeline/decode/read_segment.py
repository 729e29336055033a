"""Reads a planned slice by what its landed segment holds: events of a binlog, or rows of a TiCDC sink.
Not here: each way of reading (`changes/binlog_changes.py`, `ticdc/landed_slice.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_cdc.changes.binlog_changes import read_slice
from strata_cdc.ticdc.landed_slice import has_rows, read_sink_slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.changes.plan import Slice
    from strata_cdc.changes.port import ChangeBatch, Hole, Near, QuarantinedRows


def read_landed_slice(planned_slice: Slice, near: Near | None = None) -> Iterator[ChangeBatch | QuarantinedRows | Hole]:
    """The rows of a slice, as `ReadSlice`; `near` gives the versions next to that of a table, which only errors name.

    Raises:
        StrataError: As the way of reading.
    """
    return read_sink_slice(planned_slice) if has_rows(planned_slice.segment) else read_slice(planned_slice, near=near)
