"""Edges of files that are too many for memory: what comes back is what was put, whatever had to go to the disk."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.errors import LakeUnavailableError
from strata_cdc.quality.checks.before_after import Edges
from strata_cdc.quality.checks.kept_edges import FileEdges, KeptEdges
from strata_cdc.quality.checks.pass_results import Between
from tests.disks import no_file_above

KEYS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20), max_size=30, unique=True)


def edges_of(keys: list[int], seed: int) -> Edges:
    random = np.random.default_rng(seed)
    count = len(keys)
    images = [random.integers(-9, 9, count) for _ in range(2)]
    sides = [random.integers(1, 3, count).astype(np.uint8) for _ in range(2)]
    is_requested = random.integers(0, 2, count).astype(bool)
    return Edges(np.array(keys, np.int64), images[0], sides[0], np.arange(count), images[1], sides[1], is_requested)


def rows_of(files: list[FileEdges]) -> set[tuple[object, ...]]:
    return {
        (file.first, file.url, *row)
        for file in files
        for row in zip(*(column.tolist() for column in file.edges), strict=True)
    }


@given(st.lists(st.tuples(st.sampled_from("ab"), KEYS), max_size=8), st.integers(0, 2000))
def test_every_key_comes_back_once_and_in_one_part(files: list[tuple[str, list[int]]], most_bytes: int) -> None:
    put: dict[str, list[FileEdges]] = {}
    with KeptEdges(most_bytes) as kept:
        for number, (group, keys) in enumerate(files):
            file = FileEdges((number, 0), f"file{number}", edges_of(keys, number))
            put.setdefault(group, []).append(file)
            kept.put(group, file)
        assert kept.groups() == sorted(put)
        for group, expected in put.items():
            parts = list(kept.parts(group))
            assert set().union(*map(rows_of, parts)) == rows_of(expected)
            assert sum(len(file.edges.key) for part in parts for file in part) == sum(
                len(file.edges.key) for file in expected
            )
            keys = [{key for file in part for key in file.edges.key.tolist()} for part in parts]
            assert sum(map(len, keys)) == len(set().union(*keys))
            at_once, in_parts = (
                Between.from_edges(expected),
                reduce(Between.joined, map(Between.from_edges, parts), Between()),
            )
            assert (in_parts.broken, in_parts.rows) == (at_once.broken, at_once.rows)


def test_a_full_disk_is_an_error() -> None:
    large = FileEdges((1, 0), "file", edges_of(list(range(100_000)), 1))
    with (
        KeptEdges(0) as kept,
        no_file_above(1_000_000),
        pytest.raises(LakeUnavailableError, match="takes no more keys of a check") as failure,
    ):
        kept.put("a", large)
    assert "set TMPDIR to another folder, or give the run to Spark" in (failure.value.remedy or "")
