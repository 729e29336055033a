from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels import numbers
from tests.kernels.cells import BASE, cells_of

KERNELS = {1: numbers.gather_1, 2: numbers.gather_2, 3: numbers.gather_3, 4: numbers.gather_4}


@given(st.integers(1, 4), st.booleans(), st.data())
def test_integers_are_those_of_their_bytes(size, signed, data):
    values = data.draw(st.lists(st.none() | st.binary(min_size=size, max_size=size), min_size=1))
    buffer, cells = cells_of(values)
    out = np.empty(len(cells), np.int64)
    KERNELS[size](buffer, BASE, cells, 1 << 8 * size - 1 if signed else 0, out)
    expected = [0 if value is None else int.from_bytes(value, "little", signed=signed) for value in values]
    assert out.tolist() == expected


@given(st.lists(st.none() | st.binary(min_size=8, max_size=8), min_size=1))
def test_long_integers(values):
    buffer, cells = cells_of(values)
    out, wide = np.empty(len(cells), np.int64), np.empty(2 * len(cells), np.int64)
    numbers.gather_8(buffer, BASE, cells, out)
    assert out.tolist() == [0 if value is None else int.from_bytes(value, "little", signed=True) for value in values]
    numbers.widen_unsigned(out, wide)
    wides = [int.from_bytes(wide[at : at + 2].tobytes(), "little") for at in range(0, len(wide), 2)]
    assert wides == [0 if value is None else int.from_bytes(value, "little") for value in values]


@given(st.integers(1, 8), st.data())
def test_bits_in_either_order(size, data):
    values = data.draw(st.lists(st.none() | st.binary(min_size=size, max_size=size), min_size=1))
    buffer, cells = cells_of(values)
    out = np.empty(len(cells), np.int64)
    for kernel, order in ((numbers.gather_little_endian, "little"), (numbers.gather_big_endian, "big")):
        kernel(buffer, BASE, cells, size, out)
        expected = [0 if value is None else int.from_bytes(value, order) for value in values]
        assert out.view(np.uint64).tolist() == expected


@given(st.lists(st.none() | st.integers(0, 255), min_size=1, max_size=40))
def test_years(values):
    buffer, cells = cells_of([None if value is None else bytes([value]) for value in values])
    years = np.empty(len(cells), np.int16)
    numbers.gather_years(buffer, BASE, cells, years)
    assert years.tolist() == [value + 1900 if value else 0 for value in values]
