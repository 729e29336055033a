"""Arrays that the walk over events fills, grown and emptied between its calls.
Not here: the walk (`kernels/transactions.py`), what the arrays mean (`batch.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from msgspec import Struct

from strata.kernels.gtid import GTID_BYTES
from strata.kernels.layout import Entry, IndexState, Notes, OpenMap, Split, Transaction
from strata.kernels.records import records
from strata.kernels.widths import PRESENT_COLUMNS

if TYPE_CHECKING:
    import numpy.typing as npt

    from strata.kernels.arrays import Ints
    from strata.kernels.records import Records

Array = TypeVar("Array", bound="npt.NDArray[Any]")


def grown(array: Array, least: int) -> Array:
    """The array itself if it has `least` rows, else a copy with at least twice as many, the new ones 0."""
    if len(array) >= least:
        return array
    larger = np.zeros((max(least, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return cast("Array", larger)


class Taken(Struct, frozen=True):
    """What finished transactions left, as in `Notes`."""

    transactions: Records[Transaction]
    entries: Records[Entry]
    statements: Ints
    splits: Records[Split]
    split_maps: Ints


class ScanBuffers:
    """What a walk writes to; the open transaction's part stays when the finished ones are taken."""

    def __init__(self) -> None:
        self.transactions = records(Transaction, 64)
        self.entries = records(Entry, 64)
        self.statements: Ints = np.zeros(64, np.int64)
        self.splits = records(Split, 4)
        self.split_maps: Ints = np.zeros(64, np.int64)
        self.maps = records(OpenMap, 64)
        self.present = np.empty(PRESENT_COLUMNS, np.int64)
        self.key = np.zeros(GTID_BYTES, np.uint8)
        self.states = records(IndexState, 1)
        self.state = self.states[0]

    def notes(self) -> Notes:
        """What the kernel takes; to be asked for again after any other call."""
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
        """Reserves what is needed for what `events` more events can add, all but `split_maps`."""
        state = self.state
        self.transactions = grown(self.transactions, state.transactions + events + 1)
        self.entries = grown(self.entries, state.entries + events + 1)
        self.statements = grown(self.statements, state.statements + events + 1)
        self.splits = grown(self.splits, state.splits + events + 1)
        self.maps = grown(self.maps, state.maps + events + 1)

    def reserve_split_maps(self) -> None:
        """Reserves what is needed for the TABLE_MAPs of one more split point."""
        self.split_maps = grown(self.split_maps, self.state.split_maps + self.state.maps)

    def take(self) -> Taken:
        """Copies of what the finished transactions left, which is then forgotten. There is at least one."""
        state = self.state
        last = self.transactions[state.transactions - 1]
        split_maps = int(self.splits[last.splits_end - 1].maps_end) if last.splits_end else 0
        taken = Taken(
            _cut(self.transactions, state.transactions, state.transactions),
            _cut(self.entries, last.entries_end, state.entries),
            _cut(self.statements, last.statements_end, state.statements),
            _cut(self.splits, last.splits_end, state.splits),
            _cut(self.split_maps, split_maps, state.split_maps),
        )
        state.transactions = state.first_entry = state.first_statement = 0
        state.entries -= len(taken.entries)
        state.statements -= len(taken.statements)
        state.splits -= len(taken.splits)
        state.split_maps -= split_maps
        self.splits["maps_end"][: state.splits] -= split_maps
        self.maps["entry"][: state.maps] -= len(taken.entries)
        return taken


def _cut(array: Array, count: int, used: int) -> Array:
    """Takes `count` rows from the front; those behind them, up to `used`, move there."""
    # As numbers: numpy copies records field by field, which takes ten times as long.
    numbers = array.view(np.int64).reshape(len(array), -1)
    taken = numbers[:count].copy()
    numbers[: used - count] = numbers[count:used].copy()
    return cast("Array", taken.view(array.dtype)[:, 0])
