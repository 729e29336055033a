"""Arrays that the walk over events fills, grown and emptied between its calls.
Not here: the walk (`kernels/transactions.py`), what the arrays mean (`batch.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from msgspec import Struct

from strata.kernels import transactions as walk
from strata.kernels.gtid import GTID_BYTES
from strata.kernels.layout import Notes
from strata.kernels.widths import PRESENT_COLUMNS

if TYPE_CHECKING:
    import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def grown(array: npt.NDArray[Number], least: int) -> npt.NDArray[Number]:
    """The array itself if it has `least` rows, else a copy with at least twice as many, the new ones 0."""
    if len(array) >= least:
        return array
    larger = np.zeros((max(least, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class Taken(Struct, frozen=True):
    """What finished transactions left: tables with the columns of `kernels/transactions.py`."""

    transactions: npt.NDArray[np.int64]
    entries: npt.NDArray[np.int64]
    statements: npt.NDArray[np.int64]
    splits: npt.NDArray[np.int64]
    split_maps: npt.NDArray[np.int64]


class ScanBuffers:
    """What a walk writes to; the open transaction's part stays when the finished ones are taken."""

    def __init__(self) -> None:
        self.transactions = np.zeros((64, walk.TRANSACTION_FIELDS), np.int64)
        self.entries = np.zeros((64, walk.ENTRY_FIELDS), np.int64)
        self.statements = np.zeros(64, np.int64)
        self.splits = np.zeros((4, walk.SPLIT_FIELDS), np.int64)
        self.split_maps = np.zeros(64, np.int64)
        self.maps = np.zeros((64, walk.OPEN_MAP_FIELDS), np.int64)
        self.present = np.empty(PRESENT_COLUMNS, np.int64)
        self.key = np.zeros(GTID_BYTES, np.uint8)
        self.state = np.zeros(walk.STATE_FIELDS, np.int64)

    def notes(self) -> Notes:
        """What the kernel takes; to be asked for again after any other call."""
        return Notes(
            self.state,
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
        self.transactions = grown(self.transactions, int(self.state[walk.TRANSACTIONS]) + events + 1)
        self.entries = grown(self.entries, int(self.state[walk.ENTRIES]) + events + 1)
        self.statements = grown(self.statements, int(self.state[walk.STATEMENTS]) + events + 1)
        self.splits = grown(self.splits, int(self.state[walk.SPLITS]) + events + 1)
        self.maps = grown(self.maps, int(self.state[walk.MAPS]) + events + 1)

    def reserve_split_maps(self) -> None:
        """Reserves what is needed for the TABLE_MAPs of one more split point."""
        self.split_maps = grown(self.split_maps, int(self.state[walk.SPLIT_MAPS]) + int(self.state[walk.MAPS]))

    def take(self) -> Taken:
        """Copies of what the finished transactions left, which is then forgotten. There is at least one."""
        state, last = self.state, self.transactions[int(self.state[walk.TRANSACTIONS]) - 1]
        splits = int(last[walk.T_SPLITS_END])
        split_maps = int(self.splits[splits - 1, walk.S_MAPS_END]) if splits else 0
        taken = Taken(
            self.transactions[: int(state[walk.TRANSACTIONS])].copy(),
            _shift(self.entries, state, walk.ENTRIES, int(last[walk.T_ENTRIES_END])),
            _shift(self.statements, state, walk.STATEMENTS, int(last[walk.T_STATEMENTS_END])),
            _shift(self.splits, state, walk.SPLITS, splits),
            _shift(self.split_maps, state, walk.SPLIT_MAPS, split_maps),
        )
        self.splits[: int(state[walk.SPLITS]), walk.S_MAPS_END] -= split_maps
        self.maps[: int(state[walk.MAPS]), walk.M_ENTRY] -= len(taken.entries)
        state[walk.TRANSACTIONS] = state[walk.FIRST_ENTRY] = state[walk.FIRST_STATEMENT] = 0
        return taken


def _shift(table: npt.NDArray[np.int64], state: npt.NDArray[np.int64], field: int, count: int) -> npt.NDArray[np.int64]:
    """Takes `count` rows from the front; what is behind them, up to the number in the state, moves there."""
    taken = table[:count].copy()
    used = int(state[field])
    table[: used - count] = table[count:used].copy()
    state[field] = used - count
    return taken
