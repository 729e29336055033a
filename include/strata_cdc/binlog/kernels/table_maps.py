"""Finds an earlier TABLE_MAP with the same bytes.
Not here: compiling a table_map from it (`binlog/events/table_map.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.jit import kernel
from strata_cdc.binlog.kernels.scan import read_u32

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, Ints
    from strata_cdc.binlog.kernels.layout import KnownMap
    from strata_cdc.binlog.kernels.records import Records

NO_MAP = -1
_MULTIPLIER = 0x2545F491
"""Odd and below 2**30, so that a product with 32 bits stays positive in 64."""


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
    """The slot for an unknown body in `places`: a hash table with open addressing of table_map + 1, 0 if free.

    Its size is a power of two, at least twice the number of table_maps.
    """
    mask = len(places) - 1
    place = hash_bytes(buffer, begin, end) & mask
    while places[place] != 0:
        place = (place + 1) & mask
    return np.int64(place)


@kernel
def find_equal(bodies: Bytes, table_maps: Records[KnownMap], places: Ints, buffer: Bytes, begin: Int, end: Int) -> Int:
    """The table_map with exactly the bytes `begin` to `end` of `buffer`; NO_MAP if there is none."""
    mask = len(places) - 1
    place = hash_bytes(buffer, begin, end) & mask
    while places[place] != 0:
        table_map = places[place] - 1
        start = table_maps[table_map].body
        if table_maps[table_map + 1].body - start == end - begin:
            same = True
            for k in range(end - begin):
                if bodies[start + k] != buffer[begin + k]:
                    same = False
                    break
            if same:
                return np.int64(table_map)
        place = (place + 1) & mask
    return np.int64(NO_MAP)
