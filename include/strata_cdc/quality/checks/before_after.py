"""The images of one key, one after the other: the image before a change must be the image after the previous change.
Not here: the rule (`rules.py`, `history_rule`), reading files (`one_pass.py`).

Works on hashes of keys and images. Among ten million keys two have the same one with a chance of one in 370,000: what
comes of that is a warning that names rows to look at.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from strata_cdc.binlog.kernels.chains import FOUND, HAS_FOUND, HAS_LEFT, follow_keys, interleave
from strata_cdc.changes.arrow import BEFORE
from strata_cdc.changes.row_hashes import hash_rows
from strata_cdc.quality.checks.arrow_values import column_of, flags_of, whole_numbers
from strata_cdc.quality.checks.rules import frame_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from strata_cdc.changes.row_hashes import Column, Ints
    from strata_cdc.quality.checks.arrow_values import Flags
    from strata_cdc.quality.checks.row_rules import RuleRows
    from strata_cdc.quality.checks.rules import ImageChain

    Sides = npt.NDArray[np.uint8]


class ImageEvents(NamedTuple):
    """Images in the order of the stream: an update is two, an insert or delete is one."""

    key: Ints
    image: Ints
    side: Sides
    at: Ints
    """The row in its file."""

    def selected(self, chosen: Ints) -> ImageEvents:
        """Some of them, in another order."""
        return ImageEvents._make(column[chosen] for column in self)


class Edges(NamedTuple):
    """Of each key of a file, its first and its last image; in the order in which the keys are met."""

    key: Ints
    first_image: Ints
    first_side: Sides
    first_at: Ints
    last_image: Ints
    last_side: Sides
    is_requested: Flags
    """Whether the first image is to be compared with what was published earlier."""

    def selected(self, chosen: Flags | Ints | slice) -> Edges:
        """Those of some keys."""
        return Edges._make(column[chosen] for column in self)


class ImageBuffers:
    """Memory that the images of one file after the other are put into: what is new to a process is slow at first."""

    def __init__(self) -> None:
        self._words = {"events": np.empty(0, np.int64), "places": np.empty(0, np.int64)}

    def words(self, name: str, columns: int) -> Ints:
        """Three rows of numbers, of any value; the next call with the same name gets the same memory."""
        if len(self._words[name]) < 3 * columns:
            self._words[name] = np.empty(3 * columns, np.int64)
        return self._words[name][: 3 * columns].reshape(3, columns)


class GatheredImages:
    """The images of the batches of a file, one after the other."""

    def __init__(self, rows: int, buffers: ImageBuffers | None = None) -> None:
        """For the images of so many rows; buffers that are given had those of another file."""
        self._so_far = np.zeros(2, np.int64)
        self._events = (buffers or ImageBuffers()).words("events", 2 * rows)
        self._sides = np.empty(2 * rows, np.uint8)

    def add(self, rows: RuleRows, chain: ImageChain) -> None:
        """Takes the images of the next batch.

        Raises:
            ValueError: The buffer is too small for so many.
        """
        is_update = flags_of(rows.is_op("update"))
        has_found = is_update | flags_of(rows.is_op("delete"))
        has_left = is_update | flags_of(rows.is_op("insert"))
        after = {name: rows.column(frame_column(name)) for name in chain.columns}
        before = rows.column("_before")
        names = [before.type.field(at).name for at in range(before.type.num_fields)]
        invalid = rows.column("_invalid")
        hashes = _hashes(dict(zip(names, before.flatten(), strict=True)), chain, has_found, (invalid, f"{BEFORE}."))
        left = _hashes(after, chain, has_left, (invalid, ""))
        sides = has_found * np.uint8(HAS_FOUND) | has_left * np.uint8(HAS_LEFT)
        if interleave(sides, *hashes, *left, self._so_far, self._events, self._sides) < 0:
            raise ValueError(f"the buffer has no space for {len(sides)} rows after {self._so_far[0]}")

    def events(self) -> ImageEvents:
        """All of them."""
        made = self._so_far[1]
        key, image, at = self._events[:, :made]
        return ImageEvents(key, image, self._sides[:made], at)


def _hashes(
    columns: Mapping[str, Column], chain: ImageChain, has: Flags, noted: tuple[Column, str]
) -> tuple[Ints, Ints]:
    """Of each image the hash of its key, and of all of it: of all rows, or of those only that have one.

    Args:
        columns: Of the images.
        chain: Which of them count.
        has: Rows that have such an image.
        noted: The map `_invalid` of the rows, and the prefix of the columns' names there.
    """
    invalid, prefix = noted
    images, count = {name: columns[name] for name in chain.columns}, len(has)
    # To copy the rows costs as much as to hash half of them.
    if 2 * np.count_nonzero(has) < count:
        some = pa.table(images).filter(column_of(has)).combine_chunks()
        # To make one array of none Arrow imports pandas, which takes a third of a second.
        images = {name: some[name].combine_chunks() if len(some) else column[:0] for name, column in images.items()}
        count, invalid = len(some), invalid.filter(column_of(has))
    keys = hash_keys([images[name] for name in chain.keys], count)
    return (
        with_texts(keys, texts_of(invalid, prefix, chain.invalid_of(chain.keys))),
        with_texts(hash_rows(images.values(), count), texts_of(invalid, prefix, chain.invalid_of(chain.columns))),
    )


def texts_of(invalid: Column, prefix: str, names: Sequence[str | None]) -> list[pa.Array | None]:
    """What the map `_invalid` of some rows has of each of some columns; None for none.

    Args:
        invalid: The map.
        prefix: The prefix of the columns' names there.
        names: What it calls the columns; None for one that it never has.
    """
    if invalid.null_count == len(invalid):
        return [None] * len(names)
    texts = [None if name is None else pc.map_lookup(invalid, f"{prefix}{name}", "first") for name in names]
    arrays = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in texts]
    return [None if array is None or array.null_count == len(array) else array for array in arrays]


def with_texts(hashes: Ints, texts: Sequence[pa.Array | None]) -> Ints:
    """Hashes of the values of some columns, with what `_invalid` has of these: most rows have nothing there, and their
    hashes stay as they are."""
    for at, column in enumerate(texts):
        if column is not None:
            there = flags_of(column.is_valid())
            some = column.filter(column_of(there))
            hashes = hashes.copy()
            hashes[there] ^= hash_rows([some], len(some)) * np.int64(2 * at + 1)
    return hashes


def hash_keys(keys: Sequence[Any], count: int) -> Ints:
    """One number a row of the columns of a key."""
    # A number is its own hash, and new ones mostly rise.
    hashes = whole_numbers(keys[0]) if len(keys) == 1 else None
    return hash_rows(keys, count) if hashes is None else hashes


def joined(parts: Sequence[ImageEvents]) -> ImageEvents:
    """Events of several files, one after the other."""
    none = np.zeros(0, np.int64)
    empty = ImageEvents(none, none, np.zeros(0, np.uint8), none)
    return ImageEvents(*(np.concatenate(columns) for columns in zip(empty, *parts, strict=True)))


class ChainFindings(NamedTuple):
    """What follows from the order of images."""

    first: Ints
    """The index of the first event of each key, rising."""
    last: Ints
    """The index of the last event, keys in the same order."""
    broken: Ints
    """Indexes of events that do not follow from the event before them of the same key, rising."""


def follow(events: ImageEvents, buffers: ImageBuffers | None = None) -> ChainFindings:
    """Follows each key through events in the order of the stream; what is found may lie in `buffers`."""
    return _follow(events.key, (events.image, events.side), (events.image, events.side), buffers)


def _follow(
    key: Ints, first: tuple[Ints, Sides], last: tuple[Ints, Sides], buffers: ImageBuffers | None = None
) -> ChainFindings:
    """The same for indexes with a first image and side, and a last one."""
    count = len(key)
    if np.all(key[1:] > key[:-1]):
        return ChainFindings(np.arange(count), np.arange(count), np.zeros(0, np.int64))
    # At most two thirds of the slots are taken: fewer would be read from further away.
    slots = np.zeros(1 << (count + count // 2).bit_length(), np.int32)
    words = (buffers or ImageBuffers()).words("places", count)
    order, broken = words[:2], words[2]
    keys, odd = follow_keys(key, *first, *last, slots, order, broken)
    if keys < 0:
        raise ValueError(f"{count} keys, and images or sides of another number")
    return ChainFindings(order[0, :keys], order[1, :keys], broken[:odd])


def edges_of(events: ImageEvents, followed: ChainFindings, requested: Ints) -> Edges:
    """The first and last event of each key. Of the keys `requested` (by their number), the first event is wanted."""
    first, last = followed.first, followed.last
    # All files' edges stay in memory: for arrays as large as these the system maps large pages, which takes less time.
    words, flags = np.empty((4, len(first)), np.int64), np.zeros((3, len(first)), np.uint8)
    chosen = (events.key, first), (events.image, first), (events.at, first), (events.image, last)
    for at, (column, rows_at) in enumerate(chosen):
        np.take(column, rows_at, out=words[at], mode="clip")  # else NumPy makes a copy first
    flags[0], flags[1] = events.side[first], events.side[last]
    is_requested = flags[2].view(np.bool_)
    is_requested[requested] = True
    return Edges(words[0], words[1], flags[0], words[2], words[3], flags[1], is_requested)


class Firsts(NamedTuple):
    """Of some keys of a file the first image, where that is one before a change: it has to be what was left earlier."""

    key: Ints
    image: Ints
    at: Ints
    """The row in the file."""
    seq: Ints
    row: Ints


class Sampling(Struct, frozen=True):
    """Which keys of a table are compared with what was published earlier."""

    keys: int | None
    """So many at most; None for all."""
    salt: int
    """Another seed chooses other keys."""

    def chosen(self, keys: Ints) -> Ints:
        """Indexes of the chosen keys, the same for equal keys wherever they are, in rising order."""
        if self.keys is None or len(keys) <= self.keys:
            return np.arange(len(keys))
        mixed = (keys ^ np.int64(self.salt)).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        # The lower bits of a product depend on few of a number's.
        mixed ^= mixed >> np.uint64(32)
        return np.sort(np.argpartition(mixed * np.uint64(0xD6E8FEB86659FD93), self.keys)[: self.keys])


def sampled_keys(events: ImageEvents, followed: ChainFindings, sampling: Sampling) -> Ints:
    """Keys whose first image is one before a change, or a sample of them: by their number in `followed`."""
    at = np.flatnonzero(events.side[followed.first] == FOUND)
    return at[sampling.chosen(events.key[followed.first[at]])]


def firsts_of(events: ImageEvents, followed: ChainFindings, requested: Ints, seq: Ints, row: Ints) -> Firsts:
    """The first images of some keys.

    Args:
        events: All of the file.
        followed: What follows from them.
        requested: Numbers of the keys whose first event is requested.
        seq: Of each row of the file.
        row: Likewise.
    """
    chosen = followed.first[requested]
    at = events.at[chosen]
    return Firsts(events.key[chosen], events.image[chosen], at, seq[at], row[at])


class BetweenFiles(NamedTuple):
    """What follows where the images of a key continue from one file to the next."""

    file: Ints
    """Where they do not follow: the number of the file with the later image."""
    at: Ints
    """The row in it."""
    side: Sides
    met_file: Ints
    """If a key is requested that an earlier file has: the number of the file that requests it."""
    met_key: Ints


def broken_between(files: Sequence[Edges], most_near: int = 4) -> BetweenFiles:
    """Compares the first image of each key in a file with its last one in the files before.

    Args:
        files: In the order of the stream.
        most_near: A file whose range of keys meets those of more files is compared whole: to leave keys out would cost
            more than it saves.
    """
    shared = list(_shared(files, most_near))
    key, first_image, first_side, first_at, last_image, last_side, is_requested = (
        np.concatenate(columns) for columns in zip(*shared, strict=True)
    )
    number = np.repeat(np.arange(len(files)), [len(edges.key) for edges in shared])
    followed = _follow(key, (first_image, first_side), (last_image, last_side))
    breaks, met = followed.broken, is_requested
    met[followed.first] = False
    return BetweenFiles(number[breaks], first_at[breaks], first_side[breaks], number[met], key[met])


def _shared(files: Sequence[Edges], most_near: int) -> Iterator[Edges]:
    """Of each file the keys that another one may have, by the least and greatest: of numbers that rise, hardly any."""
    bounds = [(edges.key.min(), edges.key.max()) if len(edges.key) else (1, 0) for edges in files]
    low, high = np.array(bounds, np.int64).reshape(-1, 2).T
    for at, edges in enumerate(files):
        near = (low <= high[at]) & (high >= low[at]) & (low <= high)
        near[at] = False
        if np.count_nonzero(near) > most_near:
            yield edges
            continue
        chosen = np.zeros(len(edges.key), np.bool_)
        for other in np.flatnonzero(near):
            chosen |= (edges.key >= low[other]) & (edges.key <= high[other])
        yield edges.selected(chosen)


def split_edges(edges: Edges, parts: int) -> Iterator[tuple[int, Edges]]:
    """The edges of a file by the hash of their key, in `parts` (65,536 at most); parts without any are skipped."""
    part = (edges.key % parts).astype(np.uint16)
    order = np.argsort(part, kind="stable")  # of small numbers in time that goes with their count
    ends = np.cumsum(np.bincount(part, minlength=parts))
    ordered = edges.selected(order)
    for number, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        if begin < end:
            yield number, ordered.selected(slice(begin, end))
