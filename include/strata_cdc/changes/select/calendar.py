"""Cells of dates and moments from a SELECT: Arrow's values, and the text of invalid dates.
Not here: how the cells are filled (`binlog/kernels/result_rows.py`), the same for the binlog
(`changes/invalid.py`)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.binlog.kernels import numbers
from strata_cdc.binlog.kernels.result_rows import CLOCK_BITS, NO_DAY, NO_MOMENT
from strata_cdc.changes.faults import FaultKind, Faults
from strata_cdc.changes.gather import array_of

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Cells
    from strata_cdc.changes.region import Region

_FIRST_DAY: Final = -(1 << 30)
_FIRST_MOMENT: Final = -(1 << 61)
"""Far below all days and moments of the calendar, and far above the numbers that represent invalid ones."""
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - a time without a zone, as DATETIME is
_REASON: Final = "not a date of the calendar"


class GatherDays(Struct, frozen=True):
    """DATE."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        out = np.zeros(len(cells), np.int32)
        numbers.gather_4(region.buffer, region.base, cells, 0x80000000, out)
        bad = out < _FIRST_DAY
        texts = {value: day_text(value) for value in np.unique(out[bad]).tolist()} if bad.any() else {}
        for row in np.flatnonzero(bad).tolist():
            faults.add(row, texts[int(out[row])], FaultKind.INVALID, _REASON)
        return array_of(pa.date32(), cells, out, bad.view(np.uint8) if texts else None)


class GatherMoments(Struct, frozen=True):
    """DATETIME and TIMESTAMP with `digits` digits after the second."""

    type: pa.DataType
    digits: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        out = np.zeros(len(cells), np.int64)
        numbers.gather_8(region.buffer, region.base, cells, out)
        bad = out < _FIRST_MOMENT
        texts = {value: moment_text(value, self.digits) for value in np.unique(out[bad]).tolist()} if bad.any() else {}
        for row in np.flatnonzero(bad).tolist():
            faults.add(row, texts[int(out[row])], FaultKind.INVALID, _REASON)
        return array_of(self.type, cells, out, bad.view(np.uint8) if texts else None)


def day_text(cell: int) -> str:
    """The value of a cell of a DATE as MySQL prints it."""
    if cell >= _FIRST_DAY:
        return (_EPOCH + timedelta(days=cell)).date().isoformat()
    return _parts_text(cell - NO_DAY)


def moment_text(cell: int, digits: int) -> str:
    """The value of a cell of a DATETIME or TIMESTAMP as MySQL prints it, with `digits` digits after the second."""
    if cell >= _FIRST_MOMENT:
        text = (_EPOCH + timedelta(microseconds=cell)).isoformat(" ", "microseconds")
    else:
        day, micros = divmod(cell - NO_MOMENT, 1 << CLOCK_BITS)
        text = f"{_parts_text(day)} {(_EPOCH + timedelta(microseconds=micros)).time().isoformat('microseconds')}"
    return text[: len("0000-00-00 00:00:00.") + digits] if digits else text[: len("0000-00-00 00:00:00")]


def _parts_text(packed: int) -> str:
    return f"{packed >> 9:04}-{packed >> 5 & 15:02}-{packed & 31:02}"
