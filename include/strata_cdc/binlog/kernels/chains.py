"""Images of equal keys, one after the other: the first and the last of each key, and those that do not go on.
Not here: what a key and an image are (`quality/checks/before_after.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from strata_cdc.binlog.kernels.hashes import stir
from strata_cdc.binlog.kernels.jit import kernel, part

if TYPE_CHECKING:
    from strata_cdc.binlog.kernels.arrays import Bytes, Int, IntRows, Ints, Slots

FOUND, LEFT = 0, 1
"""Sides of a change: the image before it, the image after it."""


HAS_FOUND, HAS_LEFT = 1, 2
"""Bits: which sides a change has."""


@kernel
def place_in_order(seq: Ints, row: Ints) -> tuple[Int, Int]:
    """How many rows do not come after the one before them, by transaction and row, and the first of these, or -1."""
    count, first = np.int64(0), np.int64(-1)
    for i in range(1, min(seq.shape[0], row.shape[0])):
        if seq[i] < seq[i - 1] or (seq[i] == seq[i - 1] and row[i] <= row[i - 1]):
            if count == 0:
                first = np.int64(i)
            count += np.int64(1)
    return count, first


@kernel
def interleave(
    sides: Bytes,
    found_keys: Ints,
    found_images: Ints,
    left_keys: Ints,
    left_images: Ints,
    so_far: Ints,
    events: IntRows,
    event_sides: Bytes,
) -> Int:
    """Puts the images of changes one after the other, that before a change first.

    Args:
        sides: Per row `HAS_FOUND`, `HAS_LEFT`, or both.
        found_keys: Hashes of keys before, of all rows or only of those that have one.
        found_images: Hashes of images before, likewise.
        left_keys: As `found_keys`, of images after.
        left_images: As `found_images`.
        so_far: How many changes came before these, and how many images they had; changed.
        events: Three rows, changed: hash of the key, of the image, number of the change.
        event_sides: As long as these; changed: `FOUND` or `LEFT`.

    Returns:
        How many images there are now; -1 for arrays of other lengths.
    """
    if so_far.shape[0] != 2 or so_far[1] < 0 or events.shape[0] != 3:
        return np.int64(-1)
    begin, made = so_far[0], so_far[1]
    count, room = sides.shape[0], min(events.shape[1], event_sides.shape[0])
    founds, lefts = min(found_keys.shape[0], found_images.shape[0]), min(left_keys.shape[0], left_images.shape[0])
    found = left = np.int64(0)
    for i in range(count):
        if sides[i] & HAS_FOUND:
            at = i if founds == count else found
            if at >= founds or made >= room:
                return np.int64(-1)
            events[0, made], events[1, made], events[2, made] = found_keys[at], found_images[at], begin + i
            event_sides[made] = FOUND
            found += np.int64(1)
            made += np.int64(1)
        if sides[i] & HAS_LEFT:
            at = i if lefts == count else left
            if at >= lefts or made >= room:
                return np.int64(-1)
            events[0, made], events[1, made], events[2, made] = left_keys[at], left_images[at], begin + i
            event_sides[made] = LEFT
            left += np.int64(1)
            made += np.int64(1)
    so_far[0], so_far[1] = begin + count, made
    return made


@part
def find_key(keys: Ints, slots: Slots, first: Ints, key: Int) -> Int:
    """The slot of a key, or the free one where it belongs; there is one, as there are more than keys."""
    mask = np.int64(slots.shape[0] - 1)
    at = stir(np.int64(0), key) & mask
    while slots[at] and keys[first[slots[at] - 1]] != key:
        at = (at + np.int64(1)) & mask
    return at


@part
def find_rising(keys: Ints, first: Ints, met: Int, key: Int) -> Int:
    """The number of a key among keys that rise, or -1."""
    low, high = np.int64(0), met
    while low < high:
        middle = (low + high) >> np.int64(1)
        if keys[first[middle]] < key:
            low = middle + np.int64(1)
        else:
            high = middle
    return low if low < met and keys[first[low]] == key else np.int64(-1)


@part
def enter_keys(keys: Ints, slots: Slots, first: Ints, met: Int) -> None:
    """Puts the keys that have been met into the hash table."""
    for entry in range(met):
        slots[find_key(keys, slots, first, keys[first[entry]])] = entry + np.int64(1)


@part
def goes_on(first_image: Int, first_side: Int, last_image: Int, last_side: Int) -> Int:
    """Whether an image may come after another one of the same key."""
    return first_side != last_side and (first_side != FOUND or first_image == last_image)


@kernel
def follow_keys(
    keys: Ints,
    first_images: Ints,
    first_sides: Bytes,
    last_images: Ints,
    last_sides: Bytes,
    slots: Slots,
    places: IntRows,
    broken: Ints,
) -> tuple[Int, Int]:
    """Follows the keys of places in the order of the stream; each place has a first and a last image.

    A place does not go on where its first image has the side of the one before it of the same key, or is one before a
    change and another than that.

    Args:
        keys: One a place.
        first_images: Hashes, likewise; may be the same array as `last_images`.
        first_sides: `FOUND` or `LEFT`.
        last_images: As `first_images`.
        last_sides: As `first_sides`.
        slots: A hash table with zeros; a power of two, more than places; changed.
        places: Two rows, as long as `keys`; changed: of each key, in the order in which they are met, its first place
            and its last one.
        broken: As long as `keys`; changed: the places that do not go on, rising.

    Returns:
        How many keys there are, and how many places do not go on; -1 twice for arrays of other lengths.
    """
    count, met, odd = np.int64(keys.shape[0]), np.int64(0), np.int64(0)
    images, sides = min(first_images.shape[0], last_images.shape[0]), min(first_sides.shape[0], last_sides.shape[0])
    room = min(places.shape[1], broken.shape[0], slots.shape[0] - 1)
    if places.shape[0] != 2 or count > min(images, sides, room) or slots.shape[0] & (slots.shape[0] - 1):
        return np.int64(-1), np.int64(-1)
    first, last = places[0], places[1]
    # New keys mostly rise: as long as all do, they are looked up where they are.
    is_rising = True
    for i in range(count):
        key, entry, at = keys[i], np.int64(-1), np.int64(0)
        if is_rising and met > 0 and key <= keys[first[met - 1]]:
            entry = find_rising(keys, first, met, key)
            if entry < 0:
                is_rising = False
                enter_keys(keys, slots, first, met)
        if not is_rising:
            at = find_key(keys, slots, first, key)
            entry = np.int64(slots[at]) - np.int64(1)
        if entry < 0:
            first[met] = last[met] = i
            met += np.int64(1)
            if not is_rising:
                slots[at] = met
            continue
        before = last[entry]
        if not goes_on(first_images[i], first_sides[i], last_images[before], last_sides[before]):
            broken[odd] = i
            odd += np.int64(1)
        last[entry] = i
    return met, odd
