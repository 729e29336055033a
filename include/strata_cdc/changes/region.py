"""The bytes that cells point into.
Not here: reading them (`windows.py`), what is in the cells (`gather.py` and similar modules)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes

MARGIN = 2
"""Cells 0 and 1 mean NULL and absent, so a region's base is at least this many bytes before its first event."""
_FARTHEST_CELL = (1 << 32) - 1


class Region(Struct, frozen=True, eq=False):
    """A buffer, and the position in it from which cells are counted: a cell has 32 bits."""

    buffer: Bytes
    base: int
    """The position that cells are relative to."""

    def cell(self, place: int, size: int) -> bytes:
        """`size` bytes of a cell."""
        at = self.base + int(place)
        return self.buffer[at : at + size].tobytes()

    def reaches(self, begin: int, end: int) -> bool:
        """Whether cells can point at all bytes between two offsets."""
        return self.base <= begin - MARGIN and end - self.base <= _FARTHEST_CELL
