"""Is the image before each change what the changes before it left? Compares while a table is replayed; no server is
queried.
Not here: replaying (`quality/proof/replay.py`), what is reported of a table (`verify_changes.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata_cdc.changes.arrow import BEFORE
from strata_cdc.mirrors.complete import completed
from strata_cdc.mirrors.layout import key_columns
from strata_cdc.quality.reconcile.compare import masked
from strata_cdc.quality.reconcile.report import RowDifference, Side
from strata_cdc.tables.state import ImageChanges, apply_changes, in_order, last_of_each_key, row_codes
from strata_cdc.tables.verbatim import coalesced, exact_names, own_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from strata_cdc.quality.reconcile.compare import ShownRows
    from strata_cdc.quality.reconcile.parts import RowPartition
    from strata_cdc.schema.model.definition import TableDefinition

    Codes = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_LEFT, _FOUND = 0, 1


class Chain:
    """A replay's `apply` that keeps what does not follow."""

    def __init__(
        self,
        whole_since: int | None,
        shown: ShownRows,
        part: RowPartition | None = None,
        count: Callable[[pa.Table], int] = len,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            whole_since: Ordinal of the transaction since which all rows are in the stream; None if never.
            shown: What may be shown.
            part: Of the table, if it is replayed in parts: other rows are not compared.
            count: How many of some changes are counted here.
        """
        self._whole_since, self._shown, self._part, self._count = whole_since, shown, part, count
        self.looked = 0
        """Changes that were looked at."""
        self.broken = 0
        self.differences: list[RowDifference] = []

    def apply(self, state: pa.Table, changes: pa.Table, definition: TableDefinition) -> pa.Table:
        """As `apply_changes`."""
        events = _ImageSequence(state, changes.sort_by([("_seq", "ascending"), ("_row", "ascending")]), definition)
        is_whole = self._whole_since is not None and events.first_seq > self._whole_since
        key = _key_of(state, definition)
        odd = events.broken(is_whole=is_whole) if key else events.removed_too_often(is_whole=is_whole)
        if self._part is not None:
            odd = events.of_part(odd, self._part)
        self.looked += self._count(changes)
        self.broken += len(odd)
        room = self._shown.most - len(self.differences)
        self.differences += [events.difference(at, self._shown) for at in odd[: max(room, 0)].tolist()]
        return _applied(state, changes, definition, key) if key else apply_changes(state, changes, definition)


def _key_of(state: pa.Table, definition: TableDefinition) -> list[str]:
    """What images before changes always have: without a primary key MySQL takes the first unique key without NULL."""
    return [name for name in exact_names(definition, key_columns(definition)) if name in state.schema.names]


def _applied(state: pa.Table, changes: pa.Table, definition: TableDefinition, key: list[str]) -> pa.Table:
    """The rows after changes; what an image lacks is in the row before it, whatever key that had."""

    def rows_of(keys: pa.Table) -> pa.Table:
        codes = row_codes(pa.concat_tables([state.select(key), keys]))
        return state.filter(pa.array(np.isin(codes[: state.num_rows], codes[state.num_rows :])))

    ordered = in_order(changes)
    events = ImageChanges.from_changes(ordered, definition)
    return last_of_each_key(state, events, completed(events, definition, key, ordered["_missing"], rows_of), key)


class _ImageSequence:
    """All images of a table in order: the rows that are there, then of each change what it found and what it left."""

    def __init__(self, state: pa.Table, changes: pa.Table, definition: TableDefinition) -> None:
        names = state.schema.names
        op = changes["_op"]
        events = ImageChanges.from_changes(changes, definition)
        found_at, left_at = events.before_at, events.after_at
        before = changes[BEFORE].take(pa.array(found_at))
        images = pa.Table.from_arrays([pc.struct_field(before, [name]) for name in names], names=names)
        left = _left(events, changes, definition).select(names)
        self._changes = changes
        key = _key_of(state, definition)
        self._key = key or names
        self._images = pa.concat_tables([state, images.cast(state.schema), left.cast(state.schema)])
        self._side = np.repeat([_LEFT, _FOUND, _LEFT], [state.num_rows, len(found_at), len(left_at)])
        self._at = np.concatenate([np.full(state.num_rows, -1, np.int64), found_at, left_at])
        has_all = pc.or_(pc.is_null(changes["_missing"]), pc.equal(op, "insert"))
        whole = pc.and_(has_all, pc.invert(_has_differences(changes, definition)))
        if not key:
            whole = pa.chunked_array([pa.array(np.ones(len(whole), bool))])
        self._is_whole = np.concatenate(
            [np.ones(state.num_rows, bool), whole.to_numpy(zero_copy_only=False)[self._at[state.num_rows :]]]
        )
        self._order = np.lexsort([1 - self._side, self._at])
        self._codes: Codes | None = None
        self.first_seq = pc.min(changes["_seq"]).as_py() or 0

    def broken(self, *, is_whole: bool) -> Codes:
        """Images, by their number, that do not follow from the one before them of the same key."""
        key = self._key_codes()
        order = self._order[np.argsort(key[self._order], kind="stable")]
        image = row_codes(self._images)
        before, after = order[:-1], order[1:]
        same = key[before] == key[after]
        twice = self._side[before] == self._side[after]
        known = self._is_whole[before] & self._is_whole[after]
        changed = (self._side[after] == _FOUND) & known & (image[before] != image[after])
        odd = after[same & (twice | changed)]
        if is_whole and len(order):
            first = order[np.concatenate(([True], ~same))]
            odd = np.concatenate([odd, first[self._side[first] == _FOUND]])
        return self._in_order(odd)

    def removed_too_often(self, *, is_whole: bool) -> Codes:
        """Without a key: images that changes found more often than rows like them were left."""
        if not is_whole:
            return np.empty(0, np.int64)
        image = row_codes(self._images)
        order = self._order[np.argsort(image[self._order], kind="stable")]
        weight = np.where(self._side[order] == _FOUND, -1, 1)
        total = np.cumsum(weight)
        new = np.concatenate(([True], image[order][1:] != image[order][:-1]))
        base = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
        before = np.concatenate(([0], total))[base]
        return self._in_order(order[(weight < 0) & (total - before < 0)])

    def of_part(self, images: Codes, part: RowPartition) -> Codes:
        """Those of some images whose row is of a part."""
        return images[part.has(self._keys().take(pa.array(images)))]

    def difference(self, at: int, shown: ShownRows) -> RowDifference:
        """The difference that is reported of an image."""
        mine = self._row(at)
        change = int(self._at[at])
        previous = self._previous(at) if len(self._key) < self._images.num_columns else None
        if self._side[at] == _LEFT:
            left, image = previous, None
        else:
            left, image = previous, mine
        names = [name for name in mine if left is None or image is None or left[name] != image[name]]
        return RowDifference(
            Side.BROKEN,
            masked(mine, [name for name in self._key if name in mine], shown.hidden),
            left=None if left is None else masked(left, names, shown.hidden),
            found=None if image is None else masked(image, names, shown.hidden),
            gtid=self._changes["_gtid"][change].as_py() if change >= 0 else None,
        )

    def _key_codes(self) -> Codes:
        if self._codes is None:
            self._codes = row_codes(self._keys())
        return self._codes

    def _keys(self) -> pa.Table:
        """Of each image; a partial one after a change may lack its key, which the one before the change has."""
        keys = self._images.select(self._key)
        lacking = np.flatnonzero(~self._is_whole & (self._side == _LEFT) & (self._at >= 0))
        if not len(lacking):
            return keys
        image_at = np.full(self._changes.num_rows, -1, np.int64)
        images = np.flatnonzero(self._side == _FOUND)
        image_at[self._at[images]] = images
        source = np.arange(keys.num_rows)
        usable = image_at[self._at[lacking]]
        source[lacking] = np.where(usable >= 0, usable, lacking)
        others = keys.take(pa.array(source))
        mine, theirs = ({name: rows[name] for name in self._key} for rows in (keys, others))
        return pa.Table.from_arrays(list(coalesced(mine, theirs, self._key).values()), names=self._key)

    def _previous(self, at: int) -> dict[str, Any] | None:
        """The image before one of the same key."""
        key = self._key_codes()
        same = self._order[key[self._order] == key[at]]
        ordinal = int(np.flatnonzero(same == at)[0])
        return self._row(int(same[ordinal - 1])) if ordinal else None

    def _row(self, at: int) -> dict[str, Any]:
        [row] = self._images.slice(at, 1).to_pylist()
        return own_texts(row)

    def _in_order(self, numbers: Codes) -> Codes:
        return numbers[np.argsort(self._at[numbers], kind="stable")]


def _has_differences(changes: pa.Table, definition: TableDefinition) -> pa.Array:
    """Whether an image has only what changed in a document."""
    documents = [column.name for column in definition.columns if column.column_type == "json"]
    flags = pa.array(np.zeros(changes.num_rows, bool))
    for name in (f"{image}{of}" for of in documents for image in ("", f"{BEFORE}.")):
        if changes["_invalid"].null_count < changes.num_rows:
            flags = pc.or_(flags, pc.is_valid(pc.map_lookup(changes["_invalid"], name, "first")))
    return flags


def _left(events: ImageChanges, changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """The images after changes that are in order, with the defaults of columns that inserts did not give; whole if
    there is no key, by which nobody could find the rest."""
    if key_columns(definition):
        return events.after
    return completed(events, definition, (), changes["_missing"], lambda keys: keys)
