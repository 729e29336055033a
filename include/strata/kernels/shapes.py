"""Finds the TABLE_MAP that equals one seen before, by its bytes.
Not here: compiling a shape from it (`events/shape.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata.kernels.jit import kernel
from strata.kernels.scan import read_u32

if TYPE_CHECKING:
    from strata.kernels.arrays import Bytes, Int, Ints

NO_SHAPE = -1
_MULTIPLIER = 0x2545F491
"""Odd and below 2**30, so that a product with 32 bits stays positive in 64."""


# Columns of a shape; one more row says where the bytes and widths of the last one end.
SHAPE_BODY = 0
"""Where its bytes start in `bodies`, which holds those of all shapes, without table id and flags."""
SHAPE_WIDTHS = 1
"""Where its widths start among those of all shapes, as `RowShape.widths`."""
SHAPE_TABLE = 2
"""Number of the table that it is of."""
SHAPE_JSON = 3
"""How many JSON columns it has."""
SHAPE_FIELDS = 4


@kernel
def hash_bytes(buffer: Bytes, begin: Int, end: Int) -> Int:
    """31 bits that depend on each byte."""
    mixed = np.int64(end - begin)
    at = np.int64(begin)
    while end - at >= 4:
        mixed = ((mixed ^ read_u32(buffer, at)) & 0xFFFFFFFF) * _MULTIPLIER
        mixed ^= mixed >> 29
        at += 4
    while at < end:
        mixed = ((mixed ^ np.int64(buffer[at])) & 0xFFFFFFFF) * _MULTIPLIER
        mixed ^= mixed >> 29
        at += 1
    return mixed & 0x7FFFFFFF


@kernel
def free_place(places: Ints, buffer: Bytes, begin: Int, end: Int) -> Int:
    """Where an unknown body belongs in `places`, an open-addressing hash table of shape + 1, 0 where free.

    Its size is a power of two, at least twice the number of shapes.
    """
    mask = len(places) - 1
    place = hash_bytes(buffer, begin, end) & mask
    while places[place] != 0:
        place = (place + 1) & mask
    return np.int64(place)


@kernel
def shape_slot(bodies: Bytes, shapes: Ints, places: Ints, buffer: Bytes, begin: Int, end: Int) -> Int:
    """Which shape has exactly the bytes `begin` to `end` of `buffer`; NO_SHAPE if none has."""
    mask = len(places) - 1
    place = hash_bytes(buffer, begin, end) & mask
    while places[place] != 0:
        shape = places[place] - 1
        start = shapes[shape, SHAPE_BODY]
        if shapes[shape + 1, SHAPE_BODY] - start == end - begin:
            same = True
            for k in range(end - begin):
                if bodies[start + k] != buffer[begin + k]:
                    same = False
                    break
            if same:
                return np.int64(shape)
        place = (place + 1) & mask
    return np.int64(NO_SHAPE)
