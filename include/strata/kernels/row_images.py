"""Walks row images and notes where each cell lies: the first of the decoder's two passes.
Not here: which events hold them (`stream.py`), what is in the cells (`numbers.py`, ...)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.grammar import PARTIAL_UPDATE, UPDATE_V1, UPDATE_V2, WRITE_V1, WRITE_V2
from strata.kernels.jit import kernel
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
    from strata.kernels.arrays import Bytes, Cells, Int, IntBlocks, IntRows, Ints


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


@kernel
def walk_rows(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - decision 19 has what cutting it costs
    buf: Bytes,
    body: Int,
    end: Int,
    event_type: Int,
    base: Int,
    state: Ints,
    buffer: Ints,
    columns: IntRows,
    scratch: IntBlocks,
    cells: Cells,
    facts: Ints,
) -> Int:
    """Notes the rows of one event from `state[AT]` on; DONE, FULL (go on after the buffer was emptied) or CORRUPT.

    A row is counted only when all of it was found to lie in the event.

    Args:
        buf: The event's buffer.
        body: Offset of the column count.
        end: Offset behind the rows.
        event_type: Type code.
        base: What cells are relative to.
        state: Of the walk.
        buffer: Of the rows' table and shape.
        columns: Of all buffers.
        scratch: For the walk's own use.
        cells: Of all buffers.
        facts: Of all buffers.
    """
    count, at = packed_length(buf, body, end)
    bitmap = (buffer[COLUMNS] + 7) >> 3
    op = operation(event_type)
    images = 2 if op == UPDATE else 1
    if at < 0 or count != buffer[COLUMNS] or at + bitmap * images > end:
        return np.int64(CORRUPT)
    before_at = buffer[CELLS_AT] + buffer[TARGETS] * buffer[STRIDE]
    start = buffer[CELLS_AT] if op == INSERT else before_at
    present = image_columns(buf, at, buffer, columns, start, scratch[0])
    updated = np.int64(0)
    if op == UPDATE:
        updated = image_columns(buf, at + bitmap, buffer, columns, buffer[CELLS_AT], scratch[1])
    at += bitmap * images
    flags = (HAS_AFTER if op != DELETE else 0) | (HAS_BEFORE if op != INSERT else 0)
    if present < buffer[COLUMNS] or (op == UPDATE and updated < buffer[COLUMNS]):
        flags |= HAS_ABSENT
    # An image without columns takes no bytes; the server applies such an event once (sql/log_event.cc).
    empty = present + updated == 0 and event_type != PARTIAL_UPDATE
    if empty and at < end:
        return np.int64(CORRUPT)
    if state[AT] > 0:
        at = state[AT]
    wanted = buffer[WANTED] != 0
    first, first_row = buffer[COUNT], state[ROW]
    status = np.int64(DONE)
    while at < end or empty:
        row, row_at = buffer[COUNT], at
        if wanted:
            if row == buffer[CAPACITY] or buffer[BYTES] >= MOST_BYTES:
                state[AT] = at
                status = np.int64(FULL)
                break
            if buffer[FLAGS] & flags != flags or (buffer[FLAGS] & (HAS_AFTER | HAS_BEFORE)) != (
                flags & (HAS_AFTER | HAS_BEFORE)
            ):
                clear_other_image(cells, buffer, op, flags)
        partial = np.int64(0)
        for image in range(images):
            if image == 1 and event_type == PARTIAL_UPDATE:
                partial, at = partial_bits(buf, at, end, buffer)
                if at < 0:
                    status = np.int64(CORRUPT)
                    break
            nulls, here = at, present if image == 0 else updated
            at += (here + 7) >> 3
            if at > end:
                status = np.int64(CORRUPT)
                break
            for k in range(here):
                out = scratch[image, k, 2]
                if (load_u8(buf, nulls + (k >> 3)) >> (k & 7)) & 1:
                    if out >= 0:
                        cells[out + row] = NULL_CELL
                    continue
                if out >= 0:
                    cells[out + row] = at - base
                width = scratch[image, k, 1]
                if width < 0:
                    if at - width > end:
                        status = np.int64(CORRUPT)
                        break
                    width = prefix_value(buf, at, -width) - width
                at += width
                if at > end:
                    status = np.int64(CORRUPT)
                    break
            if status != DONE:
                break
            if wanted and here < buffer[COLUMNS]:
                image_at = start if image == 0 else buffer[CELLS_AT]
                mark_absent(buffer, columns, scratch[image], here, cells, image_at + row)
        if status != DONE:
            break
        if wanted:
            facts[buffer[FACTS_AT] + FACT_PARTIAL * buffer[STRIDE] + row] = partial
            buffer[COUNT] = row + 1
            buffer[BYTES] += at - row_at
        state[ROW] += 1
        empty = False
    if wanted:
        note_facts(facts, buffer, state, op, first, first_row)
    return status
