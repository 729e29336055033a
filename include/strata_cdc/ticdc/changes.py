"""A sink as a source of row-level changes: the commits of a window as columns, with their positions, DDL and rows.
Not here: what every source gives (`changes/port.py`), reading (`windows.py`), positions (`position/commit_ts.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from strata_cdc.changes.port import Watermark
from strata_cdc.position.commit_ts import CommitTs, time_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import DecodedItem, SchemaChange
    from strata_cdc.position.commit_ts import CommitStep
    from strata_cdc.ticdc.windows import CommitWindow


class SinkTransaction(Struct, frozen=True):
    """What is known of one commit, as `TransactionFacts`."""

    seq: int
    committed_at: int
    gtid: None = None


class SinkColumns(Struct, frozen=True):
    """The commits of a window, as `TransactionColumns`: TiDB has no GTIDs, and its clock is in milliseconds."""

    window: CommitWindow
    sids: tuple[()] = ()

    @property
    def first_seq(self) -> int:
        """Ordinal of the first commit."""
        return self.window.first_seq

    @property
    def sid_numbers(self) -> Ints:
        """None has a GTID."""
        return np.full(len(self), -1, np.int64)

    @property
    def numbers(self) -> Ints:
        """None has a number."""
        return np.zeros(len(self), np.int64)

    @property
    def committed_at(self) -> Ints:
        """By TiDB's clock, microseconds UTC."""
        return np.array([time_of(step.ts) for step in self.window.steps], np.int64)

    @property
    def commit_timestamps(self) -> Ints:
        """The same: there is one clock."""
        return self.committed_at

    @property
    def statements_end(self) -> Ints:
        """How many statements the commits up to each have."""
        counts = np.zeros(len(self), np.int64)
        for change in self.window.ddl:
            counts[change.seq - self.first_seq] += 1
        return np.cumsum(counts)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.window.steps)

    def record(self, row: int) -> SinkTransaction:
        """One of them, from 0."""
        return SinkTransaction(self.first_seq + row, time_of(self.window.steps[row].ts))


class SinkPositions(Struct, frozen=True):
    """The positions of the commits of a window, as `TransactionPositions`."""

    begin: CommitTs
    """What had been read before the window."""
    steps: tuple[CommitStep, ...]

    def before(self, row: int) -> CommitTs:
        """What was committed before one of them."""
        return self.after(row - 1) if row else self.begin

    def after(self, row: int) -> CommitTs:
        """What was committed after it."""
        return CommitTs(self.steps[row], self.begin.seq + row + 1)

    def transaction(self, row: int) -> CommitStep:
        """The commit itself."""
        return self.steps[row]


class SinkItem(Struct, frozen=True):
    """The commits of a window, which come together."""

    batch: SinkColumns

    def statements(self, record: SinkTransaction) -> Iterator[SchemaChange]:
        """The statements of one of them."""
        return (change for change in self.batch.window.ddl if change.seq == record.seq)


class SinkChanges(Struct, frozen=True):
    """What the commits of a window have done, as `TransactionChanges`."""

    window: CommitWindow
    is_last: bool = False
    """Whether nothing more is read."""

    def schema_changes(self) -> Iterator[SchemaChange]:
        """Their DDL, in order."""
        return iter(self.window.ddl)

    def open(self) -> None:
        """There is nothing to fetch: a window has its rows."""

    def rows(self) -> Iterator[DecodedItem]:
        """Their rows, table by table."""
        yield from self.window.rows
        yield Watermark(self.window.next_seq, self.is_last)
