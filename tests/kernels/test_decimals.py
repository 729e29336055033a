from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels import decimals
from tests.kernels.cells import BASE, cells_of
from tests.naive.decoder import Reader
from tests.naive.decoder import decimal as naive_decimal

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4)


def _size(precision: int, scale: int) -> int:
    whole = precision - scale
    return whole // 9 * 4 + SIZES[whole % 9] + scale // 9 * 4 + SIZES[scale % 9]


@st.composite
def columns(draw, most):
    precision = draw(st.integers(1, most))
    scale = draw(st.integers(0, min(precision, 30)))
    digits = st.text("0123456789", min_size=precision, max_size=precision)
    texts = draw(st.lists(st.none() | st.tuples(st.booleans(), digits), min_size=1, max_size=20))
    return precision, scale, [None if text is None else _packed(*text, precision, scale) for text in texts]


def _packed(negative: bool, digits: str, precision: int, scale: int) -> bytes:
    whole = precision - scale
    groups = [digits[: whole % 9]] + [digits[k : k + 9] for k in range(whole % 9, whole, 9)]
    groups += [digits[k : k + 9] for k in range(whole, precision, 9)]
    data = bytearray()
    for group in groups:
        data += int(group or "0").to_bytes(4 if len(group) == 9 else SIZES[len(group)], "big")
    if negative:
        data = bytearray(byte ^ 0xFF for byte in data)
    data[0] ^= 0x80
    return bytes(data)


@given(columns(38))
def test_numbers_of_128_bits(column):
    precision, scale, values = column
    buffer, cells = cells_of(values)
    out = np.empty(2 * len(cells), np.int64)
    bad = np.zeros(len(cells), np.uint8)
    assert decimals.gather_decimals(buffer, BASE, cells, precision, scale, out, bad) == 0
    found = [int.from_bytes(out[at : at + 2].tobytes(), "little", signed=True) for at in range(0, len(out), 2)]
    texts = [None if value is None else naive_decimal(Reader(value), precision, scale) for value in values]
    assert found == [0 if text is None else int(Decimal(text).scaleb(scale, EXACT)) for text in texts]


EXACT = Context(prec=100)


@given(columns(65))
def test_texts(column):
    precision, scale, values = column
    buffer, cells = cells_of(values)
    out = np.empty((precision + 3) * len(cells), np.uint8)
    offsets = np.empty(len(cells) + 1, np.int32)
    bad = np.zeros(len(cells), np.uint8)
    assert decimals.gather_decimal_texts(buffer, BASE, cells, precision, scale, offsets, out, bad) == 0
    for at, value in enumerate(values):
        text = out[offsets[at] : offsets[at + 1]].tobytes().decode()
        assert text == ("" if value is None else naive_decimal(Reader(value), precision, scale))


def test_digits_above_nine_are_found():
    buffer, cells = cells_of([b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x80\x00\x00\x07"])
    out, bad = np.empty(6, np.int64), np.zeros(3, np.uint8)
    assert decimals.gather_decimals(buffer, BASE, cells, 9, 0, out, bad) == 1
    assert (bad.tolist(), out[4]) == ([0, 1, 0], 7)
    offsets, texts = np.empty(4, np.int32), np.empty(36, np.uint8)
    bad[:] = 0
    assert decimals.gather_decimal_texts(buffer, BASE, cells, 9, 0, offsets, texts, bad) == 1
    assert (bad.tolist(), texts[: offsets[3]].tobytes()) == ([0, 1, 0], b"07")
