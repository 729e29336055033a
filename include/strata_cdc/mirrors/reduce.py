"""Reduces a batch of changes to its result: rows to delete, and rows to add.
Not here: where the rows are (`key_index.py`), writing them (`apply.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from strata_cdc.arrow_columns import no_rows
from strata_cdc.mirrors.complete import completed
from strata_cdc.mirrors.ddl_plan import CannotFollowError
from strata_cdc.mirrors.key_index import KeyLookup
from strata_cdc.mirrors.layout import SEQ, exact_key
from strata_cdc.tables.convert import exact_schema
from strata_cdc.tables.state import ImageChanges, in_order, row_codes, sequence_row
from strata_cdc.tables.unknown_before import with_keys_before

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from strata_cdc.schema.model.definition import TableDefinition

    Ints = NDArray[np.int64]

_BITS: Final = 63


class ReducedBatch(Struct, frozen=True):
    """The result of a batch."""

    gone: KeyLookup
    """Keys, or whole rows of a table without a key, with the number of rows that they have before the batch."""
    put: pa.Table
    """Rows after the batch, with `_seq`."""
    may_have_new_keys: bool = False
    """Whether keys that are not there show that updates without images before have changed keys."""


def reduce_changes(
    changes: pa.Table,
    definition: TableDefinition,
    key: Sequence[str],
    rows_of: Callable[[pa.Table], pa.Table],
) -> ReducedBatch:
    """The result of changes of one schema version, applied in the order (`_seq`, `_row`).

    Args:
        changes: Rows of the change table with the columns of `definition`, in any order.
        definition: The definition of that version.
        key: Columns that identify a row; none if only a whole row identifies itself.
        rows_of: Returns the mirror's rows with the given keys, for images that lack columns; of a sequence, its row.

    Raises:
        Usage: An image lacks columns whose values are not known; or an update of which nothing is known before has
            changed a key.
    """
    ordered = in_order(changes)
    known = with_keys_before(ordered, definition, key)
    may_have_new_keys, ordered = known is not ordered, known
    events = ImageChanges.from_changes(ordered, definition)
    seqs = np.asarray(ordered["_seq"].to_numpy())[events.after_at]
    if definition.sequence:
        return _replaced(rows_of(events.before), events, int(seqs[-1]))
    after = completed(events, definition, key, ordered["_missing"], rows_of)
    reduced = (_by_key if key else _by_row)(events, _with_seqs(after, seqs), list(key) or after.schema.names)
    return replace(reduced, may_have_new_keys=may_have_new_keys)


def rows_of_new_table(changes: pa.Table, definition: TableDefinition) -> pa.Table:
    """The rows that a table has after changes in the transaction that made it, before which it had none; with `_seq`.

    CREATE TABLE ... REPLACE SELECT logs updates and deletes, too; MINIMAL images lack the columns that the query does
    not give.

    Args:
        changes: Changes with the columns of `definition`, in any order: all of the transaction, or a part of them.
        definition: The definition of the table.

    Raises:
        CannotFollowError: They change rows that an earlier part has added.
        Usage: As `reduce_changes`.
    """
    ordered, rows = in_order(changes), no_rows(exact_schema(definition))
    if pc.all(pc.equal(ordered["_op"], "insert")).as_py():
        events = ImageChanges.from_changes(ordered, definition)
        return _with_seqs(events.after, np.asarray(ordered["_seq"].to_numpy())[events.after_at])
    reduced = reduce_changes(ordered, definition, exact_key(definition), lambda _: rows)
    if reduced.gone.counts.any():
        raise CannotFollowError(
            "the query that made the table replaced some of its rows, and added more rows than one batch of changes has"
        )
    return reduced.put


def _with_seqs(rows: pa.Table, seqs: Ints) -> pa.Table:
    return rows.append_column(pa.field(SEQ, pa.int64()), pa.array(seqs, pa.int64()))


def _replaced(rows: pa.Table, events: ImageChanges, seq: int) -> ReducedBatch:
    """A sequence has one row, and each change replaces it: the log has them as inserts."""
    put = sequence_row(rows, events)
    gone = KeyLookup(rows.select(put.schema.names), np.ones(rows.num_rows, np.int64), exact=False)
    return ReducedBatch(
        gone=gone,
        put=put.append_column(pa.field(SEQ, pa.int64()), pa.array([seq] * put.num_rows, pa.int64())),
    )


def _times(events: ImageChanges) -> Ints:
    """The time of each image: first of all images before changes, then of all images after them. Within a change, the
    image before is earlier."""
    return np.concatenate([2 * events.before_at, 2 * events.after_at + 1])


def _images(events: ImageChanges, put: pa.Table, names: list[str]) -> pa.Table:
    return pa.concat_tables([events.before.select(names), put.select(names)])


def _by_key(events: ImageChanges, put: pa.Table, names: list[str]) -> ReducedBatch:
    count_before, images = events.before.num_rows, _images(events, put, names)
    first, last = _edges(_numbers(images), _times(events))
    return ReducedBatch(
        gone=KeyLookup(images.take(pa.array(first)), (first < count_before).astype(np.int64), exact=True),
        put=put.take(pa.array(np.sort(last[last >= count_before]) - count_before)),
    )


def _numbers(images: pa.Table) -> Ints:
    """A number for each image: equal exactly if the keys are equal. A key of one integer is its own number."""
    column = images.column(0)
    if images.num_columns == 1 and pa.types.is_integer(column.type) and column.null_count == 0:
        numbers = column.cast(pa.int64()).combine_chunks().to_numpy()
        return np.asarray(numbers)
    return row_codes(images)


def _edges(numbers: Ints, times: Ints) -> tuple[Ints, Ints]:
    """The indexes of each number's first and last image, by their times (all different), in order of the numbers."""
    if not len(numbers):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    low, shift = int(numbers.min()), int(times.max()).bit_length()
    if (int(numbers.max()) - low).bit_length() + shift > _BITS:
        numbers, low = np.unique(numbers, return_inverse=True)[1], 0
    # A sort of both in one number takes half of the time of a sort that returns indexes.
    ordered = np.sort((numbers - low) << shift | times)
    ends = np.append(np.flatnonzero(ordered[1:] >> shift != ordered[:-1] >> shift), len(ordered) - 1)
    starts = np.append(0, ends[:-1] + 1)
    place_at = np.empty(1 << shift, np.int32)
    place_at[times] = np.arange(len(times), dtype=np.int32)
    first, last = (place_at[ordered[at] & ((1 << shift) - 1)].astype(np.int64) for at in (starts, ends))
    return first, last


def _by_row(events: ImageChanges, put: pa.Table, names: list[str]) -> ReducedBatch:
    """Equal rows cannot be distinguished: of these, rows that the batch itself has added are deleted first."""
    count_before, images = events.before.num_rows, _images(events, put, names)
    codes, order = row_codes(images), np.argsort(_times(events), kind="stable")
    weights = np.where(order < count_before, -1, 1)
    grouped = np.argsort(codes[order], kind="stable")
    ordered, sums = codes[order][grouped], np.cumsum(weights[grouped])
    starts = np.flatnonzero(np.r_[True, np.diff(ordered) != 0]) if len(ordered) else np.empty(0, np.int64)
    before = np.r_[0, sums][starts]
    lows = np.minimum.reduceat(sums, starts) - before if len(starts) else starts
    # Changes of rows of the past have no images.
    ends = np.r_[starts[1:], len(ordered)] if len(ordered) else starts
    needed = np.maximum(-lows, 0)
    left = needed + (sums[ends - 1] - before if len(starts) else 0)
    is_needed = needed > 0
    keys = images.take(pa.array(order[grouped[starts[is_needed]]]))
    kept = [
        images_of[images_of >= count_before][-int(count) :] - count_before
        for images_of, count in zip(_groups(order[grouped], starts, ends), left, strict=True)
        if count > 0
    ]
    kept_rows = np.sort(np.concatenate(kept)) if kept else np.empty(0, np.int64)
    return ReducedBatch(gone=KeyLookup(keys, needed[is_needed], exact=False), put=put.take(pa.array(kept_rows)))


def _groups(images: Ints, starts: Ints, ends: Ints) -> list[Ints]:
    return [images[start:end] for start, end in zip(starts, ends, strict=True)]
