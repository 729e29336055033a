"""Gathers cells of numbers, dates and times: each class fills one Arrow array from a column's cells.
Not here: text and bytes (`gather_text.py`), which class a column gets (`column_plans.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata_cdc.arrow_columns import to_numbers
from strata_cdc.binlog.bytes.codes import FieldType
from strata_cdc.binlog.kernels import decimals, numbers, temporal
from strata_cdc.binlog.kernels.layout import ABSENT_CELL
from strata_cdc.binlog.kernels.nulls import cell_validity, count_nulls
from strata_cdc.changes.arrow import TIMESTAMP_UTC, UNSIGNED_BIGINT
from strata_cdc.changes.faults import FaultKind, Faults
from strata_cdc.changes.invalid import is_kept, temporal_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Ints
    from strata_cdc.changes.region import Region

LONGEST_DATA = 2**31 - 1
"""Bytes of text or binary data that one array may hold: Arrow's offsets have 32 bits."""

_WORD_BITS = 64
_NO_DIGITS = "a DECIMAL has digits above 9"


class Gather(Protocol):
    """Turns one column's cells into an Arrow array."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """The array of the column. Values that it cannot express, or that cannot be read, are NULL and noted in
        `faults`.

        Raises:
            CorruptCell: The values of the batch are larger than one array allows.
        """


def validity(cells: Cells, bad: Bytes | None = None) -> tuple[pa.Buffer | None, int]:
    """Arrow's bitmap of the cells that exist and are not `bad`, and the number of the others; no bitmap if there are
    none."""
    nulls = count_nulls(cells)
    if nulls == 0 and bad is None:
        return None, 0
    bitmap = np.zeros((len(cells) + 7) >> 3, np.uint8)
    cell_validity(cells, bitmap)
    if bad is not None:
        bitmap &= np.packbits(bad == 0, bitorder="little")
        nulls += int(np.count_nonzero(bad))
    return pa.py_buffer(bitmap), int(nulls)


def array_of(kind: pa.DataType, cells: Cells, values: NDArray[Any], bad: Bytes | None = None) -> pa.Array:
    """An array of fixed width over `values`."""
    bitmap, nulls = validity(cells, bad)
    return pa.Array.from_buffers(kind, len(cells), [bitmap, pa.py_buffer(values)], nulls)


class GatherIntegers(Struct, frozen=True):
    """TINYINT to INT, and FLOAT as its bits."""

    type: pa.DataType
    kernel: Callable[[Bytes, int, Cells, int, NDArray[Any]], None]
    sign: int
    dtype: Any

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        out = np.empty(len(cells), self.dtype)
        self.kernel(region.buffer, region.base, cells, self.sign, out)
        return array_of(self.type, cells, out)


class GatherLongs(Struct, frozen=True):
    """BIGINT, and DOUBLE as its bits."""

    type: pa.DataType

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        out = np.empty(len(cells), np.int64)
        numbers.gather_8(region.buffer, region.base, cells, out)
        return array_of(self.type, cells, out)


class GatherUnsigned(Struct, frozen=True):
    """BIGINT UNSIGNED, and the numbers of ENUM and SET values."""

    type: pa.DataType
    size: int

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        out = np.empty(len(cells), np.int64)
        numbers.gather_little_endian(region.buffer, region.base, cells, self.size, out)
        return _unsigned_array(self.type, cells, out)


class GatherBits(Struct, frozen=True):
    """BIT; BIT(1) becomes a boolean."""

    type: pa.DataType
    bits: int
    size: int
    """Bytes of a cell."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        out = np.empty(len(cells), np.int64)
        numbers.gather_big_endian(region.buffer, region.base, cells, self.size, out)
        bad: Bytes | None = None
        if self.bits < _WORD_BITS and (out >> self.bits).any():
            bad = (out >> self.bits != 0).astype(np.uint8)
            faults.add_cells(region, cells, bad, self.size, f"a BIT({self.bits}) has more bits than that")
        if self.bits == 1:
            return array_of(self.type, cells, np.packbits(out.astype(np.bool_), bitorder="little"), bad)
        return _unsigned_array(self.type, cells, out, bad)


def _unsigned_array(kind: pa.DataType, cells: Cells, values: Ints, bad: Bytes | None = None) -> pa.Array:
    """Unsigned numbers from their bits, in a wider type if the array's type is signed."""
    if kind != UNSIGNED_BIGINT:
        return array_of(kind, cells, values, bad)
    wide = np.empty(2 * len(cells), np.int64)
    numbers.widen_unsigned(values, wide)
    return array_of(kind, cells, wide, bad)


class GatherYears(Struct, frozen=True):
    """YEAR; of YEAR(2), which MariaDB has, the two digits that a SELECT gives."""

    digits: int = 4

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`."""
        out = np.empty(len(cells), np.int16)
        numbers.gather_years(region.buffer, region.base, cells, out)
        return array_of(pa.int16(), cells, out % 100 if self.digits == 2 else out)


class GatherDecimals(Struct, frozen=True):
    """DECIMAL of up to 38 digits."""

    precision: int
    scale: int
    size: int
    """Bytes of a cell."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        out = np.empty(2 * len(cells), np.int64)
        bad = np.zeros(len(cells), np.uint8)
        wrong = decimals.gather_decimals(region.buffer, region.base, cells, self.precision, self.scale, out, bad)
        if wrong:
            faults.add_cells(region, cells, bad, self.size, _NO_DIGITS)
        return array_of(pa.decimal128(self.precision, self.scale), cells, out, bad if wrong else None)


class GatherLongDecimals(Struct, frozen=True):
    """DECIMAL of 39 to 65 digits, as text."""

    precision: int
    scale: int
    size: int
    """Bytes of a cell."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        out = np.empty((self.precision + 3) * len(cells), np.uint8)
        offsets = np.empty(len(cells) + 1, np.int32)
        bad = np.zeros(len(cells), np.uint8)
        wrong = decimals.gather_decimal_texts(
            region.buffer, region.base, cells, self.precision, self.scale, offsets, out, bad
        )
        if wrong:
            faults.add_cells(region, cells, bad, self.size, _NO_DIGITS)
        bitmap, nulls = validity(cells, bad if wrong else None)
        buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.string(), len(cells), buffers, nulls)


class GatherTemporals(Struct, frozen=True):
    """DATE, DATETIME, TIMESTAMP and TIME in all their forms."""

    code: int
    fsp: int
    size: int
    """Bytes of a cell."""

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:
        """As `Gather`."""
        dates = self.code in (FieldType.DATE, FieldType.NEWDATE)
        out = np.empty(len(cells), np.int32 if dates else np.int64)
        bad = np.zeros(len(cells), np.uint8)
        wrong = self._gather(region, cells, out, bad)
        if wrong:
            impossible = np.zeros(len(cells), np.uint8)
            for row in np.flatnonzero(bad):
                text = temporal_text(self.code, self.fsp, region.cell(cells[row], self.size))
                if is_kept(text, self.fsp):
                    faults.add(int(row), text, FaultKind.INVALID, "not a date of the calendar")
                else:
                    impossible[row] = 1
            faults.add_cells(region, cells, impossible, self.size, "no date or time that MySQL keeps")
        return array_of(self._type(), cells, out, bad if wrong else None)

    def _type(self) -> pa.DataType:
        if self.code in (FieldType.DATE, FieldType.NEWDATE):
            return pa.date32()
        if self.code in (FieldType.TIME, FieldType.TIME2):
            return pa.int64()
        stamps = self.code in (FieldType.TIMESTAMP, FieldType.TIMESTAMP2)
        return TIMESTAMP_UTC if stamps else pa.timestamp("us")

    def _gather(self, region: Region, cells: Cells, out: NDArray[Any], bad: Bytes) -> int:
        where = (region.buffer, region.base, cells)
        if self.code in _WITHOUT_FRACTION and not self.fsp:
            return int(_WITHOUT_FRACTION[self.code](*where, out, bad))
        return int(_WITH_FRACTION[self.code](*where, self.fsp, out, bad))


_WITH_FRACTION: Final[dict[int, Callable[..., int]]] = {
    FieldType.DATETIME2: temporal.gather_datetimes,
    FieldType.TIMESTAMP2: temporal.gather_timestamps,
    FieldType.TIME2: temporal.gather_times,
    FieldType.DATETIME: temporal.gather_hires_datetimes,
    FieldType.TIMESTAMP: temporal.gather_hires_timestamps,
    FieldType.TIME: temporal.gather_hires_times,
}
_WITHOUT_FRACTION: Final[dict[int, Callable[..., int]]] = {
    FieldType.DATETIME: temporal.gather_old_datetimes,
    FieldType.TIMESTAMP: temporal.gather_old_timestamps,
    FieldType.TIME: temporal.gather_old_times,
    FieldType.DATE: temporal.gather_dates,
    FieldType.NEWDATE: temporal.gather_dates,
}


class GatherDefault(Struct, frozen=True):
    """The default of a column that the log lacks: its literal if it has one of the column's type, else NULL."""

    type: pa.DataType
    default: str | None

    def __call__(self, region: Region, cells: Cells, faults: Faults) -> pa.Array:  # noqa: ARG002 - none can be wrong
        """As `Gather`; a cell only shows whether the row has the image."""
        try:
            value = pa.scalar(self.default).cast(self.type)
        except pa.ArrowException:
            value = pa.scalar(None, self.type)
        first = np.zeros(len(cells), np.int64)
        return pa.repeat(value, 1).take(to_numbers(first, nulls=cells <= ABSENT_CELL))
