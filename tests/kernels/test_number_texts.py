"""Digits are those that Python writes, of all numbers that there are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.number_texts import LONGEST_INTEGER, SECOND_BYTES, digits_of, integer_texts, moment_texts

ANY = st.integers(-(1 << 63), (1 << 63) - 1)
BORDERS = st.builds(
    lambda power, off, sign: sign * (10**power + off), st.integers(0, 18), st.integers(-1, 1), st.just(1)
)
NUMBERS = st.lists(ANY | st.integers(-1000, 1000) | BORDERS | BORDERS.map(lambda one: -one), max_size=20)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


@given(NUMBERS)
@example([-(1 << 63), (1 << 63) - 1, 0, -1, 9, 10, -10, 99, 100, 10**18, -(10**18)])
def test_integers(values):
    starts, out = np.empty(len(values) + 1, np.int64), np.empty(LONGEST_INTEGER * len(values), np.uint8)
    size = integer_texts(np.array(values, np.int64), starts, out)
    assert out[:size].tobytes() == "".join(map(str, values)).encode()
    assert np.diff(starts).tolist() == [len(str(value)) for value in values]


@given(st.integers(0, ((1 << 63) - 1) // 10) | BORDERS.filter(lambda one: 0 <= one < 1 << 59))
def test_digits_are_counted(value):
    assert digits_of(value) == (len(str(value)) if value else 0)


@given(st.lists(MOMENTS | st.integers(0, 3_000_000), max_size=12), st.integers(0, 6), st.integers(0, 2))
@example([-1, 0, 951_827_696_789_000, -62_135_596_800_000_000, 253_402_300_799_999_999], 6, 1)
def test_moments(values, digits, behind):
    size = SECOND_BYTES + (digits + 1 if digits else 0) + behind
    out = np.full(size * len(values), ord("Z"), np.uint8)
    moment_texts(np.array(values, np.int64), ord("T"), digits, size, out)
    texts = [(EPOCH + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%f") for value in values]
    # Before the year 1000 the C library leaves zeros out.
    whole = [text.rjust(26, "0")[: SECOND_BYTES + (digits + 1 if digits else 0)] for text in texts]
    assert out.tobytes().decode() == "".join(text + "Z" * behind for text in whole)


@given(st.lists(ANY, max_size=8), st.integers(0, 6))
def test_moments_of_other_years_stay_in_their_place(values, digits):
    size = SECOND_BYTES + (digits + 1 if digits else 0)
    out = np.zeros(size * len(values) + 8, np.uint8)
    moment_texts(np.array(values, np.int64), ord(" "), digits, size, out)
    assert not out[size * len(values) :].any()
