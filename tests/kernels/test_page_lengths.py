"""Lengths and levels of Parquet pages: what is unpacked, and that nothing beyond a page is read.

That they are what a writer has packed is in tests/quality/test_text_pages.py, by Arrow.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.text_pages import known_rows, place_texts, unpack_lengths


def bytes_of(page: bytes) -> np.ndarray:
    return np.frombuffer(page, np.uint8)


@given(st.binary(max_size=60), st.integers(0, 70), st.integers(0, 70), st.integers(0, 40))
def test_no_bytes_are_read_beyond_a_page(page, begin, end, count):
    data = bytes_of(page)
    known, lengths = np.zeros(count, np.uint8), np.zeros(count, np.int64)
    assert -1 <= known_rows(data, begin, end, known) <= count
    assert -1 <= unpack_lengths(data, begin, lengths) <= len(page)
    offsets = np.zeros(count + 1, np.int32)
    assert place_texts(lengths, known, offsets) >= -1


def test_lengths_of_one_block():
    # A block of 128 in four; five values from 7 on; steps of -1 and, in two bits each, 2, 0, 3, 1 more.
    page = bytes([128, 1, 4, 5, 14, 1, 2, 0, 0, 0, 0b01_11_00_10, *[0] * 7])
    lengths = np.zeros(5, np.int64)
    assert unpack_lengths(bytes_of(page), 0, lengths) == len(page)
    assert lengths.tolist() == [7, 8, 7, 9, 9]
    assert unpack_lengths(bytes_of(page[:-1]), 0, lengths) == -1
    assert unpack_lengths(bytes_of(page), 0, np.zeros(4, np.int64)) == -1


def test_levels_of_a_run_and_a_group():
    page = bytes([3 << 1, 1, 1 << 1 | 1, 0b0000_0101])
    known = np.zeros(7, np.uint8)
    assert known_rows(bytes_of(page), 0, len(page), known) == 5
    assert known.tolist() == [1, 1, 1, 1, 0, 1, 0]
    assert known_rows(bytes_of(page), 0, len(page), np.zeros(12, np.uint8)) == -1
    assert known_rows(bytes_of(bytes([2 << 1, 2])), 0, 2, known) == -1


def test_texts_lie_one_behind_the_other():
    offsets = np.zeros(4, np.int32)
    assert place_texts(np.array([2, 3]), np.array([1, 0, 1], np.uint8), offsets) == 5
    assert offsets.tolist() == [0, 2, 2, 5]
    assert place_texts(np.array([2]), np.array([1, 0, 1], np.uint8), offsets) == -1
    assert place_texts(np.array([2, -1, 1]), np.zeros(0, np.uint8), offsets) == -1
    assert place_texts(np.array([1 << 30, 1 << 30, 1]), np.zeros(0, np.uint8), offsets) == -1
