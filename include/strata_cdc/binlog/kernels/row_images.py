"""Walks row images and notes where each cell lies: the first of the decoder's two passes.
Not here: which events have them (`stream.py`), what is in the cells (`numbers.py`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel, part
from strata_cdc.binlog.kernels.layout import ABSENT_CELL, MOST_BYTES, NULL_CELL, Fact, Has, Op
from strata_cdc.binlog.kernels.memory import load_u8
from strata_cdc.binlog.kernels.status import CORRUPT, DONE, FULL
from strata_cdc.binlog.kernels.widths import PARTIAL_JSON_UPDATES, UNSIZED, packed_length, prefix_value
from strata_cdc.binlog.kernels.words import EventCode

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Cells, Int, IntRows, Ints
    from strata_cdc.binlog.kernels.layout import BufferColumn, RowBuffer, Tables, WalkState
    from strata_cdc.binlog.kernels.records import Records


class RowBytes(NamedTuple):
    """Where the rows of an event lie."""

    buf: Bytes
    end: Int
    """Offset after the rows."""
    base: Int
    """The position that cells are relative to."""
    event_type: Int


class Images(NamedTuple):
    """The columns of the images of an event, from `image_columns`; the second image is the after image of an update."""

    first: IntRows
    second: IntRows
    in_first: Int
    in_second: Int


@kernel
def mark_absent(
    buffer: RowBuffer, columns: Records[BufferColumn], image: IntRows, present: Int, cells: Cells, out: Int
) -> None:
    """Marks the wanted columns that an image lacks; `out` is the position of the row's first cell."""
    k = 0
    for column in range(buffer.columns):
        target = columns[buffer.columns_at + column].target
        if k < present and image[k, 0] == column:
            k += 1
        elif target >= 0:
            cells[out + target * buffer.stride] = ABSENT_CELL


@kernel
def clear_cells(cells: Cells, begin: Int, buffer: RowBuffer, rows: Int) -> None:
    """Makes the first `rows` cells of each column NULL."""
    for target in range(buffer.targets):
        for row in range(rows):
            cells[begin + target * buffer.stride + row] = NULL_CELL


@kernel
def clear_other_image(cells: Cells, buffer: RowBuffer, op: Int, flags: Int) -> None:
    """Makes the image that a row lacks NULL. Nothing is written as long as no row of the buffer has that image."""
    row = buffer.count
    before_at = buffer.cells_at + buffer.targets * buffer.stride
    new = flags & ~buffer.has
    buffer.has |= flags
    if new & Has.BEFORE:
        clear_cells(cells, before_at, buffer, row)
    if new & Has.AFTER:
        clear_cells(cells, buffer.cells_at, buffer, row)
    if op == Op.INSERT and buffer.has & Has.BEFORE:
        clear_cells(cells, before_at + row, buffer, 1)
    if op == Op.DELETE and buffer.has & Has.AFTER:
        clear_cells(cells, buffer.cells_at + row, buffer, 1)


@kernel
def operation(event_type: Int) -> Int:
    """INSERT, UPDATE or DELETE."""
    if event_type in (EventCode.UPDATE_V1, EventCode.UPDATE_V2, EventCode.PARTIAL_UPDATE):
        return np.int64(Op.UPDATE)
    return np.int64(Op.INSERT if event_type in (EventCode.WRITE_V1, EventCode.WRITE_V2) else Op.DELETE)


@kernel
def partial_bits(buf: Bytes, at: Int, end: Int, buffer: RowBuffer) -> tuple[Int, Int]:
    """Reads the value options before an after image of type 39.

    Returns:
        Offset of the partial bits (0 if there are none) and of the null bits; -1 if they run past `end`.
    """
    options, at = packed_length(buf, at, end)
    if at < 0 or not options & PARTIAL_JSON_UPDATES:
        return np.int64(0), at
    behind = at + ((buffer.json_columns + 7) >> 3)
    if behind > end:
        return np.int64(0), np.int64(-1)
    buffer.has |= Has.PARTIAL
    return at, behind


@kernel
def note_facts(facts: Ints, buffer: RowBuffer, state: WalkState, op: Int, first: Int, first_row: Int) -> None:
    """Writes what the rows of one event have besides their images, from row `first` of the buffer on; not the numbers
    of those that are numbered by their bytes."""
    out, stride = buffer.facts_at + first, buffer.stride
    count = buffer.count - first
    fill(facts, out + Fact.SEQ * stride, count, state.seq)
    fill(facts, out + Fact.CLOCK * stride, count, state.clock)
    fill(facts, out + Fact.POSITION * stride, count, state.position)
    fill(facts, out + Fact.SID * stride, count, state.sid)
    fill(facts, out + Fact.GNO * stride, count, state.gno)
    fill(facts, out + Fact.OP * stride, count, op)
    if buffer.json_columns != UNSIZED:
        rows = facts[out + Fact.ROW * stride : out + Fact.ROW * stride + count]
        for i in range(count):
            rows[i] = first_row + i


@kernel
def fill(facts: Ints, at: Int, count: Int, value: Int) -> None:
    """Writes one value `count` times."""
    some = facts[at : at + count]
    for i in range(count):
        some[i] = value


@kernel
def image_columns(
    buf: Bytes, bitmap: Int, buffer: RowBuffer, columns: Records[BufferColumn], image_at: Int, out: IntRows
) -> Int:
    """Writes for each column of an image its index, width and the position of its first cell (-1 if it is not wanted).

    Returns:
        The number of the image's columns.
    """
    count = np.int64(0)
    for column in range(buffer.columns):
        if (load_u8(buf, bitmap + (column >> 3)) >> (column & 7)) & 1:
            target = columns[buffer.columns_at + column].target
            out[count, 0] = column
            out[count, 1] = columns[buffer.columns_at + column].width
            out[count, 2] = image_at + target * buffer.stride if target >= 0 else np.int64(-1)
            count += 1
    return count


@part
def read_images(rows: RowBytes, body: Int, op: Int, buffer: RowBuffer, tables: Tables) -> tuple[Int, Images]:
    """Reads which columns the images of an event have; `body` is the offset of the column count.

    Returns:
        Offset of the first row; -1 if the columns are not those of the TABLE_MAP, or run past the end.
    """
    buf, end, _, _ = rows
    first, second = tables.scratch[0], tables.scratch[1]
    in_first, in_second = np.int64(0), np.int64(0)
    count, at = packed_length(buf, body, end)
    bitmap = (buffer.columns + 7) >> 3
    behind = at + (bitmap + bitmap if op == Op.UPDATE else bitmap)
    if at < 0 or count != buffer.columns or behind > end:
        behind = np.int64(-1)
    else:
        after_at = buffer.cells_at
        first_at = after_at if op == Op.INSERT else after_at + buffer.targets * buffer.stride
        in_first = image_columns(buf, at, buffer, tables.columns, first_at, first)
        if op == Op.UPDATE:
            in_second = image_columns(buf, at + bitmap, buffer, tables.columns, after_at, second)
    return behind, Images(first, second, in_first, in_second)


@part
def image_flags(images: Images, op: Int, columns: Int) -> Int:
    """Which images the rows of an event have, and whether the images lack columns: bits of `Has`."""
    flags = np.int64(Has.BEFORE | Has.AFTER)
    if op == Op.INSERT:
        flags = np.int64(Has.AFTER)
    elif op == Op.DELETE:
        flags = np.int64(Has.BEFORE)
    if images.in_first < columns or (op == Op.UPDATE and images.in_second < columns):
        flags |= Has.ABSENT
    return flags


@part
def begin_row(cells: Cells, buffer: RowBuffer, op: Int, flags: Int) -> bool:
    """Whether the buffer has space for a row. If so, images that this row or earlier rows lack are made NULL."""
    images = np.int64(Has.AFTER | Has.BEFORE)
    has_place: bool = buffer.count != buffer.capacity and buffer.waiting_bytes < MOST_BYTES
    if has_place and (buffer.has & flags != flags or buffer.has & images != flags & images):
        clear_other_image(cells, buffer, op, flags)
    return has_place


@part
def walk_image(rows: RowBytes, at: Int, image: IntRows, count: Int, row: Int, cells: Cells) -> Int:
    """Notes the cells of one image.

    Args:
        rows: The rows that have it.
        at: Offset of its null bits.
        image: Its columns.
        count: The number of its columns.
        row: Number of the row in its buffer.
        cells: The cells of all buffers.

    Returns:
        The offset after it; beyond the end if it is incomplete.
    """
    buf, end, base, _ = rows
    nulls = at
    at += (count + 7) >> 3
    for k in range(count if at <= end else 0):
        out = image[k, 2]
        if (load_u8(buf, nulls + (k >> 3)) >> (k & 7)) & 1:
            if out >= 0:
                cells[out + row] = NULL_CELL
            continue
        if out >= 0:
            cells[out + row] = at - base
        width = image[k, 1]
        if width < 0:
            # For an incomplete length it is enough that the result is beyond the end.
            width = prefix_value(buf, at, -width) - width if at - width <= end else end + 1 - at
        at += width
        if at > end:
            break
    return at


@part
def walk_row(rows: RowBytes, at: Int, images: Images, buffer: RowBuffer, cells: Cells) -> tuple[Int, Int]:
    """Notes the cells of a row; returns the offset of its partial bits (0: none), and that after it (`walk_image`)."""
    partial, end = np.int64(0), rows.end
    at = walk_image(rows, at, images.first, images.in_first, buffer.count, cells)
    if at <= end and rows.event_type == EventCode.PARTIAL_UPDATE:
        partial, at = partial_bits(rows.buf, at, end, buffer)
        if at < 0:
            at = end + 1
    if at <= end and operation(rows.event_type) == Op.UPDATE:
        at = walk_image(rows, at, images.second, images.in_second, buffer.count, cells)
    return partial, at


@part
def mark_lacking(images: Images, op: Int, buffer: RowBuffer, columns: Records[BufferColumn], cells: Cells) -> None:
    """Marks the wanted columns that the images of a row lack."""
    row, after_at = buffer.count, buffer.cells_at
    if images.in_first < buffer.columns:
        first_at = after_at if op == Op.INSERT else after_at + buffer.targets * buffer.stride
        mark_absent(buffer, columns, images.first, images.in_first, cells, first_at + row)
    if op == Op.UPDATE and images.in_second < buffer.columns:
        mark_absent(buffer, columns, images.second, images.in_second, cells, after_at + row)


@part
def keep_row(images: Images, op: Int, flags: Int, partial: Int, size: Int, buffer: RowBuffer, tables: Tables) -> None:
    """Counts a complete row of `size` bytes."""
    if flags & Has.ABSENT:
        mark_lacking(images, op, buffer, tables.columns, tables.cells)
    tables.facts[buffer.facts_at + Fact.PARTIAL * buffer.stride + buffer.count] = partial
    buffer.count += 1
    buffer.waiting_bytes += size


@part
def walk_rows(rows: RowBytes, body: Int, buffer: RowBuffer, tables: Tables) -> Int:
    """Notes the rows of one event from `state.at` on; DONE, FULL (empty the buffer, then continue) or CORRUPT.

    A row is counted only if it lies completely in the event. Rows of a TABLE_MAP without lengths are numbered by their
    bytes, whether they are wanted or not.

    Args:
        rows: The rows.
        body: Offset of the column count.
        buffer: The buffer for the rows' table and TABLE_MAP.
        tables: What the walk keeps.
    """
    state, cells, facts = tables.state[0], tables.cells, tables.facts
    op, end = operation(rows.event_type), rows.end
    at, images = read_images(rows, body, op, buffer, tables)
    # An image without columns takes no bytes; the server applies such an event once (sql/log_event.cc).
    empty = images.in_first + images.in_second == 0 and rows.event_type != EventCode.PARTIAL_UPDATE
    if at < 0 or (empty and at < end):
        return np.int64(CORRUPT)
    is_sized, wanted = buffer.json_columns != UNSIZED, buffer.wanted != 0
    if not is_sized and not wanted:
        state.row += max(end - at, 1)
        return np.int64(DONE)
    at = state.at or at
    flags = image_flags(images, op, buffer.columns)
    first, first_row, status = buffer.count, state.row, np.int64(DONE)
    while at < end or empty:
        if wanted and not begin_row(cells, buffer, op, flags):
            state.at = at
            status = np.int64(FULL)
            break
        partial, behind = walk_row(rows, at, images, buffer, cells)
        if behind > end:
            status = np.int64(CORRUPT)
            break
        if not is_sized:
            facts[buffer.facts_at + Fact.ROW * buffer.stride + buffer.count] = state.row
        if wanted:
            keep_row(images, op, flags, partial, behind - at, buffer, tables)
        state.row += 1 if is_sized else max(behind - at, 1)
        at, empty = behind, False
    if wanted:
        note_facts(facts, buffer, state, op, first, first_row)
    return status
