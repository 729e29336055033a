"""Arrays that the walk over events fills, enlarged and emptied between its calls.
Not here: the walk (`binlog/kernels/transactions.py`), what the arrays mean (`batch.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np
from msgspec import Struct

from strata_cdc.binlog.kernels.gtid import GTID_BYTES
from strata_cdc.binlog.kernels.layout import Entry, IndexState, Notes, OpenMap, Split, Transaction
from strata_cdc.binlog.kernels.records import records
from strata_cdc.binlog.kernels.widths import PRESENT_COLUMNS

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.binlog.kernels.records import Records

_ENDS: Final = ("entries_end", "statements_end", "splits_end")

Array = TypeVar("Array", bound="npt.NDArray[Any]")


def grown(array: Array, least: int) -> Array:
    """The array itself if it has `least` entries, else a copy with at least twice as many, the new ones 0."""
    if len(array) >= least:
        return array
    larger = np.zeros(max(least, 2 * len(array)), array.dtype)
    if len(array):
        # As bytes: numpy copies records field by field, which takes ten times as long.
        larger.view(np.uint8)[: array.nbytes] = array.view(np.uint8)
    return cast("Array", larger)


Columns = dict[str, "Ints"]
"""The fields of records by name, each in an array of its own."""


class FinishedNotes(Struct, frozen=True):
    """What finished transactions left, as in `Notes`."""

    transactions: Columns
    entries: Columns
    statements: Ints
    splits: Columns
    split_maps: Ints


class OpenMark(Struct, frozen=True):
    """What the open transaction had left at one moment."""

    entries: Records[Entry]
    row: int
    split: int
    splits: int
    """How many split points it had."""

    @classmethod
    def begin(cls, position: int) -> OpenMark:
        """Before the first event of a transaction, which begins at `position`."""
        return cls(records(Entry, 0), 0, position, 0)


class ScanBuffers:
    """The arrays that a walk writes to; the open transaction's part stays when the finished ones are removed."""

    def __init__(self) -> None:
        self.transactions = records(Transaction, 0)
        self.entries = records(Entry, 0)
        self.statements: Ints = np.empty(0, np.int64)
        self.splits = records(Split, 0)
        self.split_maps: Ints = np.zeros(64, np.int64)
        self.maps = records(OpenMap, 0)
        self.present = np.empty(PRESENT_COLUMNS, np.int64)
        self.key = np.zeros(GTID_BYTES, np.uint8)
        self.states = records(IndexState, 1)
        self.state = self.states[0]

    def notes(self) -> Notes:
        """The kernel's arguments; they must be read again after any other call."""
        return Notes(
            self.states,
            self.key,
            self.maps,
            self.transactions,
            self.entries,
            self.statements,
            self.splits,
            self.split_maps,
            self.present,
        )

    def reserve(self, events: int) -> None:
        """Reserves what `events` more events can add, all but `split_maps`. Nothing is reserved from the start."""
        state = self.state
        self.transactions = grown(self.transactions, state.transactions + events + 1)
        self.entries = grown(self.entries, state.entries + events + 1)
        self.statements = grown(self.statements, state.statements + events + 1)
        self.splits = grown(self.splits, state.splits + events + 1)
        self.maps = grown(self.maps, state.maps + events + 1)

    def reserve_split_maps(self) -> None:
        """Reserves what is needed for the TABLE_MAPs of one more split point."""
        self.split_maps = grown(self.split_maps, self.state.split_maps + self.state.maps)

    def mark(self) -> OpenMark:
        """What the open transaction has left so far."""
        state = self.state
        entries = self.entries[state.first_entry : state.entries].copy()
        return OpenMark(entries, int(state.row), int(state.split), int(state.splits) - self._closed_splits())

    def undo_to(self, mark: OpenMark) -> None:
        """Forgets the rows of the open transaction since `mark`, and the split points there. Statements stay."""
        state = self.state
        end = state.first_entry + len(mark.entries)
        self.entries[state.first_entry : end] = mark.entries
        state.entries, state.row, state.split, state.maps = end, mark.row, mark.split, 0
        state.splits = self._closed_splits() + mark.splits
        state.split_maps = int(self.splits[state.splits - 1].maps_end) if state.splits else 0

    def _closed_splits(self) -> int:
        """How many of the split points are of finished transactions."""
        closed = self.state.transactions
        return int(self.transactions[closed - 1].splits_end) if closed else 0

    def drain(self) -> FinishedNotes:
        """Copies of what the finished transactions left, which are then dropped. There is at least one."""
        state = self.state
        # Each of these reads of a field takes as long as three of a number.
        used_entries, used_statements, used_splits = state.entries, state.statements, state.splits
        transactions = _take_rows(self.transactions, state.transactions, state.transactions)
        entries, statements, splits = (int(transactions[name][-1]) for name in _ENDS)
        split_maps = int(self.splits[splits - 1].maps_end) if splits else 0
        drained = FinishedNotes(
            transactions,
            _take_rows(self.entries, entries, used_entries),
            _cut(self.statements, statements, used_statements),
            _take_rows(self.splits, splits, used_splits),
            _cut(self.split_maps, split_maps, state.split_maps),
        )
        state.transactions = state.first_entry = state.first_statement = 0
        state.entries, state.statements = used_entries - entries, used_statements - statements
        if used_splits:
            state.splits = used_splits - splits
            state.split_maps -= split_maps
            self.splits["maps_end"][: used_splits - splits] -= split_maps
        if entries:
            self.maps["entry"][: state.maps] -= entries
        return drained


def _take_rows(array: Records[Any], count: int, used: int) -> Columns:
    """Removes `count` records from the beginning; those after them, up to `used`, move there."""
    # As numbers, for the same reason.
    numbers = array.view(np.int64).reshape(len(array), -1)
    drained = numbers[:count].T.copy()
    if used > count:
        numbers[: used - count] = numbers[count:used].copy()
    return dict(zip(array.dtype.names or (), drained, strict=True))


def _cut(array: Ints, count: int, used: int) -> Ints:
    """The same with numbers."""
    drained = array[:count].copy()
    if used > count:
        array[: used - count] = array[count:used].copy()
    return drained
