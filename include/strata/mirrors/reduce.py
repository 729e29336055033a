"""A batch of changes reduced to what it amounts to: rows that go, and rows that come.
Not here: where the rows lie (`key_index.py`), writing them (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct

from strata.mirrors.complete import completed
from strata.mirrors.key_index import Wanted
from strata.mirrors.layout import SEQ
from strata.tables.state import Events, row_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from strata.schema.model.definition import TableDefinition

    Ints = NDArray[np.int64]


class Reduced(Struct, frozen=True):
    """What a batch amounts to."""

    gone: Wanted
    """Keys, or whole rows of a table without one, with the number of rows that they have in front of the batch."""
    put: pa.Table
    """Rows behind it, with `_seq`."""


def reduce_changes(
    changes: pa.Table,
    definition: TableDefinition,
    key: Sequence[str],
    rows_of: Callable[[pa.Table], pa.Table],
) -> Reduced:
    """What changes of one schema version amount to, in the order (`_seq`, `_row`).

    Args:
        changes: Rows of the change table in the shape of `definition`, in any order.
        definition: The version's.
        key: Columns that name a row; none if a whole row names itself.
        rows_of: From keys to the rows that the mirror has under them, for images that lack columns.

    Raises:
        Usage: An image lacks columns that are known from nowhere.
    """
    ordered = changes.sort_by([("_seq", "ascending"), ("_row", "ascending")])
    events = Events.of(ordered, definition)
    seqs = np.asarray(ordered["_seq"].to_numpy())[events.put]
    after = completed(events, definition, key, ordered["_missing"], rows_of)
    put = after.append_column(pa.field(SEQ, pa.int64()), pa.array(seqs, pa.int64()))
    return (_by_key if key else _by_row)(events, put, list(key) or after.schema.names)


def _order(events: Events) -> Ints:
    """Images in order, those before changes and then those after them; within a change the image before goes first."""
    return np.argsort(np.concatenate([2 * events.taken, 2 * events.put + 1]), kind="stable")


def _codes(events: Events, put: pa.Table, names: list[str]) -> Ints:
    return row_codes(pa.concat_tables([events.before.select(names), put.select(names)]))


def _by_key(events: Events, put: pa.Table, names: list[str]) -> Reduced:
    takes = events.before.num_rows
    codes, order = _codes(events, put, names), _order(events)
    count = codes.max(initial=-1) + 1
    first, last = np.empty(count, np.int64), np.empty(count, np.int64)
    # NumPy keeps the last of several values that are assigned to one place.
    last[codes[order]] = order
    first[codes[order[::-1]]] = order[::-1]
    keys = pa.concat_tables([events.before.select(names), put.select(names)]).take(pa.array(first))
    return Reduced(
        gone=Wanted(keys, (first < takes).astype(np.int64), exact=True),
        put=put.take(pa.array(np.sort(last[last >= takes]) - takes)),
    )


def _by_row(events: Events, put: pa.Table, names: list[str]) -> Reduced:
    """Of equal rows nobody can tell which one changed: those that the batch itself has put are taken first."""
    takes = events.before.num_rows
    codes, order = _codes(events, put, names), _order(events)
    weights = np.where(order < takes, -1, 1)
    grouped = np.argsort(codes[order], kind="stable")
    ordered, sums = codes[order][grouped], np.cumsum(weights[grouped])
    starts = np.flatnonzero(np.r_[True, np.diff(ordered) != 0]) if len(ordered) else np.empty(0, np.int64)
    before = np.r_[0, sums][starts]
    lows = np.minimum.reduceat(sums, starts) - before if len(starts) else starts
    ends = np.r_[starts[1:], len(ordered)]
    needed = np.maximum(-lows, 0)
    left = needed + (sums[ends - 1] - before if len(starts) else 0)
    images = pa.concat_tables([events.before.select(names), put.select(names)])
    is_needed = needed > 0
    keys = images.take(pa.array(order[grouped[starts[is_needed]]]))
    kept = [
        images_of[images_of >= takes][-int(count) :] - takes
        for images_of, count in zip(_groups(order[grouped], starts, ends), left, strict=True)
        if count > 0
    ]
    places = np.sort(np.concatenate(kept)) if kept else np.empty(0, np.int64)
    return Reduced(gone=Wanted(keys, needed[is_needed], exact=False), put=put.take(pa.array(places)))


def _groups(images: Ints, starts: Ints, ends: Ints) -> list[Ints]:
    return [images[start:end] for start, end in zip(starts, ends, strict=True)]
