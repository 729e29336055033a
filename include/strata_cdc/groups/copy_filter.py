"""Copies: which transactions of a new source are, or may be, copies of what came from an old source.
Not here: where new sources begin (`switchovers.py`), excluding transactions (`chunks.py`).

MySQL's filtered replication copies a transaction with its GTID. Other copiers write what they copy in transactions of
their own, and keep the old source's GTID set in a row of these (Vitess: `_vt.blp_checkpoint.pos`, `_vt.vreplication`).
The transaction copies the GTIDs that are in the row's after image but not in its before image.
"""

from __future__ import annotations

from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from strata_cdc.changes.port import ChangeBatch
from strata_cdc.errors import InvalidGtidSetError, SourceSettingsError
from strata_cdc.position.executed import NOTHING, parse_executed
from strata_cdc.schema.model.folding import fold_name
from strata_cdc.streams.decoding import StreamBatch, row_seqs
from strata_cdc.streams.events import RowChange
from strata_cdc.streams.rendering import Rendering
from strata_cdc.streams.unreadable import UnreadableRows

if TYPE_CHECKING:
    from strata_cdc.binlog.protocol.server_clocks import Clocks
    from strata_cdc.groups.chunks import SpanTransactions
    from strata_cdc.groups.membership import Membership
    from strata_cdc.position.port import Executed

Batch = TypeVar("Batch", ChangeBatch, UnreadableRows)


class CopyKind(Enum):
    """Whether a transaction of a new source is a copy."""

    COPY = "copy"
    """All of it came from an old source."""
    NEW = "new"
    """None of it came from an old source."""
    PARTLY = "partly"
    """The copier put several transactions into one, and some of these came from an old source."""


class PositionColumn:
    """The column in which a copier keeps the position of what it copies."""

    def __init__(self, text: str) -> None:
        """Takes the column as `database.table.column`."""
        self.table, _, self.name = text.rpartition(".")
        self._folded = fold_name(self.table)

    def is_in(self, batch: ChangeBatch | UnreadableRows) -> bool:
        """Whether rows are of the column's table."""
        return fold_name(str(batch.table)) == self._folded

    def as_changes(self, rows: UnreadableRows) -> ChangeBatch:
        """Returns rows of the column's table in which other columns cannot be read.

        Raises:
            StrataError: This column cannot be read, so it is not known what a transaction copies.
        """
        left = rows.of_columns({self.name.casefold()})
        if not left.is_readable.all():
            raise left.chosen(~left.is_readable).error()
        return rows.as_changes()

    def copied(self, change: RowChange) -> Executed:
        """Returns what the transaction copies, by a change of the copier's row.

        Raises:
            SourceSettingsError: The column has something else than a GTID set.
        """
        before, after = self._position(change.before), self._position(change.after)
        return after - before

    def _position(self, image: dict[str, Any] | None) -> Executed:
        value = next(
            (content for name, content in (image or {}).items() if fold_name(name) == fold_name(self.name)), None
        )
        if value is None:
            return NOTHING
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        try:
            # Vitess writes the flavour first: MySQL56/UUID:1-77.
            return parse_executed(text.rpartition("/")[2])
        except InvalidGtidSetError:
            raise SourceSettingsError(
                f"{self.table}.{self.name} has something else than the GTID set of what was copied",
                table=self.table,
                remedy="`source_gtid_column` of the group names the column; docs/groups.md.",
            ) from None


class CopyFilter:
    """Finds the copies in one group's new sources."""

    def __init__(self, membership: Membership, clocks: Clocks, column: str | None) -> None:
        """Takes the group's sources, the servers' clocks, and `database.table.column` of the copier's positions, if
        there is such a column."""
        self._membership, self._clocks = membership, clocks
        self._column = None if column is None else PositionColumn(column)
        self._rendering = Rendering()
        self._held: dict[str, list[StreamBatch]] = {}
        self._known: dict[str, dict[int, Executed]] = {}
        """What transactions copy, by source and ordinal."""

    def add_span(self, source: str, span: StreamBatch) -> list[StreamBatch]:
        """Takes a span; returns the spans that are complete. The copier's row may be the last row of a transaction:
        until it has come, it is not known whether the transaction is a copy.

        Args:
            span: What has come from it.

        Raises:
            StrataError: As `PositionColumn.copied` and `PositionColumn.as_changes`.
        """
        column = self._column
        if column is None:
            return [span]
        known = self._known.setdefault(source, {})
        held = self._held.setdefault(source, [])
        if not held:
            known.clear()
        rows, span.batches = _parted(span.batches, column)
        unread, span.unreadable = _parted(span.unreadable, column)
        if self._membership.switchover_to(source) is None:
            return [span] if span else []
        rows += map(column.as_changes, unread)
        for change in self._rendering.events(StreamBatch(span.transactions, rows)):
            if isinstance(change, RowChange):
                known[change.seq] = known.get(change.seq, NOTHING) | column.copied(change)
        held.append(span)
        if _is_inside(span, rows):
            return []
        self._held[source] = []
        return [batch for batch in held if batch]

    def is_holding(self, source: str) -> bool:
        """Whether something of a source has come of which it is not known yet whether it is a copy."""
        return bool(self._held.get(source))

    def sort_out(self, source: str, chunk: SpanTransactions) -> None:
        """Excludes the copies from a span's transactions, and marks what may be a copy."""
        switchover = self._membership.switchover_to(source)
        if switchover is None:
            return
        chunk.epoch, given = self._membership.number(switchover), self._membership.copied(source)
        is_copy = chunk.held_by(given)
        until = None if switchover.copied_until is None else self._clocks.latest(source, switchover.copied_until)
        may_be_copy = switchover.may_be_copies(chunk.times, until)
        for seq, copied in self._known.get(source, {}).items():
            # The transaction itself shows what it copies.
            at = np.flatnonzero(chunk.seqs == seq)
            kind = _kind(copied, given)
            if kind is not None:
                is_copy[at] |= kind is CopyKind.COPY
                may_be_copy[at] = kind is CopyKind.PARTLY
        chunk.may_be_copy = may_be_copy
        chunk.leave_out(is_copy)


def _kind(copied: Executed, given: Executed) -> CopyKind | None:
    """What kind a transaction is that copies `copied`, when `given` came from old sources; None: it copies nothing."""
    if not copied:
        return None
    rest = copied - given
    if not rest:
        return CopyKind.COPY
    return CopyKind.NEW if rest == copied else CopyKind.PARTLY


def _parted(batches: list[Batch], column: PositionColumn) -> tuple[list[Batch], list[Batch]]:
    mine = [batch for batch in batches if column.is_in(batch)]
    return mine, [batch for batch in batches if not column.is_in(batch)]


def _is_inside(span: StreamBatch, rows: list[ChangeBatch]) -> bool:
    """Whether a span ends inside a transaction."""
    begun = [int(row_seqs(batch).max()) for _, batch in span.rows]
    begun += [int(row_seqs(batch.batch).max()) for batch in rows]
    begun += [ddl.transaction.record.seq for ddl in span.ddl]
    return reduce(max, begun, 0) > reduce(max, (transaction.record.seq for transaction in span.commits), 0)
