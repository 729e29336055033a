"""Gathers cells of compressed columns of MariaDB: each value is inflated, then gathered as any other.
Not here: compressed events (`binlog/`), what is in the inflated cells (`gather_text.py`)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.layout import ABSENT_CELL, NULL_CELL
from strata_cdc.binlog.kernels.numbers import gather_little_endian
from strata_cdc.changes.faults import CorruptCell, Faults
from strata_cdc.changes.gather import LONGEST_DATA
from strata_cdc.changes.region import MARGIN, Region

if TYPE_CHECKING:
    import pyarrow as pa

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Ints
    from strata_cdc.changes.gather import Gather

INFLATED_PREFIX: Final = 4
"""Bytes of the length before an inflated cell."""
_ZLIB: Final = 8
_WITHOUT_WRAPPER: Final = 8
_LENGTH_BYTES: Final = 7
"""Of a value's first byte: the method in the upper half, a bit for deflate without zlib's wrapper, and the mask of the
number of bytes that the length has (sql/field_comp.cc)."""


class GatherCompressed(Struct, frozen=True, eq=False):
    """VARCHAR, VARBINARY, TEXT and BLOB with COMPRESSED."""

    prefix: int
    longest: int
    """Bytes that an inflated value may have."""
    inflated: Gather
    """How inflated cells, with `INFLATED_PREFIX` bytes of length, become an array."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        bad = np.zeros(len(cells), np.uint8)
        own, inflated = self._inflate(region, cells, bad)
        faults.add_cells(region, cells, bad, -self.prefix, "a compressed value contradicts itself")
        return self.inflated(inflated, own, faults)

    def sizes(self, region: Region, cells: Cells) -> Ints:
        """The bytes that each value says it has when it is inflated, at most those that the column may have."""
        lengths = np.zeros(len(cells), np.int64)
        gather_little_endian(region.buffer, region.base, cells, self.prefix, lengths)
        places = region.base + cells.astype(np.int64) + self.prefix
        heads = np.where(lengths > 0, region.buffer[np.where(lengths > 0, places, 0)], 0)
        sizes = np.zeros(len(cells), np.int64)
        for number in range(1, _LENGTH_BYTES + 1):
            rows = np.flatnonzero((heads >> 4 == _ZLIB) & (heads & _LENGTH_BYTES >= number) & (lengths > number))
            sizes[rows] = sizes[rows] << 8 | region.buffer[places[rows] + number]
        return np.minimum(np.maximum(sizes, lengths), self.longest)

    def _inflate(self, region: Region, cells: Cells, bad: Bytes) -> tuple[Cells, Region]:
        """The inflated cells and what they point into; cells of values that are marked in `bad` are NULL."""
        own = cells.copy()
        data = bytearray()
        for row in np.flatnonzero(cells > ABSENT_CELL).tolist():
            place = int(cells[row])
            size = int.from_bytes(region.cell(place, self.prefix), "little")
            value = inflated_value(region.cell(place + self.prefix, size), self.longest)
            if value is None:
                bad[row], own[row] = 1, NULL_CELL
                continue
            own[row] = len(data) + MARGIN
            data += len(value).to_bytes(INFLATED_PREFIX, "little") + value
            if len(data) > LONGEST_DATA:
                raise CorruptCell(row, "one column of one batch has more than 2 GiB of inflated data")
        return own, Region(np.frombuffer(data or bytearray(1), np.uint8), -MARGIN)


def inflated_value(value: bytes, longest: int) -> bytes | None:
    """The value of a cell of a compressed column; None if no server writes that.

    Args:
        value: The cell's bytes.
        longest: Bytes that the value may have; more are never inflated.
    """
    method = value[0] >> 4 if value else 0
    if method == 0:
        return value[1:]
    begin = 1 + (value[0] & _LENGTH_BYTES)
    size = int.from_bytes(value[1:begin], "big")
    if method != _ZLIB or size > longest or begin > len(value):
        return None
    stream = zlib.decompressobj(-zlib.MAX_WBITS if value[0] & _WITHOUT_WRAPPER else zlib.MAX_WBITS)
    try:
        # One byte more: only then it is known whether the stream ends after them.
        inflated = stream.decompress(value[begin:], size + 1)
    except zlib.error:
        return None
    return inflated if stream.eof and len(inflated) == size and not stream.unused_data else None
