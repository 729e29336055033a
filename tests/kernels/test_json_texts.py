"""Texts that are JSON and those that are none, as Python's own reader has it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.json_texts import find_no_json

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
