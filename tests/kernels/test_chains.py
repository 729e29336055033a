"""Images of equal keys behind each other, as a dictionary has it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_cdc.binlog.kernels.chains import FOUND, HAS_FOUND, HAS_LEFT, LEFT, follow_keys, interleave, place_in_order


class Place(NamedTuple):
    key: int
    first_image: int
    first_side: int
    last_image: int
    last_side: int


SIDES = st.sampled_from([FOUND, LEFT])
PLACES = st.builds(Place, st.sampled_from([-(2**63), -1, 0, 1, 8, 16, 2**40]), st.integers(0, 1), SIDES,
                   st.integers(0, 1), SIDES)  # fmt: skip


def followed(places: list[Place], slots: int = 64) -> tuple[list[int], list[int], list[int]]:
    count = len(places)
    columns = [np.array(column, np.int64) for column in zip(*places, strict=True)] or [np.zeros(0, np.int64)] * 5
    keys, first_images, first_sides, last_images, last_sides = columns
    found, broken = np.zeros((2, count), np.int64), np.zeros(count, np.int64)
    met, odd = follow_keys(
        keys, first_images, first_sides.astype(np.uint8), last_images, last_sides.astype(np.uint8),
        np.zeros(slots, np.int32), found, broken,
    )  # fmt: skip
    return found[0, :met].tolist(), found[1, :met].tolist(), broken[:odd].tolist()


RISING = st.lists(st.integers(0, 12), max_size=20).map(
    lambda keys: [Place(key, 0, FOUND, 0, LEFT) for at in range(len(keys)) for key in (10 * at, 10 * at - keys[at])]
)
"""Keys that rise, and now and then one that has been met, or one between two of them."""


@given(st.one_of(st.lists(PLACES, max_size=20), RISING))
def test_first_and_last_of_each_key_and_what_does_not_go_on(places):
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    broken = []
    for at, place in enumerate(places):
        before = places[last[place.key]] if place.key in last else None
        first.setdefault(place.key, at)
        last[place.key] = at
        if before is not None and (
            place.first_side == before.last_side
            or (place.first_side == FOUND and place.first_image != before.last_image)
        ):
            broken.append(at)
    assert followed(places) == (list(first.values()), [last[key] for key in first], broken)


@pytest.mark.parametrize("slots", [8, 12])
def test_a_table_without_a_free_slot_is_not_filled(slots):
    keys = np.arange(8)
    sides, found, broken = np.zeros(8, np.uint8), np.zeros((2, 8), np.int64), np.zeros(8, np.int64)
    slots = np.zeros(slots, np.int32)
    assert follow_keys(keys, keys, sides, keys, sides, slots, found, broken) == (-1, -1)
    assert not slots.any()


CHANGES = st.lists(st.sampled_from([0, HAS_FOUND, HAS_LEFT, HAS_FOUND | HAS_LEFT]), max_size=12)


@pytest.mark.parametrize("is_copied", [False, True])
@given(CHANGES, st.integers(0, 12))
def test_images_of_changes_are_put_one_behind_the_other(is_copied, changes, cut):
    expected = [
        (10 * at + side, 100 * at + side, at, side)
        for at, change in enumerate(changes)
        for side, bit in ((FOUND, HAS_FOUND), (LEFT, HAS_LEFT))
        if change & bit
    ]
    so_far, events = np.zeros(2, np.int64), np.zeros((3, len(expected)), np.int64)
    sides = np.zeros(len(expected), np.uint8)
    for begin, some in ((0, changes[:cut]), (min(cut, len(changes)), changes[cut:])):
        hashes = []
        for side, bit in ((FOUND, HAS_FOUND), (LEFT, HAS_LEFT)):
            rows = [begin + at for at, change in enumerate(some) if change & bit or not is_copied]
            hashes += [np.array([scale * row + side for row in rows], np.int64) for scale in (10, 100)]
        made = interleave(np.array(some, np.uint8), *hashes, so_far, events, sides)
    assert made == len(expected)
    assert list(zip(*events.tolist(), sides.tolist(), strict=True)) == expected


def test_images_without_room_are_not_put():
    one, sides = np.ones(1, np.int64), np.array([HAS_FOUND | HAS_LEFT], np.uint8)
    for room, hashes in ((1, one), (2, one[:0])):
        events, found = np.zeros((3, room), np.int64), np.zeros(room, np.uint8)
        assert interleave(sides, hashes, hashes, hashes, hashes, np.zeros(2, np.int64), events, found) == -1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_rows_that_are_not_in_order_are_counted(rows):
    later = [at for at in range(1, len(rows)) if rows[at] <= rows[at - 1]]
    seq, row = np.array(rows, np.int64).reshape(-1, 2).T.copy()
    assert place_in_order(seq, row) == (len(later), later[0] if later else -1)
