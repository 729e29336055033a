"""Extracts the rows of a result set from the packets of the client protocol, as cells that the decoder's gathers read.
Not here: the socket (`binlog/protocol/result_sets.py`), which form a column has (`changes/select/forms.py`), the
gathers (`changes/`).

Format: rows of the binary protocol (manual, "Binary Protocol Resultset Row"; sql/protocol_classic.cc): a zero, one
bit per column for NULL from bit 2 on, then the values. Values are copied, so that the packets can be dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from strata_cdc.binlog.kernels.decimals import LIMB, power_of_ten
from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, NULL_CELL
from strata_cdc.binlog.kernels.memory import copy_bytes, load_i64, load_u8, load_u16, load_u32
from strata_cdc.binlog.kernels.packets import PACKET_HEADER_BYTES, Packet
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.kernels.temporal import DAY, NO_DATE, SECOND, days_from_civil

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, IntRows, Ints

# Forms of a value -------------------------------------------------------------------------------
FIXED: Final = 0
"""A fixed number of bytes, unchanged."""
TEXT: Final = 1
"""A length and bytes; the cell has the length in four bytes."""
EXACT: Final = 2
"""The same with a known length; the cell has only the bytes."""
DATE: Final = 3
"""The cell has days since 1970 in four bytes; for a day that no calendar has, `NO_DAY` and its parts."""
MOMENT: Final = 4
"""The cell has microseconds since 1970 in eight bytes; for such a day, `NO_MOMENT`, its parts and the time of day."""
TIME: Final = 5
"""The cell has microseconds in eight bytes."""
DECIMAL: Final = 6
"""Digits, with a fixed number of them after the point; the cell is a 128-bit number."""
DIGITS: Final = 7
"""Digits as text, without the zeros of ZEROFILL; the cell is as for TEXT."""

FORM: Final = 0
SIZE: Final = 1
FORM_FIELDS: Final = 2

# Entries of the state ---------------------------------------------------------------------------
ROWS: Final = 0
"""Number of rows whose cells were written."""
USED: Final = 1
"""Bytes of `out` that are used."""
STATE_FIELDS: Final = 2

NO_DAY: Final = -(1 << 31)
"""Added to year << 9 | month << 5 | day. All days of the calendar up to the year 9999 are far above it."""
NO_MOMENT: Final = -(1 << 63)
"""Added to (the same as for `NO_DAY`) << CLOCK_BITS | microseconds of the day."""
CLOCK_BITS: Final = 37

LONGEST_PIECE: Final = 0xFFFFFF
"""A packet of this length is continued in the next one (manual, "Sending More Than 16Mb")."""
IN_PIECES: Final = 35
"""The row is in several packets: the caller joins them."""
ROOM_PER_CELL: Final = 17
"""A cell may be larger than its value in the packet by this many bytes."""
_EOF, _ERROR = 0xFE, 0xFF


@part
def _length_at(data: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """A length-encoded number and the position after it; -1 if it does not end before `end`."""
    if at >= end:
        return np.int64(-1), at
    first = load_u8(data, at)
    if first < 0xFB:
        return first, at + 1
    if first == 0xFC and at + 3 <= end:
        return load_u16(data, at + 1), at + 3
    if first == 0xFD and at + 4 <= end:
        return load_u16(data, at + 1) | load_u8(data, at + 3) << np.int64(16), at + 4
    if first == 0xFE and at + 9 <= end:
        return load_i64(data, at + 1), at + 9
    return np.int64(-1), at


@part
def _store(value: Int, size: Int, out: Bytes, to: Int) -> None:
    """Writes a number in little-endian order."""
    for k in range(size):
        out[to + k] = np.uint8((value >> np.int64(8 * k)) & np.int64(0xFF))


@part
def _parts_of_day(data: Bytes, at: Int, size: Int) -> Int:
    """Year, month and day of a date of 0, 4, 7 or 11 bytes in one number; 0 for the zero date."""
    if size == 0:
        return np.int64(0)
    return load_u16(data, at) << np.int64(9) | load_u8(data, at + 2) << np.int64(5) | load_u8(data, at + 3)


@part
def _days(data: Bytes, at: Int, size: Int) -> Int:
    """The day of such a date; NO_DATE if the calendar has no such day."""
    if size == 0:
        return np.int64(NO_DATE)
    return days_from_civil(load_u16(data, at), load_u8(data, at + 2), load_u8(data, at + 3))


@part
def _clock(data: Bytes, at: Int) -> Int:
    """Hour, minute and second in microseconds."""
    return (load_u8(data, at) * 3600 + load_u8(data, at + 1) * 60 + load_u8(data, at + 2)) * SECOND


@part
def _time_of_day(data: Bytes, at: Int, size: Int) -> Int:
    """The time of a date of 0, 4, 7 or 11 bytes in microseconds."""
    micros = np.int64(0)
    if size >= 7:
        micros += _clock(data, at + 4)
    if size >= 11:
        micros += load_u32(data, at + 7)
    return micros


@part
def _date_cell(data: Bytes, at: Int, size: Int) -> Int:
    """The cell of a DATE."""
    days = _days(data, at, size)
    return np.int64(NO_DAY) + _parts_of_day(data, at, size) if days == NO_DATE else days


@part
def _moment_cell(data: Bytes, at: Int, size: Int) -> Int:
    """The cell of a DATETIME or TIMESTAMP."""
    days, micros = _days(data, at, size), _time_of_day(data, at, size)
    if days == NO_DATE:
        return np.int64(NO_MOMENT) + (_parts_of_day(data, at, size) << np.int64(CLOCK_BITS) | micros)
    return days * DAY + micros


@part
def _time(data: Bytes, at: Int, size: Int) -> Int:
    """A TIME of 0, 8 or 12 bytes in microseconds."""
    if size == 0:
        return np.int64(0)
    micros = load_u32(data, at + 1) * DAY + _clock(data, at + 5)
    if size >= 12:
        micros += load_u32(data, at + 8)
    return -micros if load_u8(data, at) else micros


@part
def _add_group(limbs: tuple[Int, Int, Int, Int], group: Int, power: Int) -> tuple[Int, Int, Int, Int]:
    """A number in four parts of 32 bits, the lowest first, times `power` plus `group`."""
    a, b, c, d = limbs
    a = a * power + group
    b = b * power + (a >> np.int64(32))
    c = c * power + (b >> np.int64(32))
    d = d * power + (c >> np.int64(32))
    return a & LIMB, b & LIMB, c & LIMB, d & LIMB


@part
def _decimal(data: Bytes, at: Int, end: Int, scale: Int, out: Bytes, to: Int) -> Int:
    """Writes digits as a 128-bit number; DONE, or CORRUPT if they are not digits or have another scale."""
    negative = at < end and load_u8(data, at) == ord("-")
    at += np.int64(negative)
    limbs = (np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    group, digits, fraction = np.int64(0), np.int64(0), np.int64(-1)
    while at < end:
        byte = load_u8(data, at)
        at += 1
        if byte == ord(".") and fraction < 0:
            fraction = np.int64(0)
            continue
        if byte < ord("0") or byte > ord("9"):
            return np.int64(CORRUPT)
        group = group * 10 + (byte - ord("0"))
        digits += 1
        fraction += np.int64(fraction >= 0)
        if digits == 9:
            limbs = _add_group(limbs, group, np.int64(1_000_000_000))
            group, digits = np.int64(0), np.int64(0)
    if max(fraction, np.int64(0)) != scale:
        return np.int64(CORRUPT)
    a, b, c, d = _add_group(limbs, group, power_of_ten(digits))
    low, high = a | b << np.int64(32), c | d << np.int64(32)
    if negative:
        high = ~high + np.int64(low == 0)
        low = -low
    _store(low, np.int64(8), out, to)
    _store(high, np.int64(8), out, to + 8)
    return np.int64(DONE)


@part
def _digits(data: Bytes, at: Int, end: Int, out: Bytes, to: Int) -> Int:
    """Writes a text of digits without leading zeros, except one before a point; returns its length."""
    begin = to
    if at < end and load_u8(data, at) == ord("-"):
        out[to] = ord("-")
        to += 1
        at += 1
    while at + 1 < end and load_u8(data, at) == ord("0") and load_u8(data, at + 1) != ord("."):
        at += 1
    copy_bytes(data, at, out, to, end - at)
    return to + (end - at) - begin


@part
def _temporal(data: Bytes, at: Int, size: Int, form: Int, out: Bytes, to: Int) -> Int:
    """As `_sized`, for dates and times."""
    if form == TIME:
        if size not in (0, 8, 12):
            return np.int64(-1)
        _store(_time(data, at, size), np.int64(8), out, to)
        return np.int64(8)
    if size not in (0, 4, 7, 11):
        return np.int64(-1)
    value = _date_cell(data, at, size) if form == DATE else _moment_cell(data, at, size)
    length = np.int64(4 if form == DATE else 8)
    _store(value, length, out, to)
    return length


@part
def _sized(data: Bytes, at: Int, size: Int, form: Int, width: Int, out: Bytes, to: Int) -> Int:
    """Writes the cell of a value of `size` bytes at `at`; returns its length, -1 if the value contradicts its form."""
    if form == TEXT:
        _store(size, np.int64(4), out, to)
        copy_bytes(data, at, out, to + 4, size)
        return size + 4
    if form == EXACT:
        if size != width:
            return np.int64(-1)
        copy_bytes(data, at, out, to, size)
        return size
    if form == DECIMAL:
        return np.int64(16 if _decimal(data, at, at + size, width, out, to) == DONE else -1)
    if form == DIGITS:
        length = _digits(data, at, at + size, out, to + 4)
        _store(length, np.int64(4), out, to)
        return length + 4
    return _temporal(data, at, size, form, out, to)


@kernel
def walk_row(data: Bytes, at: Int, end: Int, forms: IntRows, cells: Cells, out: Bytes, state: Ints) -> Int:
    """Writes the cells of one row, which lies between `at` and `end`; arguments as in `walk_rows`.

    Returns:
        DONE, or CORRUPT.
    """
    columns = forms.shape[0]
    stride = cells.shape[0] // columns
    nulls = at + 1
    at = nulls + ((columns + 9) >> 3)
    if at > end:
        return np.int64(CORRUPT)
    row, to = state[ROWS], state[USED]
    for column in range(columns):
        place = column * stride + row
        if (load_u8(data, nulls + ((column + 2) >> 3)) >> np.int64((column + 2) & 7)) & 1:
            cells[place] = NULL_CELL
            continue
        form, size = forms[column, FORM], forms[column, SIZE]
        if form == FIXED:
            if at + size > end:
                return np.int64(CORRUPT)
            copy_bytes(data, at, out, to, size)
            length = size
        else:
            size, at = _length_at(data, at, end)
            if size < 0 or size > end - at:
                return np.int64(CORRUPT)
            length = _sized(data, at, size, form, forms[column, SIZE], out, to)
            if length == -1:
                return np.int64(CORRUPT)
        at += size
        cells[place] = to
        to += length
    if at != end:
        return np.int64(CORRUPT)
    state[ROWS] = row + 1
    state[USED] = to
    return np.int64(DONE)


@kernel
def walk_rows(
    data: Bytes, begin: Int, end: Int, forms: IntRows, cells: Cells, out: Bytes, state: Ints
) -> tuple[Int, Int]:
    """Writes the cells of all complete rows.

    Args:
        data: The bytes that were read from the socket.
        begin: Where a packet begins.
        end: Offset after the last byte.
        forms: `FORM_FIELDS` numbers per column.
        cells: Gets the positions where each cell begins in `out`, column by column.
        out: Gets the cells; its first bytes are not used, because cells 0 and 1 mean NULL and absent.
        state: `STATE_FIELDS` numbers that are kept from call to call.

    Returns:
        MORE, FULL (of rows, or of bytes), IN_PIECES, END_OF_STREAM, ERROR_PACKET or CORRUPT, and the first byte that
        was not used: where a packet begins.
    """
    columns = forms.shape[0]
    stride = cells.shape[0] // columns
    at = np.int64(begin)
    while end - at > PACKET_HEADER_BYTES:
        length = load_u16(data, at) | load_u8(data, at + 2) << np.int64(16)
        if length == LONGEST_PIECE:
            return np.int64(IN_PIECES), at
        row = at + PACKET_HEADER_BYTES
        if length > end - row:
            return np.int64(Packet.MORE), at
        first = load_u8(data, row) if length > 0 else np.int64(-1)
        if first == _ERROR:
            return np.int64(Packet.ERROR_PACKET), at
        if first == _EOF and length < 9:
            return np.int64(Packet.END_OF_STREAM), at
        if first != 0:
            return np.int64(CORRUPT), at
        if state[ROWS] >= stride or state[USED] + length + ROOM_PER_CELL * columns > out.shape[0]:
            return np.int64(FULL), at
        if walk_row(data, row, row + length, forms, cells, out, state) != DONE:
            return np.int64(CORRUPT), at
        at = row + length
    return np.int64(Packet.MORE), at


@kernel
def gather_16(buf: Bytes, base: Int, cells: Cells, out: Ints) -> None:
    """Sixteen bytes: two entries of `out` each."""
    for i in range(cells.shape[0]):
        low, high = np.int64(0), np.int64(0)
        if cells[i] > ABSENT_CELL:
            at = base + np.int64(cells[i])
            low, high = load_i64(buf, at), load_i64(buf, at + 8)
        out[2 * i] = low
        out[2 * i + 1] = high
