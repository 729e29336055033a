"""A few hundred of the files of `make fuzz`, and those that once found something."""

from __future__ import annotations

import random

import pytest

from tests.changes.fuzz import FILES, Target, check, damage

FOUND = (54, 174, 315, 661, 790, 2409, 102569)
"""Rows in front of a broken cell were lost; a row event without columns never ended; a decimal had no digits."""


@pytest.fixture(scope="module")
def targets():
    return [Target(name) for name in FILES]


@pytest.mark.parametrize("seed", [*FOUND, *range(10_000, 10_200)])
def test_a_damaged_file_gives_right_rows_and_then_an_error(targets, seed, tmp_path):
    target = targets[seed % len(targets)]
    data, first = damage(target, random.Random(seed))
    check(target, data, first, tmp_path / "binlog.000001")
