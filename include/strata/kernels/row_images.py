"""Walks row images and notes where each cell lies: the first of the decoder's two passes.
Not here: which events hold them (`stream.py`), what is in the cells (`numbers.py`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from strata.kernels.grammar import PARTIAL_UPDATE, UPDATE_V1, UPDATE_V2, WRITE_V1, WRITE_V2
from strata.kernels.jit import kernel, part
from strata.kernels.layout import (
    ABSENT_CELL,
    AT,
    BYTES,
    CAPACITY,
    CELLS_AT,
    CLOCK,
    COLUMNS,
    COLUMNS_AT,
    COUNT,
    DELETE,
    FACT_CLOCK,
    FACT_GNO,
    FACT_OP,
    FACT_PARTIAL,
    FACT_POSITION,
    FACT_ROW,
    FACT_SEQ,
    FACT_SID,
    FACTS_AT,
    FLAGS,
    GNO,
    HAS_ABSENT,
    HAS_AFTER,
    HAS_BEFORE,
    HAS_PARTIAL,
    INSERT,
    JSON_COLUMNS,
    MOST_BYTES,
    NULL_CELL,
    POSITION,
    ROW,
    SEQ,
    SID,
    STRIDE,
    TARGET,
    TARGETS,
    UPDATE,
    WANTED,
    WIDTH,
)
from strata.kernels.memory import load_u8
from strata.kernels.status import CORRUPT, DONE, FULL
from strata.kernels.widths import PARTIAL_JSON_UPDATES, packed_length, prefix_value

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Cells, Int, IntRows, Ints
    from strata.kernels.layout import Tables


class RowBytes(NamedTuple):
    """Where the rows of an event lie."""

    buf: Bytes
    end: Int
    """Offset behind them."""
    base: Int
    """What cells are relative to."""
    event_type: Int


class Images(NamedTuple):
    """The columns that the images of an event have, by `image_columns`; the second is the after image of an update."""

    first: IntRows
    second: IntRows
    in_first: Int
    in_second: Int


@kernel
def mark_absent(buffer: Ints, columns: IntRows, image: IntRows, present: Int, cells: Cells, out: Int) -> None:
    """Marks the wanted columns that an image lacks; `out` is the place of the row's first cell."""
    k = 0
    for column in range(buffer[COLUMNS]):
        target = columns[buffer[COLUMNS_AT] + column, TARGET]
        if k < present and image[k, 0] == column:
            k += 1
        elif target >= 0:
            cells[out + target * buffer[STRIDE]] = ABSENT_CELL


@kernel
def clear_cells(cells: Cells, begin: Int, buffer: Ints, rows: Int) -> None:
    """Makes the first `rows` cells of each column NULL."""
    for target in range(buffer[TARGETS]):
        for row in range(rows):
            cells[begin + target * buffer[STRIDE] + row] = NULL_CELL


@kernel
def clear_other_image(cells: Cells, buffer: Ints, op: Int, flags: Int) -> None:
    """Makes the image that a row lacks NULL; none is written as long as no row of the buffer has it."""
    row = buffer[COUNT]
    before_at = buffer[CELLS_AT] + buffer[TARGETS] * buffer[STRIDE]
    new = flags & ~buffer[FLAGS]
    buffer[FLAGS] |= flags
    if new & HAS_BEFORE:
        clear_cells(cells, before_at, buffer, row)
    if new & HAS_AFTER:
        clear_cells(cells, buffer[CELLS_AT], buffer, row)
    if op == INSERT and buffer[FLAGS] & HAS_BEFORE:
        clear_cells(cells, before_at + row, buffer, 1)
    if op == DELETE and buffer[FLAGS] & HAS_AFTER:
        clear_cells(cells, buffer[CELLS_AT] + row, buffer, 1)


@kernel
def operation(event_type: Int) -> Int:
    """INSERT, UPDATE or DELETE."""
    if event_type in (UPDATE_V1, UPDATE_V2, PARTIAL_UPDATE):
        return UPDATE
    return INSERT if event_type in (WRITE_V1, WRITE_V2) else DELETE


@kernel
def partial_bits(buf: Bytes, at: Int, end: Int, buffer: Ints) -> tuple[Int, Int]:
    """Reads the value options in front of an after image of type 39.

    Returns:
        Offset of the partial bits (0 if there are none) and of the null bits; -1 if they run past `end`.
    """
    options, at = packed_length(buf, at, end)
    if at < 0 or not options & PARTIAL_JSON_UPDATES:
        return np.int64(0), at
    behind = at + ((buffer[JSON_COLUMNS] + 7) >> 3)
    if behind > end:
        return np.int64(0), np.int64(-1)
    buffer[FLAGS] |= HAS_PARTIAL
    return at, behind


@kernel
def note_facts(facts: Ints, buffer: Ints, state: Ints, op: Int, first: Int, first_row: Int) -> None:
    """Writes what the rows of one event from number `first` of the buffer on have beside their images."""
    out, stride = buffer[FACTS_AT] + first, buffer[STRIDE]
    count = buffer[COUNT] - first
    fill(facts, out + FACT_SEQ * stride, count, state[SEQ])
    fill(facts, out + FACT_CLOCK * stride, count, state[CLOCK])
    fill(facts, out + FACT_POSITION * stride, count, state[POSITION])
    fill(facts, out + FACT_SID * stride, count, state[SID])
    fill(facts, out + FACT_GNO * stride, count, state[GNO])
    fill(facts, out + FACT_OP * stride, count, op)
    rows = facts[out + FACT_ROW * stride : out + FACT_ROW * stride + count]
    for i in range(count):
        rows[i] = first_row + i


@kernel
def fill(facts: Ints, at: Int, count: Int, value: Int) -> None:
    """Writes one value `count` times."""
    some = facts[at : at + count]
    for i in range(count):
        some[i] = value


@kernel
def image_columns(buf: Bytes, bitmap: Int, buffer: Ints, columns: IntRows, image_at: Int, out: IntRows) -> Int:
    """For each column of an image its index, its width and the place of its first cell, -1 if nobody wants it.

    Returns:
        How many columns the image has.
    """
    found = np.int64(0)
    for column in range(buffer[COLUMNS]):
        if (load_u8(buf, bitmap + (column >> 3)) >> (column & 7)) & 1:
            target = columns[buffer[COLUMNS_AT] + column, TARGET]
            out[found, 0] = column
            out[found, 1] = columns[buffer[COLUMNS_AT] + column, WIDTH]
            out[found, 2] = image_at + target * buffer[STRIDE] if target >= 0 else np.int64(-1)
            found += 1
    return found


@part
def read_images(rows: RowBytes, body: Int, op: Int, buffer: Ints, tables: Tables) -> tuple[Int, Images]:
    """Reads which columns the images of an event have; `body` is the offset of the column count.

    Returns:
        Offset of the first row, -1 if these are not the TABLE_MAP's columns or they run past the end.
    """
    buf, end, _, _ = rows
    first, second = tables.scratch[0], tables.scratch[1]
    in_first, in_second = np.int64(0), np.int64(0)
    count, at = packed_length(buf, body, end)
    bitmap = (buffer[COLUMNS] + 7) >> 3
    behind = at + (bitmap + bitmap if op == UPDATE else bitmap)
    if at < 0 or count != buffer[COLUMNS] or behind > end:
        behind = np.int64(-1)
    else:
        after_at = buffer[CELLS_AT]
        first_at = after_at if op == INSERT else after_at + buffer[TARGETS] * buffer[STRIDE]
        in_first = image_columns(buf, at, buffer, tables.columns, first_at, first)
        if op == UPDATE:
            in_second = image_columns(buf, at + bitmap, buffer, tables.columns, after_at, second)
    return behind, Images(first, second, in_first, in_second)


@part
def image_flags(images: Images, op: Int, columns: Int) -> Int:
    """Which images the rows of an event have, and whether those lack columns: `HAS_*`."""
    flags = np.int64(HAS_BEFORE | HAS_AFTER)
    if op == INSERT:
        flags = np.int64(HAS_AFTER)
    elif op == DELETE:
        flags = np.int64(HAS_BEFORE)
    if images.in_first < columns or (op == UPDATE and images.in_second < columns):
        flags |= HAS_ABSENT
    return flags


@part
def begin_row(cells: Cells, buffer: Ints, op: Int, flags: Int) -> bool:
    """Whether the buffer has place for a row; the images are then NULL that it, or those before it, lack."""
    images = np.int64(HAS_AFTER | HAS_BEFORE)
    has_place: bool = buffer[COUNT] != buffer[CAPACITY] and buffer[BYTES] < MOST_BYTES
    if has_place and (buffer[FLAGS] & flags != flags or buffer[FLAGS] & images != flags & images):
        clear_other_image(cells, buffer, op, flags)
    return has_place


@part
def walk_image(rows: RowBytes, at: Int, image: IntRows, count: Int, row: Int, cells: Cells) -> Int:
    """Notes the cells of one image.

    Args:
        rows: Where it lies.
        at: Offset of its null bits.
        image: Its columns.
        count: How many they are.
        row: Place of the row in its buffer.
        cells: Of all buffers.

    Returns:
        The offset behind it; beyond the end if it is not whole.
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
            # Of a length that is not whole it is enough that it goes beyond the end.
            width = prefix_value(buf, at, -width) - width if at - width <= end else end + 1 - at
        at += width
        if at > end:
            break
    return at


@part
def walk_row(rows: RowBytes, at: Int, images: Images, buffer: Ints, cells: Cells) -> tuple[Int, Int]:
    """Notes the cells of a row; the offset of its partial bits (0: none), and that behind it as of `walk_image`."""
    partial, end = np.int64(0), rows.end
    at = walk_image(rows, at, images.first, images.in_first, buffer[COUNT], cells)
    if at <= end and rows.event_type == PARTIAL_UPDATE:
        partial, at = partial_bits(rows.buf, at, end, buffer)
        if at < 0:
            at = end + 1
    if at <= end and operation(rows.event_type) == UPDATE:
        at = walk_image(rows, at, images.second, images.in_second, buffer[COUNT], cells)
    return partial, at


@part
def mark_lacking(images: Images, op: Int, buffer: Ints, columns: IntRows, cells: Cells) -> None:
    """Marks the wanted columns that the images of a row lack."""
    row, after_at = buffer[COUNT], buffer[CELLS_AT]
    if images.in_first < buffer[COLUMNS]:
        first_at = after_at if op == INSERT else after_at + buffer[TARGETS] * buffer[STRIDE]
        mark_absent(buffer, columns, images.first, images.in_first, cells, first_at + row)
    if op == UPDATE and images.in_second < buffer[COLUMNS]:
        mark_absent(buffer, columns, images.second, images.in_second, cells, after_at + row)


@part
def keep_row(images: Images, op: Int, flags: Int, partial: Int, size: Int, buffer: Ints, tables: Tables) -> None:
    """Counts a row of `size` bytes that was found whole."""
    if flags & HAS_ABSENT:
        mark_lacking(images, op, buffer, tables.columns, tables.cells)
    tables.facts[buffer[FACTS_AT] + FACT_PARTIAL * buffer[STRIDE] + buffer[COUNT]] = partial
    buffer[COUNT] += 1
    buffer[BYTES] += size


@part
def walk_rows(rows: RowBytes, body: Int, buffer: Ints, tables: Tables) -> Int:
    """Notes the rows of one event from `state[AT]` on; DONE, FULL (go on after the buffer was emptied) or CORRUPT.

    A row is counted only when all of it was found to lie in the event.

    Args:
        rows: Where they lie.
        body: Offset of the column count.
        buffer: Of the rows' table and shape.
        tables: What the walk keeps.
    """
    state, cells, facts = tables.state, tables.cells, tables.facts
    op, end = operation(rows.event_type), rows.end
    at, images = read_images(rows, body, op, buffer, tables)
    # An image without columns takes no bytes; the server applies such an event once (sql/log_event.cc).
    empty = images.in_first + images.in_second == 0 and rows.event_type != PARTIAL_UPDATE
    if at < 0 or (empty and at < end):
        return np.int64(CORRUPT)
    at = state[AT] or at
    flags, wanted = image_flags(images, op, buffer[COLUMNS]), buffer[WANTED] != 0
    first, first_row, status = buffer[COUNT], state[ROW], np.int64(DONE)
    while at < end or empty:
        if wanted and not begin_row(cells, buffer, op, flags):
            state[AT] = at
            status = np.int64(FULL)
            break
        partial, behind = walk_row(rows, at, images, buffer, cells)
        if behind > end:
            status = np.int64(CORRUPT)
            break
        if wanted:
            keep_row(images, op, flags, partial, behind - at, buffer, tables)
        at, empty = behind, False
        state[ROW] += 1
    if wanted:
        note_facts(facts, buffer, state, op, first, first_row)
    return status
