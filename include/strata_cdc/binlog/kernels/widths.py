"""Walks row images cell by cell, by widths alone, to count rows.
Not here: keeping the positions (`row_images.py`), what is in the cells (`numbers.py`, `strings.py`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.memory import load_u8, load_u16, load_u32
from strata_cdc.binlog.kernels.status import CORRUPT, DONE
from strata_cdc.binlog.kernels.words import EventCode

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints

PARTIAL_JSON_UPDATES = 1
"""Bit of the value options of an after image: partial values follow (8.0.3, rows_event.h)."""

MOST_COLUMNS = 4096
"""The most columns of a table (sql/sql_const.h, MAX_FIELDS)."""
UNSIZED = -1
"""Instead of the number of JSON columns: the TABLE_MAP does not have the lengths of cells. An event counts as one row,
and its rows are numbered by their bytes: so the numbers of all rows of a transaction are known without the lengths."""
PRESENT_COLUMNS = 2 * MOST_COLUMNS
"""The most columns of two images."""


@kernel
def packed_length(buf: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """MySQL's length-encoded integer at `at`: the value and the offset after it; offset -1 if it runs past `end`."""
    if at >= end:
        return np.int64(0), np.int64(-1)
    first = np.int64(buf[at])
    if first < 251:
        return first, np.int64(at + 1)
    size = np.int64(2)
    if first == 253:
        size = np.int64(3)
    elif first == 254:
        size = np.int64(8)
    elif first != 252:
        return np.int64(0), np.int64(-1)
    if at + 1 + size > end:
        return np.int64(0), np.int64(-1)
    value = np.int64(0)
    for k in range(size):
        value |= np.int64(buf[at + 1 + k]) << np.int64(8 * k)
    if value < 0:
        return np.int64(0), np.int64(-1)
    return value, np.int64(at + 1 + size)


@kernel
def present_columns(buf: Bytes, bitmap: Int, columns: Int, out: Ints) -> Int:
    """Writes the indexes of the columns whose bit is set in the bitmap at `bitmap`; returns their number.

    The caller has checked that the bitmap lies in the event.
    """
    count = np.int64(0)
    for column in range(columns):
        if (load_u8(buf, bitmap + (column >> 3)) >> (column & 7)) & 1:
            out[count] = column
            count += 1
    return count


@kernel
def prefix_value(buf: Bytes, at: Int, prefix: Int) -> Int:
    """The length in the 1 to 4 bytes at `at`, which the caller has checked to be there."""
    if prefix == 1:
        return load_u8(buf, at)
    if prefix == 2:
        return load_u16(buf, at)
    if prefix == 4:
        return load_u32(buf, at)
    return load_u16(buf, at) | load_u8(buf, at + 2) << 16


@kernel
def cell_end(buf: Bytes, at: Int, end: Int, width: Int) -> Int:
    """Offset after the cell at `at`; -1 if it runs past `end`. `width` is as in `CellWidths.widths`."""
    if width >= 0:
        at += width
    else:
        if at - width > end:
            return np.int64(-1)
        at += prefix_value(buf, at, -width) - width
    if at > end:
        return np.int64(-1)
    return at


@kernel
def image_end(buf: Bytes, at: Int, end: Int, widths: Ints, columns: Ints, present: Int) -> Int:
    """Offset after the row image at `at` (null bits, then cells); -1 if it runs past `end`.

    Args:
        buf: The event's buffer.
        at: Offset of the null bits.
        end: Offset after the rows of the event.
        widths: Per column of the table.
        columns: Indexes of the columns in the image.
        present: The number of entries of `columns` that are used.
    """
    nulls = at
    at += (present + 7) >> 3
    if at > end:
        return np.int64(-1)
    for k in range(present):
        if (load_u8(buf, nulls + (k >> 3)) >> (k & 7)) & 1:
            continue
        at = cell_end(buf, at, end, widths[columns[k]])
        if at < 0:
            return np.int64(-1)
    return np.int64(at)


@kernel
def skip_value_options(buf: Bytes, at: Int, end: Int, json_columns: Int) -> Int:
    """Offset after the value options and the partial bits that precede an after image of type 39; -1 if past `end`."""
    options, at = packed_length(buf, at, end)
    if at < 0:
        return np.int64(-1)
    if options & PARTIAL_JSON_UPDATES:
        at += (json_columns + 7) >> 3
    if at > end:
        return np.int64(-1)
    return np.int64(at)


@kernel
def numbers_of_unsized(buf: Bytes, body: Int, end: Int, columns: Int, event_type: Int) -> Int:
    """How many numbers the rows of one event take if the lengths of cells are not known: their bytes, at least 1; -1 if
    its columns are not those of the table, or run past its end.

    Args:
        buf: The event's buffer, to which `end` belongs.
        body: Offset of the column count.
        end: Offset after the rows (before the checksum).
        columns: Of the table.
        event_type: Type code of the row event.
    """
    count, at = packed_length(buf, body, end)
    bitmap = (columns + 7) >> 3
    update = event_type in (EventCode.UPDATE_V1, EventCode.UPDATE_V2)
    begin = at + (bitmap + bitmap if update else bitmap)
    if at < 0 or count != columns or begin > end:
        return np.int64(-1)
    return max(np.int64(end - begin), np.int64(1))


@kernel
def count_image_rows(
    buf: Bytes, body: Int, end: Int, widths: Ints, json_columns: Int, event_type: Int, present: Ints
) -> tuple[Int, Int]:
    """Status and number of rows of one event; CORRUPT if the images do not fit the widths or the event.

    Args:
        buf: The event's buffer, to which `end` belongs.
        body: Offset of the column count.
        end: Offset after the rows (before the checksum).
        widths: Per column of the table.
        json_columns: Number of JSON columns of the table.
        event_type: Type code of the row event.
        present: Space for the columns of two images, `PRESENT_COLUMNS` numbers.
    """
    count, at = packed_length(buf, body, end)
    columns = widths.shape[0]
    if at < 0 or count != columns or 2 * columns > present.shape[0]:
        return CORRUPT, np.int64(0)
    update = event_type in (EventCode.UPDATE_V1, EventCode.UPDATE_V2, EventCode.PARTIAL_UPDATE)
    bitmap = (columns + 7) >> 3
    if at + bitmap + (bitmap if update else 0) > end:
        return CORRUPT, np.int64(0)
    before, after = present[:columns], present[columns:]
    before_present = present_columns(buf, at, columns, before)
    at += bitmap
    after_present = before_present
    if update:
        after_present = present_columns(buf, at, columns, after)
        at += bitmap
    if before_present + after_present == 0 and event_type != EventCode.PARTIAL_UPDATE:
        # An image without columns takes no bytes; the server applies such an event once (log_event.cc).
        return (DONE, np.int64(1)) if at == end else (CORRUPT, np.int64(0))
    rows = np.int64(0)
    while at < end:
        at = image_end(buf, at, end, widths, before, before_present)
        if at >= 0 and update:
            if event_type == EventCode.PARTIAL_UPDATE:
                at = skip_value_options(buf, at, end, json_columns)
            if at >= 0:
                at = image_end(buf, at, end, widths, after, after_present)
        if at < 0:
            return CORRUPT, rows
        rows += 1
    return DONE, rows
