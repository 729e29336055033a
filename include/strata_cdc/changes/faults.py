"""Values that a column's Arrow type cannot express, found while its cells are gathered.
Not here: what becomes of their rows (`batch.py`)."""

from __future__ import annotations

from base64 import b64encode
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells
    from strata_cdc.changes.region import Region


class FaultKind(Enum):
    """What follows from a fault."""

    INVALID = "invalid"
    """The row stays: a value that MySQL allows and Arrow does not, as a zero date."""
    UNDECODABLE = "undecodable"
    """The row is quarantined: the bytes are no text in the column's charset, or no label."""
    UNREADABLE = "unreadable"
    """The row is quarantined: the bytes contradict the column's type."""

    @property
    def quarantines(self) -> bool:
        """Whether the row goes into quarantine."""
        return self is not FaultKind.INVALID


class CellFault(Struct, frozen=True):
    """One value."""

    row: int
    """In its batch."""
    verbatim: str
    """The text that MySQL prints, or base64 of the cell's bytes where it has none."""
    kind: FaultKind
    reason: str
    """Without the value: it may be one that must not be shown."""


class CorruptCell(Exception):
    """The values do not fit into one batch; the code that knows the position turns it into a CorruptEventError."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.column = ""
        """Its name, once it is known."""


class Faults(Struct):
    """The faults of one column of one image of a batch."""

    found: list[CellFault] = field(default_factory=list)

    def add(self, row: int, verbatim: str, kind: FaultKind, reason: str) -> None:
        """Notes a fault."""
        self.found.append(CellFault(row, verbatim, kind, reason))

    def add_cells(
        self, region: Region, cells: Cells, bad: Bytes, width: int, reason: str, kind: FaultKind = FaultKind.UNREADABLE
    ) -> None:
        """Notes the cells that are marked in `bad`, by base64 of their bytes.

        Args:
            region: What the cells point into.
            cells: All of the column.
            bad: Not 0 for those at fault.
            width: Bytes of a cell; below 0 those of the length before it.
            reason: Without the values.
            kind: What follows.
        """
        for row in np.flatnonzero(bad).tolist():
            self.add(row, b64encode(_cell_bytes(region, int(cells[row]), width)).decode("ascii"), kind, reason)

    def add_forms(self, region: Region, cells: Cells, which: NDArray[np.bool_], width: int) -> None:
        """Notes texts of which the column's charset has another form, by their bytes as MySQL writes such: `0xED40`.

        Args:
            region: What the cells point into.
            cells: All of the column.
            which: Those that are such texts.
            width: As `add_cells`.
        """
        for row in np.flatnonzero(which).tolist():
            form = "0x" + _cell_bytes(region, int(cells[row]), width).hex().upper()
            self.add(row, form, FaultKind.INVALID, "one of several forms of its text")


def _cell_bytes(region: Region, cell: int, width: int) -> bytes:
    if width >= 0:
        return region.cell(cell, width)
    size = int.from_bytes(region.cell(cell, -width), "little")
    return region.cell(cell - width, size)
