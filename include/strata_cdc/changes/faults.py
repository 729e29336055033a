"""Values that a column's Arrow type cannot express, found while its cells are gathered.
Not here: what is done with their rows (`batch.py`)."""

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
    """The kind of a fault, which decides what is done with the row."""

    INVALID = "invalid"
    """The row stays: MySQL allows the value and Arrow does not, for example a zero date."""
    UNDECODABLE = "undecodable"
    """The row is quarantined: the bytes are not text in the column's charset, or not a label."""
    UNREADABLE = "unreadable"
    """The row is quarantined: the bytes contradict the column's type."""

    @property
    def quarantines(self) -> bool:
        """Whether the row goes into quarantine."""
        return self is not FaultKind.INVALID


class CellFault(Struct, frozen=True):
    """A value with a fault."""

    row: int
    """Number of its row in the batch."""
    verbatim: str
    """The text that MySQL prints, or base64 of the cell's bytes if there is no such text."""
    kind: FaultKind
    reason: str
    """Without the value, which may be secret."""


class CorruptCell(Exception):
    """The values do not fit into one batch; the code that knows the position turns it into a CorruptEventError."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason
        self.column = ""
        """Name of the column, once it is known."""


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
            region: The bytes that the cells point into.
            cells: All cells of the column.
            bad: Not 0 for cells with a fault.
            width: Bytes of a cell; if below 0, bytes of the length before it.
            reason: Without the values.
            kind: What is done with the rows.
        """
        for row in np.flatnonzero(bad).tolist():
            self.add(row, b64encode(_cell_bytes(region, int(cells[row]), width)).decode("ascii"), kind, reason)

    def add_forms(self, region: Region, cells: Cells, which: NDArray[np.bool_], width: int) -> None:
        """Notes texts that are not in the usual form of the column's charset, by their bytes in MySQL's form: `0xED40`.

        Args:
            region: The bytes that the cells point into.
            cells: All cells of the column.
            which: The cells with such texts.
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
