"""The images of one key, one behind the other: what a change found is what the change before it left.
Not here: the rule (`rules.py`, `history_rule`), reading files (`one_pass.py`).

Works on hashes of keys and images. Among ten million keys two have the same one with a chance of one in 370,000: what
comes of that is a warning that names rows to look at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct

from strata.checks.arrow_values import equals, flags_of, whole_numbers
from strata.rows.row_hashes import hash_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from strata.checks.arrow_values import Flags
    from strata.checks.row_rules import Rows
    from strata.checks.rules import ImageChain
    from strata.rows.row_hashes import Ints

    Sides = npt.NDArray[np.uint8]

FOUND, LEFT = 0, 1
"""Sides of a change: the image before it, the image after it."""


class Events(NamedTuple):
    """Images in the order of the stream: an update is two, an insert or delete is one."""

    key: Ints
    image: Ints
    side: Sides
    at: Ints
    """The row in its file."""

    def taken(self, chosen: Ints) -> Events:
        """Some of them, in another order."""
        return Events(self.key[chosen], self.image[chosen], self.side[chosen], self.at[chosen])


class Edges(NamedTuple):
    """Of each key of a file, its first and its last image; in the order of the keys."""

    key: Ints
    first_image: Ints
    first_side: Sides
    first_at: Ints
    last_image: Ints
    last_side: Sides


def events_of(rows: Rows, chain: ImageChain, begin: int) -> Events:
    """The images of a batch.

    Args:
        rows: The batch.
        chain: The columns of key and image.
        begin: Rows of the file before it.
    """
    op, count = rows.column("_op"), rows.batch.num_rows
    is_update = flags_of(equals(op, "update"))
    has_found = is_update | flags_of(equals(op, "delete"))
    has_left = is_update | flags_of(equals(op, "insert"))
    after = {name: rows.batch.column(at) for at, name in enumerate(chain.columns)}
    left = _hashes(after, chain, count) if has_left.any() else None
    found = None
    if has_found.any():
        before = rows.column("_before")
        names = [before.type.field(at).name for at in range(before.type.num_fields)]
        found = _hashes(dict(zip(names, before.flatten(), strict=True)), chain, count)
    return _interleaved(found, left, has_found, has_left, begin)


def _hashes(columns: dict[str, Any], chain: ImageChain, count: int) -> tuple[Ints, Ints]:
    key = hash_keys([columns[name] for name in chain.keys], count)
    return key, hash_rows((columns[name] for name in chain.columns), count)


def hash_keys(keys: Sequence[Any], count: int) -> Ints:
    """One number a row of the columns of a key."""
    # A number is its own hash, and new ones mostly rise.
    found = whole_numbers(keys[0]) if len(keys) == 1 else None
    return hash_rows(keys, count) if found is None else found


def _interleaved(
    found: tuple[Ints, Ints] | None, left: tuple[Ints, Ints] | None, has_found: Flags, has_left: Flags, begin: int
) -> Events:
    counts = has_found.astype(np.int64) + has_left
    starts = np.cumsum(counts) - counts
    total = int(counts.sum())
    events = Events(
        np.empty(total, np.int64),
        np.empty(total, np.int64),
        np.empty(total, np.uint8),
        begin + np.repeat(np.arange(len(counts)), counts),
    )
    for side, hashes, has, places in (
        (FOUND, found, has_found, starts[has_found]),
        (LEFT, left, has_left, (starts + has_found)[has_left]),
    ):
        if hashes is not None:
            events.key[places] = hashes[0][has]
            events.image[places] = hashes[1][has]
            events.side[places] = side
    return events


def joined(parts: Sequence[Events]) -> Events:
    """Events of several batches or files, one behind the other."""
    none = np.zeros(0, np.int64)
    return Events(
        np.concatenate((none, *(part.key for part in parts))),
        np.concatenate((none, *(part.image for part in parts))),
        np.concatenate((np.zeros(0, np.uint8), *(part.side for part in parts))),
        np.concatenate((none, *(part.at for part in parts))),
    )


def by_key(events: Events) -> Events:
    """Events in the order of their keys; those of one key stay in the order of the stream."""
    if np.all(events.key[1:] > events.key[:-1]):
        return events
    return events.taken(_stable_order(events.key))


def _stable_order(keys: Ints) -> Ints:
    """NumPy's quick sort uses vector instructions and is not stable: only keys that occur again are put in order."""
    order = np.argsort(keys)
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    again = np.flatnonzero(np.concatenate(([False], same)) | np.concatenate((same, [False])))
    if len(again):
        places = order[again]
        order[again] = places[np.lexsort((places, ordered[again]))]
    return order


def broken(events: Events) -> Ints:
    """Events, by their number, that do not follow from the one before them of the same key.

    Args:
        events: In the order of `by_key`.
    """
    same = events.key[1:] == events.key[:-1]
    twice = events.side[1:] == events.side[:-1]
    changed = (events.side[1:] == FOUND) & (events.image[1:] != events.image[:-1])
    return np.flatnonzero(same & (twice | changed)) + 1


def edges_of(events: Events) -> Edges:
    """The first and last event of each key, of events in the order of `by_key`."""
    new = events.key[1:] != events.key[:-1]
    some = np.ones(min(1, len(events.key)), np.bool_)
    first, last = np.flatnonzero(np.concatenate((some, new))), np.flatnonzero(np.concatenate((new, some)))
    return Edges(
        events.key[first],
        events.image[first],
        events.side[first],
        events.at[first],
        events.image[last],
        events.side[last],
    )


class Firsts(NamedTuple):
    """Of some keys of a file the first image, where that is one before a change: it has to be what was left earlier."""

    key: Ints
    image: Ints
    at: Ints
    """The row in the file."""
    seq: Ints
    row: Ints


class Sampling(Struct, frozen=True):
    """Which keys of a table are held against what was published earlier."""

    keys: int | None
    """So many at most; None for all."""
    salt: int
    """Whoever has another one takes other keys."""

    def chosen(self, keys: Ints) -> Ints:
        """Places of those that are taken, the same of equal keys wherever they are, in rising order."""
        if self.keys is None or len(keys) <= self.keys:
            return np.arange(len(keys))
        mixed = (keys ^ np.int64(self.salt)).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        # The lower bits of a product depend on few of a number's.
        mixed ^= mixed >> np.uint64(32)
        return np.sort(np.argpartition(mixed * np.uint64(0xD6E8FEB86659FD93), self.keys)[: self.keys])


def firsts_of(events: Events, sampling: Sampling, seq: Ints, row: Ints) -> Firsts:
    """The first images before a change of some keys.

    Args:
        events: In the order of `by_key`.
        sampling: Which keys.
        seq: Of each row of the file.
        row: Likewise.
    """
    edges = edges_of(events)
    found = np.flatnonzero(edges.first_side == FOUND)
    chosen = found[sampling.chosen(edges.key[found])]
    at = edges.first_at[chosen]
    return Firsts(edges.key[chosen], edges.first_image[chosen], at, seq[at], row[at])


class BetweenFiles(NamedTuple):
    """Where the images of a key do not go on from one file to the next."""

    file: Ints
    """Number of the file that goes on."""
    at: Ints
    """The row in it."""
    side: Sides


def broken_between(files: Sequence[Edges]) -> BetweenFiles:
    """Compares the first image of each key in a file with its last one in the files before.

    Args:
        files: In the order of the stream.
    """
    key, first_image, first_side, first_at, last_image, last_side = (
        np.concatenate(columns) for columns in zip(*files, strict=True)
    )
    number = np.repeat(np.arange(len(files)), [len(edges.key) for edges in files])
    order = _stable_order(key)
    before, after = order[:-1], order[1:]
    same = key[before] == key[after]
    twice = first_side[after] == last_side[before]
    changed = (first_side[after] == FOUND) & (first_image[after] != last_image[before])
    found = np.sort(after[same & (twice | changed)])
    return BetweenFiles(number[found], first_at[found], first_side[found])


def split_edges(edges: Edges, parts: int) -> Iterator[tuple[int, Edges]]:
    """The edges of a file by the hash of their key; parts without any are left out."""
    part = edges.key % parts
    for number in range(parts):
        chosen = part == number
        if chosen.any():
            yield number, Edges(*(column[chosen] for column in edges))
