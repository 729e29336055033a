"""Decodes transactions into spans of the stream: batches of rows, DDL, and the ends of transactions.
Not here: which transactions (`port.py`), how their rows are read (`changes/port.py`), their DDL (`opened.py`), the
order within a span as events or lines (`rendering.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from strata_cdc.changes.arrow import ChangeColumns
from strata_cdc.changes.port import ChangeBatch, Hole, QuarantinedRows, Watermark
from strata_cdc.errors import StrataError
from strata_cdc.position.ordinals import AFTER_ALL
from strata_cdc.streams.unreadable import UnreadableRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from strata_cdc.binlog.kernels.arrays import Ints
    from strata_cdc.changes.port import DecodedItem
    from strata_cdc.schema.model.definition import TableName
    from strata_cdc.streams.events import Ddl, StreamTransaction
    from strata_cdc.streams.port import ChosenTransactions
    from strata_cdc.streams.positions import Mask

_NOWHERE: Final = (AFTER_ALL, 0)
"""After all transactions and rows."""
_NONE: Final = np.zeros(0, np.int64)
Part = TypeVar("Part")


class StreamBatch(Struct):
    """A span of the stream: everything in it comes after everything in the spans before it."""

    transactions: Mapping[int, StreamTransaction]
    """By ordinal: all transactions in the span, and maybe of others."""
    batches: list[ChangeBatch] = field(default_factory=list)
    """Rows, table by table."""
    ddl: list[Ddl] = field(default_factory=list)
    ended: Ints = _NONE
    """Ordinals of the transactions that end in it, in order."""
    unreadable: list[UnreadableRows] = field(default_factory=list)
    """Rows with a value that cannot be read, table by table; they are in none of the batches."""

    def __bool__(self) -> bool:
        return bool(self.batches or self.unreadable or self.ddl or len(self.ended))

    def joined(self, following: StreamBatch) -> StreamBatch:
        """Returns this span and the span after it as one span; both are of the same item."""
        return StreamBatch(
            self.transactions,
            self.batches + following.batches,
            self.ddl + following.ddl,
            np.concatenate([self.ended, following.ended]),
            self.unreadable + following.unreadable,
        )

    @property
    def rows(self) -> list[tuple[TableName, pa.RecordBatch]]:
        """All rows with their tables, readable or not: the position of each row in the stream is known."""
        batches: list[ChangeBatch | UnreadableRows] = [*self.batches, *self.unreadable]
        return [(some.table, some.batch) for some in batches]

    @property
    def seqs(self) -> Ints:
        """The ordinals of the transactions of which something is in the span, in order, each once."""
        ddl = np.array([statement.transaction.record.seq for statement in self.ddl], np.int64)
        parts = [*(row_seqs(rows) for _, rows in self.rows), ddl, self.ended]
        bounds = [(int(seqs.min()), int(seqs.max())) for seqs in parts if len(seqs)]
        if not bounds:
            return _NONE
        first, last = min(low for low, _ in bounds), max(high for _, high in bounds)
        is_there = np.zeros(last - first + 1, np.bool_)
        for seqs in parts:
            is_there[seqs - first] = True
        return np.flatnonzero(is_there) + first

    @property
    def commits(self) -> list[StreamTransaction]:
        """The transactions that end in the span."""
        return [self.transactions[seq] for seq in self.ended.tolist()]

    @property
    def last(self) -> StreamTransaction | None:
        """The last transaction that ends in the span; None if no transaction ends in it."""
        return self.transactions[int(self.ended[-1])] if len(self.ended) else None


class _OpenItem:
    """What was decoded of an item, and has not been yielded yet."""

    def __init__(self, chosen: ChosenTransactions, ddl: list[Ddl], *, everything: bool) -> None:
        """Begins with everything that is known without rows.

        Args:
            chosen: The item's transactions.
            ddl: DDL of these transactions, also what the reader has.
            everything: Whether the end of a transaction is wanted even if nothing else of the transaction is.
        """
        transactions = chosen.transactions
        self._given, self._everything = chosen.given, everything
        left = [
            statement for statement in ddl if statement.number > chosen.given.get(statement.transaction.record.seq, 0)
        ]
        self._left = StreamBatch(transactions, ddl=left, ended=transactions.seqs)
        self.unended = int(transactions.seqs[0])
        """Ordinal of the first transaction that has not ended before the end of the rows that have been yielded."""
        self._touched = {statement.transaction.record.seq for statement in ddl}
        """Ordinals of transactions that have rows or DDL for the reader, also what the reader has already, and have not
        ended."""
        self.fault: StrataError | None = None
        """The fault that comes first in the stream."""
        self.fault_at = AFTER_ALL
        """Ordinal of the first transaction whose end is not yielded because of the fault."""
        self._fault_end = _NOWHERE
        """The transaction and the row at which the fault is: no row from there on is yielded."""

    def put(self, step: DecodedItem) -> None:
        """Adds what was decoded."""
        if isinstance(step, ChangeBatch):
            self._left.batches.append(step)
        elif isinstance(step, QuarantinedRows):
            self._left.unreadable.append(UnreadableRows.from_quarantined(step))
        elif isinstance(step, Hole):
            self._fail(step.error, step.seq, (step.seq, 0))

    def fail(self, error: StrataError) -> None:
        """Of the transaction that has not ended, the rows before the fault are yielded; nothing after the fault is."""
        self._fail(error, self.unended, (self.unended, AFTER_ALL))

    def _fail(self, error: StrataError, at: int, end: tuple[int, int]) -> None:
        if self.fault is None or end < self._fault_end:
            self.fault, self.fault_at, self._fault_end = error, at, end

    @property
    def is_over(self) -> bool:
        """Whether nothing more is yielded."""
        return self.unended >= self.fault_at

    def cut(self, step: Watermark) -> StreamBatch:
        """Removes and returns the part up to a watermark."""
        self.unended = step.unended_seq
        end = min(self._fault_end, step.missing_from or _NOWHERE)
        return self._cut(min(self.unended, self.fault_at), end)

    def rest(self) -> StreamBatch:
        """Removes and returns everything that is still to be yielded."""
        return self._cut(self.fault_at, self._fault_end)

    def _cut(self, at: int, end: tuple[int, int]) -> StreamBatch:
        """Removes and returns what comes before transaction `at`, and what there is of `at` itself, without its end;
        with `AFTER_ALL`, everything. No row from the transaction and row `end` on is included."""
        left, transactions = self._left, self._left.transactions
        span = StreamBatch(transactions)
        for batch in left.batches:
            keep = _not_given(batch.batch, transactions, self._given, end)
            if keep.any():
                span.batches.append(batch if keep.all() else replace(batch, batch=batch.batch.filter(keep)))
        for some in left.unreadable:
            keep = _not_given(some.batch, transactions, self._given, end)
            if keep.any():
                span.unreadable.append(some.chosen(keep))
        span.ddl, ddl = _parted(left.ddl, lambda statement: statement.transaction.record.seq <= at)
        count = int(np.searchsorted(left.ended, at))
        ended = left.ended[:count]
        self._left = StreamBatch(transactions, ddl=ddl, ended=left.ended[count:])
        span.ended = ended if self._everything else self._that_have_something(left, ended)
        return span

    def _that_have_something(self, decoded: StreamBatch, ended: Ints) -> Ints:
        """Of the transactions that end in a span, those of which something is for the reader, in this span or before
        it. A reader that begins after the last of it does not have the end yet."""
        for _, rows in decoded.rows:
            self._touched.update(np.unique(row_seqs(rows)).tolist())
        if not self._touched:
            return _NONE
        changed = ended[np.isin(ended, list(self._touched))]
        self._touched.difference_update(changed.tolist())
        return changed


class Decoding:
    """Decodes the transactions of one stream, in its order."""

    def __init__(self, permit: AbstractContextManager[object], *, everything: bool) -> None:
        """Begins without transactions.

        Args:
            permit: Entered while something is decoded; several streams may share it: threads that do little between two
                calls of kernels lose more time by passing Python's lock to each other than they gain.
            everything: Whether the end of a transaction is wanted even if nothing else of the transaction is.
        """
        self._permit, self._everything = permit, everything
        self.failed_seq = AFTER_ALL
        """Ordinal of the transaction whose fault `decode` has raised."""

    def decode(self, chosen: ChosenTransactions, ddl: list[Ddl]) -> Iterator[StreamBatch]:
        """Yields what some transactions of an item have; then raises the error that ends the stream, if there is an
        error.

        Args:
            chosen: The transactions.
            ddl: Their statements, as `statements_of` returns them.

        Raises:
            StrataError: Rows are missing, or it is not known where they are; everything before them has been yielded.
        """
        # Reads from the lake before the permit is taken, so that other streams need not wait for the lake.
        chosen.changes.open()
        if not chosen.transactions:
            return
        spans = self._spans(chosen, ddl)
        while True:
            with self._permit:
                span = next(spans, None)
            if span is None:
                return
            yield span

    def _spans(self, chosen: ChosenTransactions, ddl: list[Ddl]) -> Iterator[StreamBatch]:
        open_ = _OpenItem(chosen, ddl, everything=self._everything)
        last = StreamBatch(chosen.transactions)
        try:
            for step in chosen.changes.rows():
                open_.put(step)
                if isinstance(step, Watermark):
                    batch = open_.cut(step)
                    # After the last rows, there are mostly only transactions without rows.
                    yield last if step.is_last else last.joined(batch)
                    last = batch if step.is_last else StreamBatch(chosen.transactions)
                    if open_.is_over:
                        break
        except StrataError as error:
            open_.fail(error)
        yield last.joined(open_.rest())
        if open_.fault is not None:
            self.failed_seq = open_.fault_at
            raise open_.fault


def _parted(items: list[Part], belongs: Callable[[Part], bool]) -> tuple[list[Part], list[Part]]:
    """The first items for which `belongs` is true, and the rest."""
    count = next((at for at, item in enumerate(items) if not belongs(item)), len(items))
    return items[:count], items[count:]


def _numbers(batch: pa.RecordBatch, name: str) -> Ints:
    """A column of numbers among those that every change has."""
    column = ChangeColumns(batch).fact(name)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def row_seqs(batch: pa.RecordBatch) -> Ints:
    """Returns the ordinals of the rows' transactions."""
    return _numbers(batch, "_seq")


def row_ordinals(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the ordinals of the rows in their transactions."""
    return _numbers(batch, "_row")


def _not_given(
    batch: pa.RecordBatch,
    transactions: Mapping[int, StreamTransaction],
    given: Mapping[int, int],
    end: tuple[int, int],
) -> Mask:
    """Which rows the reader does not have yet, of those before the transaction and row `end`."""
    if not given and end == _NOWHERE:
        return np.ones(batch.num_rows, np.bool_)
    seqs, rows = row_seqs(batch), row_ordinals(batch)
    keep: Mask = (seqs < end[0]) | ((seqs == end[0]) & (rows < end[1]))
    for seq, steps in given.items():
        if seq in transactions:
            keep &= (seqs != seq) | (rows + 1 + transactions[seq].statements > steps)
    return keep
