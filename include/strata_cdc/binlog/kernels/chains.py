"""Follows the images of each key in the order of the stream: the first and the last image of each key, and the breaks.
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
    """The number of rows that are not later than the row before them, and the first of these rows, or -1."""
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
    """Writes the images of changes one after the other, the before image of each change first.

    Args:
        sides: Per row `HAS_FOUND`, `HAS_LEFT`, or both.
        found_keys: Hashes of the keys of before images, for all rows or only for those that have a before image.
        found_images: Hashes of before images, likewise.
        left_keys: As `found_keys`, for after images.
        left_images: As `found_images`, for after images.
        so_far: The number of earlier changes, and the number of their images; changed.
        events: Three rows, changed: hash of the key, hash of the image, number of the change.
        event_sides: As long as `events`; changed: `FOUND` or `LEFT`.

    Returns:
        The number of images now; -1 if the lengths of the arrays do not fit.
    """
    if so_far.shape[0] != 2 or so_far[1] < 0 or events.shape[0] != 3:
        return np.int64(-1)
    begin, made = so_far[0], so_far[1]
    count, room = sides.shape[0], min(events.shape[1], event_sides.shape[0])
    founds, lefts = min(found_keys.shape[0], found_images.shape[0]), min(left_keys.shape[0], left_images.shape[0])
    next_found = next_left = np.int64(0)
    for i in range(count):
        if sides[i] & HAS_FOUND:
            at = i if founds == count else next_found
            if at >= founds or made >= room:
                return np.int64(-1)
            events[0, made], events[1, made], events[2, made] = found_keys[at], found_images[at], begin + i
            event_sides[made] = FOUND
            next_found += np.int64(1)
            made += np.int64(1)
        if sides[i] & HAS_LEFT:
            at = i if lefts == count else next_left
            if at >= lefts or made >= room:
                return np.int64(-1)
            events[0, made], events[1, made], events[2, made] = left_keys[at], left_images[at], begin + i
            event_sides[made] = LEFT
            next_left += np.int64(1)
            made += np.int64(1)
    so_far[0], so_far[1] = begin + count, made
    return made


@part
def find_key(keys: Ints, slots: Slots, first: Ints, key: Int) -> Int:
    """The slot of a key, or the free slot where it belongs; there is one, because there are more slots than keys."""
    mask = np.int64(slots.shape[0] - 1)
    at = stir(np.int64(0), key) & mask
    while slots[at] and keys[first[slots[at] - 1]] != key:
        at = (at + np.int64(1)) & mask
    return at


@part
def find_rising(keys: Ints, first: Ints, met: Int, key: Int) -> Int:
    """The number of a key among ascending keys, or -1."""
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
    """Puts the keys so far into the hash table."""
    for entry in range(met):
        slots[find_key(keys, slots, first, keys[first[entry]])] = entry + np.int64(1)


@part
def goes_on(first_image: Int, first_side: Int, last_image: Int, last_side: Int) -> Int:
    """Whether an image may follow another image of the same key."""
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
    """Follows the keys of entries in the order of the stream; each entry has a first and a last image.

    Between an entry and the previous one with the same key there is a break in two cases: its first image has the same
    side as the previous last image, or it is a before image that differs from the previous last image.

    Args:
        keys: One per entry.
        first_images: Hashes, one per entry; may be the same array as `last_images`.
        first_sides: `FOUND` or `LEFT`.
        last_images: As `first_images`.
        last_sides: As `first_sides`.
        slots: A hash table of zeros; its size is a power of two, and larger than the number of entries; changed.
        places: Two rows, as long as `keys`; changed: the first and the last entry of each key, in the order of the
            keys' first entries.
        broken: As long as `keys`; changed: the entries with a break before them, ascending.

    Returns:
        The number of keys and the number of breaks; -1 twice if the lengths of the arrays do not fit.
    """
    count, met, odd = np.int64(keys.shape[0]), np.int64(0), np.int64(0)
    images, sides = min(first_images.shape[0], last_images.shape[0]), min(first_sides.shape[0], last_sides.shape[0])
    room = min(places.shape[1], broken.shape[0], slots.shape[0] - 1)
    if places.shape[0] != 2 or count > min(images, sides, room) or slots.shape[0] & (slots.shape[0] - 1):
        return np.int64(-1), np.int64(-1)
    first, last = places[0], places[1]
    # New keys are mostly ascending: as long as all are, they are looked up without the hash table.
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
