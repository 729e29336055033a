"""Texts that are JSON and those that are none, as Python's own reader has it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.kernels.hashes import hash_fixed, hash_texts
from strata.kernels.json_texts import find_no_json

GOOD = [
    "{}", "[]", " [1, -0.5e+3, 0, 10.25] ", '{"a": {"b": [true, false, null]}, "c": "x"}', '"\\u00e9\\n\\\\"', "3",
    "-1",
    '"\x7f\u00fc"', "[[[[]]]]", '{"": 0}', "1E5",
]  # fmt: skip
BAD = [
    "", " ", "{", "]", "[1,]", "{1: 2}", '{"a" 1}', '{"a": }', "01", "1.", ".5", "-", "+1", "1e", "tr", "nul", "nan",
    '"', '"\n"', '"\\x"', '"\\u12g4"', "[1 2]", "{}{}", "[}", '{"a": 1]', "'a'", '{"a",}', "1,", "[,1]", ":",
    "falsy", '{"a": 1,}',
]  # fmt: skip


def judged(texts: list[bytes], depth: int = 100) -> list[bool]:
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    bad = np.zeros(len(texts), np.uint8)
    count = find_no_json(np.frombuffer(b"".join(texts), np.uint8), ends, np.zeros(depth, np.uint8), bad)
    assert count == bad.sum()
    return [not one for one in bad]


@pytest.mark.parametrize(("texts", "good"), [(GOOD, True), (BAD, False)])
def test_texts(texts, good):
    assert judged([text.encode() for text in texts]) == [good] * len(texts)


def test_depth():
    assert judged([b"[" * 100 + b"]" * 100, b"[" * 101 + b"]" * 101]) == [True, False]


@given(st.text(alphabet='{}[]",:\\ 0123.eE-+truefalsn\n', max_size=12))
def test_as_python_reads_it(text):
    try:
        json.loads(text)
        good = True
    except ValueError:
        good = False
    assert judged([text.encode()]) == [good]


def hashed(values: list[bytes | None]) -> list[int]:
    texts = [value or b"" for value in values]
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    nulls = np.array([value is None for value in values], np.uint8)
    found = np.zeros(len(values), np.int64)
    assert hash_texts(np.frombuffer(b"".join(texts), np.uint8), ends, nulls, found) == -1
    return found.tolist()


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=20))
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
