"""Hashes of values: equal ones have equal hashes, and no others do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.folds import fold_product
from strata_cdc.binlog.kernels.hashes import hash_fixed, hash_texts


def hashed(values: list[bytes | None]) -> list[int]:
    texts = [value or b"" for value in values]
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    nulls = np.array([value is None for value in values], np.uint8)
    found = np.zeros(len(values), np.int64)
    assert hash_texts(np.frombuffer(b"".join(texts), np.uint8), ends, nulls, found) == -1
    return found.tolist()


WORDS = st.lists(st.sampled_from([b"12345678", b"\0" * 8, b"\xff" * 8, b"x"]), max_size=8).map(b"".join)
"""Values whose words repeat: what is stirred in twice must not be gone."""


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20), WORDS), max_size=20))
def test_equal_values_and_no_others_have_equal_hashes(values):
    found = hashed(values)
    assert len(set(found)) == len(set(values))
    assert hashed(values[::-1]) == found[::-1]


def test_numbers_of_every_width():
    for width in (1, 2, 4, 8, 16):
        data = np.arange(4 * width, dtype=np.uint8)
        found = np.zeros(4, np.int64)
        assert hash_fixed(data, width, np.array([0, 0, 1, 0], np.uint8), found) == -1
        assert len(set(found.tolist())) == 4
        assert hash_fixed(data[:-1], width, np.zeros(0, np.uint8), np.zeros(4, np.int64)) == 3


def test_bytes_that_are_not_there_are_not_read():
    offsets = np.array([0, 2, 9], np.int32)
    assert hash_texts(np.zeros(4, np.uint8), offsets, np.zeros(0, np.uint8), np.zeros(2, np.int64)) == 1


@given(st.binary(min_size=1, max_size=100), st.data())
def test_each_byte_counts(value, data):
    at = data.draw(st.integers(0, len(value) - 1))
    other = value[:at] + bytes([value[at] ^ 1 << data.draw(st.integers(0, 7))]) + value[at + 1 :]
    first, second = hashed([value, other])
    assert first != second


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_products_are_folded(left, right):
    product = (left % 2**64) * (right % 2**64)
    folded = np.array([product % 2**64 ^ product >> 64], np.uint64).view(np.int64)[0]
    assert fold_product(np.int64(left), np.int64(right)) == folded
